"""ITRG (arXiv 2310.05149): retrieval and generation in rounds."""
