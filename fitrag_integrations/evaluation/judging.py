"""Judge an answer to a question: right by inclusion, exact match, token F1.

Inclusion is the papers' measure (IK, section 4; CRAG, section 5.2): a gold answer stands in the
prediction as whole tokens. Where a question has choices, the one that the prediction names counts;
where it has several readings (ASQA), the share of readings answered is its STR-EM, and where it has
long answers as well, ROUGE-L measures against those.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from fitrag_integrations.core.checks import check_many
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.answers import (
    contains_answer,
    exact_match,
    normalize,
    rouge_l,
    token_f1,
)

ACCURACY, EM, F1, GROUPS, ROUGE = "accuracy", "EM", "F1", "STR-EM", "ROUGE-L"
MEASURES = (ACCURACY, EM, F1, GROUPS, ROUGE)
_LABEL = re.compile(
    r"(?:(?:the\s+)?(?:correct\s+)?answer\s*(?:is)?\s*:?\s*)?"
    r"\(?(?P<label>\w{1,2})(?:$|[).:,](?:\s|$))",
    re.IGNORECASE,
)


def judged(prediction: str, row: Row) -> dict[str, float]:
    """Give `accuracy`, `EM` and `F1` in [0, 1], and what else the row has the means for.

    `STR-EM` for a row with `answer_groups`, `ROUGE-L` for one with `long_answers`. Reads `answers`,
    and where they are there `choices[{label, text}]` and those two. Raises `InputError` for a row
    without answers.
    """
    answers = gold(row)
    choices = row.get("choices")
    if choices:
        said = chosen(prediction, choices)
        is_right = said is not None and said in answers
        text = prediction if said is None else said
        return {ACCURACY: float(is_right), EM: float(text in answers), F1: token_f1(text, answers)}
    values = {
        ACCURACY: float(contains_answer(prediction, answers)),
        EM: float(exact_match(prediction, answers)),
        F1: token_f1(prediction, answers),
    }
    groups = row.get("answer_groups")
    if groups:
        held = [float(contains_answer(prediction, group)) for group in groups]
        values[GROUPS] = math.fsum(held) / len(held)
    if row.get("long_answers"):
        values[ROUGE] = rouge_l(prediction, check_many("long_answers", row["long_answers"], str))
    return values


def gold(row: Row) -> list[str]:
    """Take the gold answers, blank ones left out; raises `InputError` where none is left."""
    given = row.get("answers")
    texts = isinstance(given, list | tuple) and all(isinstance(each, str) for each in given)
    found = [each for each in given or () if each.strip()] if texts else []
    if not found:
        raise InputError.of("answers", given=given, allowed="a list of at least one text")
    return found


def predicted(row: Row) -> str:
    """Take what was answered, `prediction` or else `answer`; an error row answered nothing."""
    given = row.get("prediction")
    given = row.get("answer") if given is None else given
    if given is None and row.get("error") is not None:
        return ""
    if not isinstance(given, str):
        raise InputError.of("prediction", given=given, allowed="a text, here or in `answer`")
    return given


def chosen(prediction: str, choices: Sequence[Row]) -> str | None:
    """Give the text of the choice that a prediction names, None unless it is exactly one.

    A prediction begins with the choice's label (`B`, `(B)`, `B: ...`), or holds its text and that
    of no other; a choice whose words are part of another's does not count beside it.
    """
    by_label = {str(choice["label"]).lower(): str(choice["text"]) for choice in choices}
    found = _LABEL.match(prediction.strip())
    if found is not None and found["label"].lower() in by_label:
        return by_label[found["label"].lower()]
    held = [text for text in by_label.values() if contains_answer(prediction, [text])]
    alone = [text for text in held if not _is_part(text, held)]
    return alone[0] if len(alone) == 1 else None


def _is_part(text: str, others: Sequence[str]) -> bool:
    return any(
        normalize(other) != normalize(text) and contains_answer(other, [text]) for other in others
    )
