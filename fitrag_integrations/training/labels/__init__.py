"""Labels: asked for, judged, counted, kept."""
