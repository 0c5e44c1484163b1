"""IK (arXiv 2412.11536): whether the language model knows the answer by itself."""
