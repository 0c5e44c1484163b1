"""Selectors and query engines that choose whether and where to retrieve."""
