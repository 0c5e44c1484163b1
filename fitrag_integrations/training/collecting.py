"""Judge answers and count labels (FIT-RAG, section 4.2.1; IK; SlimPLM).

`has_answer`: a gold answer stands in title and text as whole tokens. `llm_prefer`: the reader of
the passage answered correctly. A missing answer does not count as wrong: its label is None, and the
reason is stored with it.

Closed-book answers are judged by a teacher: match and recall compare strings, a language model
reads question, answer and gold answers and replies Yes or No (IK, sections 3.1 and 4.4, where it
teaches best). SlimPLM uses the fraction of the gold answers in the answer (equation 2).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.evaluation.answers import (
    contains_answer,
    is_correct,
    matches_pattern,
    tokens,
)
from fitrag_integrations.types import Passage

__all__ = ["Failed", "Outcome", "Question", "Told", "count_labels", "passage_labels"]

FAILURES = ("error", "timeout", "empty", "refusal")


@dataclass(frozen=True, slots=True)
class Told:
    """Answer with its cost.

    Args:
        text: Answer.
        tokens: Number of tokens read, and written.
        score: Score of a reader, in [0, 1].
    """

    text: str
    tokens: tuple[int, int] = (0, 0)
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """Reason for a missing answer: `kind` is one of `FAILURES`; `tokens` were used nevertheless."""

    kind: str
    message: str
    tokens: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


Outcome: TypeAlias = Told | Failed


@dataclass(frozen=True, slots=True)
class Question:
    """Question with its gold answers and the passages to label.

    Args:
        text: The question.
        answers: Gold answers. Without them, `gold` is required and no model is called.
        passages: Passages to label.
        patterns: Whether the answers are regular expressions.
        gold: Text of a passage that is known to contain the answer.
    """

    text: str
    answers: tuple[str, ...]
    passages: tuple[Passage, ...]
    patterns: bool = False
    gold: str | None = None

    def has_answer(self, passage: Passage) -> bool:
        """Check whether a gold answer stands in title and text."""
        if passage.text == self.gold:
            return True
        text = f"{passage.title} {passage.text}"
        return (matches_pattern if self.patterns else contains_answer)(text, self.answers)

    def is_right(self, answer: str) -> bool:
        """Check whether a gold answer is in the answer given."""
        return (matches_pattern if self.patterns else is_correct)(answer, self.answers)


def passage_labels(
    question: Question, outcomes: Sequence[Told | Failed | None]
) -> list[dict[str, Any]]:
    """Return the labels of each passage.

    Args:
        question: Question with its gold answers and passages.
        outcomes: Answer from each passage, or the reason why it is missing; None for a passage that
            was not queried.

    Returns:
        For each passage `has_answer`, `llm_prefer`, and the answer or `llm_error`.
    """
    found = []
    for passage, outcome in zip(question.passages, outcomes, strict=True):
        labels: dict[str, Any] = {"has_answer": int(question.has_answer(passage))}
        if isinstance(outcome, Told):
            labels |= {
                "llm_prefer": int(question.is_right(outcome.text)),
                "answer": outcome.text,
            }
            if outcome.score is not None:
                labels["reader_score"] = round(outcome.score, 6)
        else:
            labels |= {
                "llm_prefer": None,
                "llm_error": str(outcome or "no gold answers to judge by"),
            }
        found.append(labels)
    return found


def count_labels(rows: Iterable[Row]) -> tuple[str, dict[str, object]]:
    """Count the labels of output rows (FIT-RAG's Figure 3), as text and as plain values.

    `groups` are named by both labels, such as "1,0" or "0,null". `imbalance` is the matched pairs
    per mismatched one, None if none is mismatched; the paper finds more than ten.
    """
    questions = errors = 0
    groups = dict.fromkeys(("1,1", "1,0", "0,1", "0,0", "1,null", "0,null"), 0)
    failures = dict.fromkeys(FAILURES, 0)
    for row in rows:
        if row.get("error") is not None:
            errors += 1
            continue
        questions += 1
        for passage in row["passages"]:
            groups[f"{passage['has_answer']},{json.dumps(passage['llm_prefer'])}"] += 1
            kind = str(passage.get("llm_error", "")).partition(":")[0]
            if kind in failures:
                failures[kind] += 1
    pairs, matched = sum(groups.values()), groups["1,1"] + groups["0,0"]
    mismatched = groups["1,0"] + groups["0,1"]
    counts = ", ".join(
        "has_answer={} llm_prefer={}: ".format(*name.split(",")) + f"{n} ({n / max(1, pairs):.1%})"
        for name, n in sorted(groups.items(), key=lambda entry: -entry[1])
        if n or "null" not in name
    )
    ratio = matched / mismatched if mismatched else None
    uneven = "none mismatched" if ratio is None else f"{ratio:.1f} matched per mismatched"
    lines = [f"{questions} questions, {pairs} pairs: {counts}", f"labels: {uneven}"]
    if failed := ", ".join(f"{kind} {count}" for kind, count in failures.items() if count):
        lines.append(f"not answered: {failed}")
    return "\n".join(lines), {
        **{"questions": questions, "pairs": pairs, "groups": groups, "matched": matched},
        **{"mismatched": mismatched, "imbalance": ratio, "failures": failures, "errors": errors},
    }


Gold: TypeAlias = Sequence[str | Sequence[str]]  # each in one wording, or in several
TEACHERS = ("match", "recall", "judge")


def recall(answer: str, gold: Sequence[str]) -> float:
    """Compute the largest fraction of a gold answer's tokens that is in the answer.

    Args:
        answer: Answer.
        gold: Gold answers.

    Returns:
        The fraction, in [0, 1].
    """
    given = Counter(tokens(answer))
    counted = [Counter(tokens(one)) for one in gold]
    return max(((given & one).total() / one.total() for one in counted if one), default=0.0)


def matching_ratio(answer: str, gold: Gold) -> float:
    """Compute the fraction of gold answers that an answer contains (SlimPLM, equation 2).

    Args:
        answer: Answer.
        gold: Gold answers, each a text or several wordings of it.

    Returns:
        The fraction, in [0, 1].
    """
    found = [contains_answer(answer, wordings([one])) for one in gold]
    return sum(found) / len(found) if found else 0.0


def wordings(gold: Gold) -> list[str]:
    """Return every wording of all gold answers."""
    return [text for one in gold for text in ([one] if isinstance(one, str) else one)]


def gold_answers(row: Mapping[str, object]) -> Gold:
    """Return the gold answers of a row, each a text or a list of its wordings."""
    given = row.get("answers")
    answers: list[Any] = given if isinstance(given, list) else []
    groups = [one if isinstance(one, list) else [one] for one in answers]
    texts = [text for own in groups for text in own or [None]]
    fine = texts and all(isinstance(text, str) and text.strip() for text in texts)
    refuse_if(not fine, "answers", given, "a list of at least one text, or lists of texts")
    return answers
