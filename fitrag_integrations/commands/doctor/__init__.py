"""``fitrag doctor``: what this machine has."""
