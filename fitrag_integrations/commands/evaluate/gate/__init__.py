"""``fitrag evaluate gate``: a gate against what is known."""
