"""Verbs that run a model or a method over rows."""
