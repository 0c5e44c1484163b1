"""IK (arXiv 2412.11536): does the language model know the answer without retrieval?"""
