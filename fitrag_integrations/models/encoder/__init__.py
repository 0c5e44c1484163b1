"""Encoders over pairs of question and passage, and their heads."""
