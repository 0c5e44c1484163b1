"""Collect labels and fit the models of `fitrag_integrations.models`."""
