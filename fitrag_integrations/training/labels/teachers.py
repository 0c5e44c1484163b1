"""Who says whether a closed-book answer was right: the teachers of IK and of SlimPLM's judge.

Match and recall compare strings; a language model reads question, answer and gold answers and says
Yes or No (IK, sections 3.1 and 4.4, where it teaches best). SlimPLM takes the share of the gold
answers that stand in the answer (equation 2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.answers import contains_answer, tokens

Gold: TypeAlias = Sequence[str | Sequence[str]]  # each in one wording, or in several
TEACHERS = ("match", "recall", "judge")


def match(answer: str, gold: Sequence[str]) -> bool:
    """Check whether a gold answer stands in the answer as whole tokens."""
    return contains_answer(answer, gold)


def recall(answer: str, gold: Sequence[str]) -> float:
    """Return the largest share of a gold answer's tokens that the answer has, in [0, 1]."""
    given = Counter(tokens(answer))
    counted = [Counter(tokens(one)) for one in gold]
    return max(((given & one).total() / one.total() for one in counted if one), default=0.0)


def matching_ratio(answer: str, gold: Gold) -> float:
    """Return the share of gold answers in the answer, in [0, 1] (SlimPLM, equation 2).

    A gold answer is a text, or the texts that mean the same.
    """
    found = [contains_answer(answer, wordings([one])) for one in gold]
    return sum(found) / len(found) if found else 0.0


def wordings(gold: Gold) -> list[str]:
    """Return every wording of all gold answers."""
    return [text for one in gold for text in ([one] if isinstance(one, str) else one)]


def gold_answers(row: Mapping[str, object], *, nested: bool = False) -> Gold:
    """Return the gold answers of a row; with `nested`, each may be a list of alternatives."""
    allowed = "a list of at least one text" + (", or lists of texts" if nested else "")
    given = row.get("answers")
    if isinstance(given, list) and given and all(_fine(one, nested) for one in given):
        return given
    raise InputError.of("answers", given=given, allowed=allowed)


def _fine(one: object, nested: bool) -> bool:
    if isinstance(one, list) and nested:
        return bool(one) and all(_fine(each, False) for each in one)
    return isinstance(one, str) and bool(one.strip())
