"""Give the cleaning of web text its public place; it lives below, because methods clean as well."""

from fitrag_integrations._cleaning import PARAGRAPH_CHARS, clean_paragraphs, clean_text

__all__ = ["PARAGRAPH_CHARS", "clean_paragraphs", "clean_text"]
