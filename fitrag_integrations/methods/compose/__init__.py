"""Methods over one another, from a recipe."""
