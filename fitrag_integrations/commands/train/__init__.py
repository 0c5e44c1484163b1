"""``fitrag train``: a model in a folder out of labelled rows."""
