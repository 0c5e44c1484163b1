"""Search providers and the search over them."""
