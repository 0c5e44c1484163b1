"""Fit the one-pass head."""
