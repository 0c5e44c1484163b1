"""Fit models on top of a causal language model."""
