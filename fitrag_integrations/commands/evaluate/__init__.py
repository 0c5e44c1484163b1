"""``fitrag evaluate``: figures with intervals, and one page of all."""
