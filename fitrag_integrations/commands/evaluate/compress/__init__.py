"""``fitrag evaluate compress``: what compression keeps."""
