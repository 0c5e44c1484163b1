"""Pages: fetched behind the guard, read, kept."""
