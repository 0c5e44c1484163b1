"""Whole methods as query engines."""
