"""Readers of corpora: folders of text, Markdown, HTML, PDF and JSON Lines."""
