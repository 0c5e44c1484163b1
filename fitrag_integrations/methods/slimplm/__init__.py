"""SlimPLM (arXiv 2402.12052): a small proxy model decides when and what to retrieve."""
