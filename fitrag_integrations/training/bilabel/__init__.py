"""Fit the bi-label scorer."""
