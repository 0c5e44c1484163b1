"""Texts as offsets: sentences, blocks, tokens, prompts, and cleaning."""
