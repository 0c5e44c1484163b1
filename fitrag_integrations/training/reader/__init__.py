"""Fit the extractive reader."""
