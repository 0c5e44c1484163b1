"""``fitrag demo``: both frameworks over a small corpus that ships."""
