"""``fitrag evaluate methods``: whole methods side by side."""
