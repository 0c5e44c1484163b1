"""`fitrag try`: what this would save on somebody's own files."""
