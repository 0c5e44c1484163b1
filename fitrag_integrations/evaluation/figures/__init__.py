"""Figures of one evaluation each, with their intervals."""
