"""Measures: functions from a row to numbers by name, which a `Table` averages and compares.

A value may also be rows of numbers, such as pairs of score and label; `table.POOLED` computes the
figure of that name from the rows of all questions. Your own measure is one more function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fitrag_integrations.core.checks import check_label, check_number, check_text
from fitrag_integrations.core.record import Row, check_mapping
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.evaluation.compression import KEPT, SHARE, THERE, Compressed, tokens_of
from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.evaluation.judging import gold, judged, predicted
from fitrag_integrations.evaluation.outcomes import Outcomes
from fitrag_integrations.evaluation.ranking import (
    HAS_ANSWER,
    LLM_PREFER,
    NDCG_AT,
    Candidates,
    ndcg,
    recall_at,
    reciprocal_rank,
    share_at,
)
from fitrag_integrations.text.tokens import TokenCounter, approximate_tokens
from fitrag_integrations.types import Action

Values = dict[str, Any]
SPENT = ("retrieved", "retriever_calls", "llm_calls", "tokens_in", "tokens_out", "seconds")
COST = "cost of a thousand questions"


def answers(row: Row, prices: Prices | None = None) -> Values:
    """Judge an answer by inclusion, exact match and F1 (IK, section 4; CRAG, section 5.2).

    Args:
        row: Row of answers, prediction or answer, and what was counted of `SPENT`.
        prices: Prices of tokens; the row must then have token counts.
    """
    said = predicted(row)
    values: Values = {**judged(said, row), "empty": float(not said.strip())}
    if "notes" in row:
        values |= {"noted": float(bool(row["notes"])), "errors": float("error" in row)}
    values |= {
        name: check_number(name, float(row[name]), low=0.0)
        for name in SPENT
        if row.get(name) is not None
    }
    if prices is not None:
        for name in ("tokens_in", "tokens_out"):
            refuse_if(name not in values, name, None, "a count, where prices are given")
        counts = ("tokens_in", "tokens_out", "retriever_calls")
        values[COST] = prices.per_thousand(**{name: values.get(name, 0.0) for name in counts})
    return values


def slim_cost(row: Row, ratio: float = 0.1) -> Values:
    """Count what SlimPLM adds to a question, in tokens of the large model (section 4.6, Table 4).

    Only generated tokens count, as in the paper.

    Args:
        row: Row of `chat`, the tokens that the large model wrote, and `tokens`, those of the small
            models as `details["tokens"]` of a context of `SlimPLM` has them.
        ratio: Cost of a small model's token; the paper counts one of a 7B model as a tenth of a 70B
            model's.
    """
    rate = check_number("ratio", ratio, low=0.0, high=1.0)
    written = check_mapping("tokens", row.get("tokens", {}))
    added = {  # a model that was not called wrote nothing
        name: rate * check_number(name, written.get(name, 0), low=0.0)
        for name in ("proxy", "rewrite", "judge")
    }
    chat = check_number("chat", row.get("chat"), low=0.0)
    return {"chat": chat, **added, "added": sum(added.values())}


def compressed(row: Compressed, count_tokens: TokenCounter = approximate_tokens) -> Values:
    """Compute whether the answer is kept, and how many tokens are left (FIT-RAG, 4.4.2).

    Args:
        row: Passages and the excerpts kept of them.
        count_tokens: Counter of tokens.
    """
    there = row.holds(row.whole)
    before, after = (tokens_of(each, count_tokens) for each in (row.whole, row.excerpts))
    return {
        THERE: float(there),
        KEPT: float(row.holds(row.excerpts)) if there else None,
        SHARE: after / before,
        "tokens_in": float(before),
        "tokens_out": float(after),
    }


def ranking(
    row: Candidates, by: str, ks: Sequence[int] = (1, 5, 10), read: Sequence[int] = ()
) -> Values:
    """Compute the quality of an order of passages (FIT-RAG, section 5.3.1, Figures 7 to 10).

    Args:
        row: Passages with labels and scores.
        by: Order, one of `ranking.ORDERS`.
        ks: Depths of R@k and share@k.
        read: Numbers of passages of accuracy@k.
    """
    labels, scores = row.labels(by), row.values(by)
    right = {f"accuracy@{k}": row.answered(by, k) for k in read}
    values: Values = {
        **{f"R@{k}": recall_at(labels, k) for k in ks},
        **{f"share@{k}": share_at(labels, k) for k in ks if k > 1},
        "MRR": reciprocal_rank(labels),
        f"nDCG@{NDCG_AT}": ndcg(labels),
        "AUC": list(zip(scores, row.has_answer, strict=True)),
        **{name: float(each) for name, each in right.items() if each is not None},
    }
    if by in (HAS_ANSWER, LLM_PREFER):
        known = zip(scores, row.known(by), strict=False)
        pairs = [(score, label) for score, label in known if label is not None]
        values |= {"calibration error": pairs} if pairs else {}
    return values


def gate(row: Row, threshold: float = 0.5) -> Values:
    """Evaluate a gate's decision to retrieve, and the answers it leads to (IK, section 4).

    Args:
        row: Row of p_known, and known or right_without and right_with.
        threshold: Questions above it are answered without retrieval.
    """
    one = Outcomes.of([row])
    p, known, without = (float(each[0]) for each in (one.p_known, one.known, one.without))
    retrieved = p <= threshold
    values: Values = {
        "known": known,
        "accuracy of the gate": float(retrieved == (known <= 0)),
        "AUC": [(p, known)],
        "calibration error": [(p, known)],
        "share of retrieval": float(retrieved),
    }
    if one.right_with is None:
        return values
    right = float(one.right_with[0])
    pooled = (
        "sweep area",
        "best point: accuracy",
        "best point: share",
        "best accuracy retrieving for half",
    )
    return values | {
        "accuracy of the answers": right if retrieved else without,
        "never retrieving": without,
        "always retrieving": right,
        "oracle": max(without, right),
        **dict.fromkeys(pooled, [(p, known, without, right)]),
    }


def route(row: Row) -> Values:
    """Compare CRAG's action with whether a passage contains an answer (CRAG, section 4.3).

    Ambiguous is neither right nor wrong.

    Args:
        row: Row of passages with has_answer, or answers; action; and maybe grades.
    """
    held, given = has_answer(row), row.get("grades")
    refuse_if(
        given is not None and (not isinstance(given, list) or len(given) != len(held)),
        "grades",
        given,
        f"a list of {len(held)} numbers",
    )
    grades = [
        check_number(f"grades[{i}]", g, low=-1.0, high=1.0) for i, g in enumerate(given or ())
    ]
    refuse_if(row.get("action") not in list(Action), "action", row.get("action"), ", ".join(Action))
    action, truth = Action(row["action"]), any(held)
    decided, right = action is not Action.AMBIGUOUS, float(truth == (action is Action.CORRECT))
    means = {
        "right where decided": right if decided else None,
        "right where correct": right if action is Action.CORRECT else None,
        "right where incorrect": right if action is Action.INCORRECT else None,
        "decided": float(decided),
        "an answer is there": float(truth),
    }
    each = list(zip(grades, held, strict=True)) if grades else None
    best = [(max(grades), int(truth))] if grades else None
    return {**means, "AUC of the best grade": best, "AUC of each grade": each}


def has_answer(row: Row) -> list[int]:
    """Return has_answer of every passage, 0 or 1: the row's own, else computed from answers."""
    passages: Any = row.get("passages")
    fine = isinstance(passages, list) and all(isinstance(p, Mapping) for p in passages)
    refuse_if(not fine, "passages", passages, "a list of objects with a text")
    own = [passage.get("has_answer") for passage in passages]
    if None not in own:
        return [check_label(f"passages[{i}].has_answer", value) for i, value in enumerate(own)]
    golden = gold(row)
    texts = (f"{p.get('title') or ''} {check_text('text', p.get('text'))}" for p in passages)
    return [int(contains_answer(text, golden)) for text in texts]
