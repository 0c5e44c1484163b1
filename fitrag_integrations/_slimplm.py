"""The prompts SlimPLM's judge and rewriter were fine-tuned on (sections 3.2, 3.3).

Each has the fields {draft} and {question}. `*_PAPER` is as printed; `*_RELEASED` is what the
released weights learnt, spelled and dated as they saw it, with their own conversation marks. They
are below `models`, which fits and runs these models, and `methods`, which asks any other.
"""

from __future__ import annotations

_PAPER = (
    "<SYS> You are a helpful assistant. Your task is to parse user input into structured "
    "formats and accomplish the task according to the heuristic answer. </SYS>\n"
    "Heuristic answer: {draft}\n"
    "Question: {question}\n"
)
_RELEASED = (
    "[INST] <<SYS>>\nYou are a helpful assistant. Your task is to parse user input into "
    "structured formats according to the coarse answer. Current datatime is 2023-12-20 9:47:28"
    " <</SYS>>\n Course answer: (({draft}))\nQuestion: (({question})) [/INST]"
)
JUDGE_PAPER = _PAPER + "Retrieval Necessity Judgment Output:\n"
JUDGE_RELEASED = _RELEASED
REWRITE_PAPER = _PAPER + "Query Rewrite Output:\n"
REWRITE_RELEASED = _RELEASED
