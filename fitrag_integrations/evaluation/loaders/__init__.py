"""Readers of questions and run files in their published shapes.

Every shape converts to one kind of row: question, answers and, where the source has them, id, set,
passages[{title, text}], answer_groups, choices, prediction.
"""

from fitrag_integrations.evaluation.loaders.reading import (
    Loaded,
    convert,
    read_questions,
    read_records,
    recognize,
)
from fitrag_integrations.evaluation.loaders.shapes import FORMATS

__all__ = ["FORMATS", "Loaded", "convert", "read_questions", "read_records", "recognize"]
