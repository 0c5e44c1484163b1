"""Tell in plain values what SlimPLM did, for `Context.details` and the account of its cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fitrag_integrations.methods.slimplm_steps import Followed, Heuristic
from fitrag_integrations.methods.verdicts import Verdict
from fitrag_integrations.ports import TokenCounter


def followed_up(followed: Followed) -> dict[str, Any]:
    """Give what the rewriter wrote, and what the judge said of each claim with a query."""
    verdicts = [each.told() for each in followed.verdicts] or [{}] * len(followed.claims)
    return {
        "grammar": followed.leads.grammar,
        "questions": [lead.to_dict() for lead in followed.leads.questions],
        "claims": [lead.to_dict() for lead in followed.leads.claims],
        "verdicts": [
            {"claim": claim.text, "query": claim.query, "known": None, "p_known": None} | verdict
            for claim, verdict in zip(followed.claims, verdicts, strict=True)
        ],
    }


def tokens_written(
    heuristic: Heuristic, followed: Followed, verdicts: Sequence[Verdict], count: TokenCounter
) -> dict[str, int]:
    """Count what each model wrote; a gate, which writes nothing, one token a verdict."""
    return {
        "proxy": count(heuristic.written),
        "rewrite": count(followed.written),
        "judge": sum(count(each.written) if each.written else 1 for each in verdicts),
    }
