"""Fit what stands on a causal language model."""
