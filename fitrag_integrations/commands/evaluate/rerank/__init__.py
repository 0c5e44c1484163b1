"""``fitrag evaluate rerank``: the orders of a reranker."""
