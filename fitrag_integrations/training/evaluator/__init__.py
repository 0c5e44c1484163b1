"""Fit the retrieval evaluator."""
