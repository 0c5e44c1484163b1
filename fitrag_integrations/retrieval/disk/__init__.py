"""An index that grows on disk."""
