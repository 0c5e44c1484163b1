"""Corrective RAG (arXiv 2401.15884): grade what was retrieved, then refine it or search."""
