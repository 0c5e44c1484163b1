"""Whole methods as Runnables."""
