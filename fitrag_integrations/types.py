"""The values that flow through every method: few, frozen, slotted, picklable, JSON-able.

This is their door; each lies in ``values`` with its own drawing. Nothing there knows a framework
or a model. Each type checks what it is given and raises ``InputError`` naming the field; numbers
come out as plain Python. ``to_dict`` gives dicts, lists, strings, numbers, booleans and None only,
and ``from_dict`` reads them back to an equal value.
"""

from __future__ import annotations

from fitrag_integrations.values.context import Context, Template
from fitrag_integrations.values.decision import Action, Draft, RetrievalDecision
from fitrag_integrations.values.excerpt import Excerpt
from fitrag_integrations.values.passage import Passage
from fitrag_integrations.values.score import BiLabelScore

__all__ = [
    "Action",
    "BiLabelScore",
    "Context",
    "Draft",
    "Excerpt",
    "Passage",
    "RetrievalDecision",
    "Template",
]
