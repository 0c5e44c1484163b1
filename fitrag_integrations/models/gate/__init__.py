"""Gates: what a model says about its own knowledge."""
