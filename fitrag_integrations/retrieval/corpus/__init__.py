"""Corpora as people have them: folders of text, Markdown, HTML, PDF and JSON Lines."""
