"""Methods by name and over one another, and what `fitrag fit` found."""
