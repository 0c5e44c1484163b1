"""Families of published rerankers, one file each: how it is loaded, tokenized and scored."""
