"""Name the prompts for the language model (FIT-RAG, section 4.5, Figure 6 and Table 2).

``RETRIEVAL`` is the paper's comprehensive prompt and ``NO_RETRIEVAL`` its counterpart, which asks
for a background passage before the answer; ``Context.prompt()`` chooses between those two.
``SIMPLE`` and ``COT`` are what Table 2 compares with. Few-shot examples are left to the caller's
own ``PromptTemplate``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fitrag_integrations._prompting import (
    NO_RETRIEVAL,
    RETRIEVAL,
    PromptTemplate,
    default_template,
    render_excerpts,
)
from fitrag_integrations.errors import InputError

__all__ = [
    "COT",
    "NO_RETRIEVAL",
    "RETRIEVAL",
    "SIMPLE",
    "TEMPLATES",
    "PromptTemplate",
    "default_template",
    "render_excerpts",
    "template_named",
]

_REFER = "Refer to the passages below and answer the following question.\nPassages:\n{passages}\n"
SIMPLE = PromptTemplate("simple", _REFER + "Question: {question}\nThe answer is")
COT = PromptTemplate("cot", _REFER + "Question: {question}\nLet's think step by step.")
TEMPLATES: Mapping[str, PromptTemplate] = MappingProxyType(
    {template.name: template for template in (RETRIEVAL, NO_RETRIEVAL, SIMPLE, COT)}
)


def template_named(name: str) -> PromptTemplate:
    """Find a template by its name."""
    if name not in TEMPLATES:
        raise InputError.of("template", given=name, allowed=", ".join(TEMPLATES))
    return TEMPLATES[name]
