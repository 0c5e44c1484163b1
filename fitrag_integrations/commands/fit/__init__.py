"""`fitrag fit`: fit everything to somebody's own files, and prove what it is worth."""
