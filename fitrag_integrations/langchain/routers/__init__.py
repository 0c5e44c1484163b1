"""Runnables that choose whether and where to retrieve."""
