"""Shared base classes of the LangChain components."""
