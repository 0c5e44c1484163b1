"""Ask a language model that tells of its tokens how sure it is of its own answers.

One draft a question serves every gate on drafts, and P(True) is asked about that draft; all of it
is kept in the journal. What could not be told counts as not known.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from fitrag_integrations.core.checks import can
from fitrag_integrations.methods.ik.draft_confidence import GATES
from fitrag_integrations.methods.ik.self_evaluation import KNOW_PROMPT, TRUE_PROMPT
from fitrag_integrations.training.fitted.oracle import Oracle
from fitrag_integrations.types import Draft
from fitrag_integrations.values.prompt import Asked

P_TRUE = "p_true"
DRAFT, YES = "draft", "p_yes"  # what is told, in the journal


def surenesses(questions: Sequence[str], oracle: Oracle) -> dict[str, list[float]]:
    """Return how sure it is, in [0, 1], by each gate that its replies are enough for."""
    llm = oracle.llm
    if not (can(llm, "draft") and can(llm, "rescore")):
        return {}
    written = oracle.measured(DRAFT, questions, llm.draft, lambda one: json.dumps(one.to_dict()))
    drafts = [Draft.from_dict(json.loads(text)) if text else Draft("") for text in written]
    sure = {name: [_sureness(name, draft) for draft in drafts] for name in GATES}
    if can(llm, "p_yes"):
        asked = [_prompt(q, draft.text) for q, draft in zip(questions, drafts, strict=True)]
        replies = oracle.measured(YES, asked, llm.p_yes, str)
        sure[P_TRUE] = [float(text) if text else 0.0 for text in replies]
    return {name: values for name, values in sure.items() if len(set(values)) > 1}


def _sureness(name: str, draft: Draft) -> float:
    numbers = GATES[name].numbers(draft)
    return GATES[name].sureness(math.fsum(numbers) / len(numbers)) if numbers else 0.0


def _prompt(question: str, draft: str) -> str:
    prompt = TRUE_PROMPT if draft.strip() else KNOW_PROMPT
    return Asked(prompt.format(question=question, draft=draft), one_line=True)
