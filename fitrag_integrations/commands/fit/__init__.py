"""`fitrag try` and `fitrag fit`: measure and fit FIT-RAG on your own files."""
