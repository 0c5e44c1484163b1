"""Shared base classes of the LlamaIndex components."""
