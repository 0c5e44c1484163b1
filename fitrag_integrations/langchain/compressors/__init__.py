"""Document compressors."""
