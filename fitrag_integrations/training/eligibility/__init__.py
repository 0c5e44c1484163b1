"""Fit the eligibility detector."""
