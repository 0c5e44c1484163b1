"""The bi-label scorer of FIT-RAG."""
