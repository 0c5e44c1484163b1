"""FIT-RAG (arXiv 2403.14374): bi-label reranking, self-knowledge, sub-document compression."""
