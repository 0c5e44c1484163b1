"""The training rows: a question, a passage that holds the answer, and passages that do not."""

from dataclasses import dataclass, field
from typing import Any

from fitrag_integrations.core.checks import check_many, check_number, check_text, check_whole
from fitrag_integrations.core.jsonl import read_jsonl as read_jsonl
from fitrag_integrations.core.jsonl import write_jsonl as write_jsonl
from fitrag_integrations.core.record import check_mapping
from fitrag_integrations.errors import InputError
from fitrag_integrations.types import Passage

LABELS = ("has_answer", "llm_prefer")


@dataclass(frozen=True, slots=True)
class ReadingRow:
    """A question with a passage that answers it.

    `answer_start` is the character offset of `answers[0]` in the passage's text, None when every
    occurrence counts. `negatives` hold no answer.
    """

    question: str
    answers: tuple[str, ...]
    passage: Passage
    answer_start: int | None = None
    negatives: tuple[Passage, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Labelled:
    """Passages of a question with both labels, 0 or 1, in order.

    An `llm_prefer` of None is not known. `reader_scores` is how sure the reader was of each answer,
    empty where nobody kept it.
    """

    question: str
    passages: tuple[Passage, ...]
    has_answer: tuple[int, ...]
    llm_prefer: tuple[int | None, ...]
    reader_scores: tuple[float, ...] = ()


def reading_row(row: dict[str, Any]) -> ReadingRow:
    """Make a training row of a JSON object with question, answers, passage and negatives.

    Raises `InputError` naming the field that is missing or of another kind.
    """
    start = row.get("answer_start")
    return ReadingRow(
        question=check_text("question", row.get("question")),
        answers=check_many("answers", row.get("answers"), str),
        passage=passage_row(row.get("passage")),
        answer_start=None if start is None else check_whole("answer_start", start, low=0),
        negatives=tuple(
            map(passage_row, check_many("negatives", row.get("negatives") or (), dict))
        ),
    )


def reading_json(row: ReadingRow) -> dict[str, Any]:
    """Make a JSON object of a reading row."""
    return {
        "question": row.question,
        "answers": list(row.answers),
        "passage": _passage_json(row.passage),
        "answer_start": row.answer_start,
        "negatives": [_passage_json(passage) for passage in row.negatives],
    }


def labelled_row(row: dict[str, Any]) -> Labelled:
    """Make a labelled question of a JSON object whose passages carry both labels.

    Raises `InputError` naming what is missing: a field, or a label. `has_answer` is 0 or 1,
    `llm_prefer` too, or null where it is not known.
    """
    passages = check_many("passages", row.get("passages"), dict)
    scored = (passage["reader_score"] for passage in passages if "reader_score" in passage)
    return Labelled(
        question=check_text("question", row.get("question")),
        passages=tuple(passage_row(passage) for passage in passages),
        has_answer=tuple(_label(p, at, "has_answer", (0, 1)) for at, p in enumerate(passages)),
        llm_prefer=tuple(
            _label(p, at, "llm_prefer", (0, 1, None)) for at, p in enumerate(passages)
        ),
        reader_scores=tuple(check_number("reader_score", score) for score in scored),
    )


def _label(passage: dict[str, Any], at: int, name: str, allowed: tuple[int | None, ...]) -> Any:
    given = passage.get(name, "nothing")
    if given not in allowed:
        wanted = "0 or 1" if None not in allowed else "0, 1, or null for not known"
        raise InputError.of(f"passages[{at}].{name}", given=given, allowed=wanted)
    return None if given is None else int(given)


def labelled_json(row: Labelled) -> dict[str, Any]:
    """Make a JSON object of a labelled question."""
    scores = row.reader_scores or (None,) * len(row.passages)
    labels = zip(row.passages, row.has_answer, row.llm_prefer, scores, strict=True)
    return {
        "question": row.question,
        "passages": [
            {**_passage_json(passage), "has_answer": has, "llm_prefer": prefer}
            | ({} if score is None else {"reader_score": score})
            for passage, has, prefer, score in labels
        ],
    }


def passage_row(row: object) -> Passage:
    """Make a passage of a JSON object with title and text; raises `InputError` for another."""
    given = check_mapping("passage", row)
    title = check_text("passage.title", given.get("title") or "")
    return Passage(id="", text=check_text("passage.text", given.get("text")), title=title)


def _passage_json(passage: Passage) -> dict[str, Any]:
    return {"title": passage.title, "text": passage.text}
