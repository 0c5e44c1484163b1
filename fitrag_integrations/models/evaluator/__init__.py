"""The retrieval evaluator of CRAG."""
