"""Training rows: reading, validating and splitting the labeled questions of every trainer, and the
combinations of sub-documents that a detector learns from.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fitrag_integrations.core.checks import check_many, check_number, check_text, check_whole
from fitrag_integrations.core.generic import A, Q
from fitrag_integrations.core.jsonl import read_jsonl as read_jsonl
from fitrag_integrations.core.jsonl import write_jsonl as write_jsonl
from fitrag_integrations.core.record import check_mapping
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.types import BiLabelScore, Passage

LABELS = ("has_answer", "llm_prefer")


@dataclass(frozen=True, slots=True)
class ReadingRow:
    """Question with a passage that answers it.

    Args:
        question: The question.
        answers: Gold answers.
        passage: Passage that contains the answer.
        answer_start: Character offset of `answers[0]` in the passage's text; None if every
            occurrence counts.
        negatives: Passages that do not contain an answer.
    """

    question: str
    answers: tuple[str, ...]
    passage: Passage
    answer_start: int | None = None
    negatives: tuple[Passage, ...] = field(default=())


class Listed:
    """Mixin for a question with a list of passages."""

    __slots__ = ()
    question: str
    passages: tuple[Passage, ...]

    @property
    def pairs(self) -> list[tuple[str, Passage]]:
        """Return each passage with the question."""
        return [(self.question, passage) for passage in self.passages]


@dataclass(frozen=True, slots=True)
class Labelled(Listed):
    """Passages of a question with both labels, 0 or 1, in order.

    Args:
        question: The question.
        passages: Its passages.
        has_answer: Whether each contains an answer, 0 or 1.
        llm_prefer: Whether each helps the language model, 0 or 1; None is unknown.
        reader_scores: The reader's confidence in each answer; empty if they were not stored.
    """

    question: str
    passages: tuple[Passage, ...]
    has_answer: tuple[int, ...]
    llm_prefer: tuple[int | None, ...]
    reader_scores: tuple[float, ...] = ()


def reading_row(row: Mapping[str, object]) -> ReadingRow:
    """Parse a training row from a JSON object with question, answers, passage and negatives.

    Args:
        row: The object.

    Raises:
        InputError: If a field is missing or of another kind; names the field.
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


def reading_json(row: ReadingRow) -> dict[str, object]:
    """Convert a reading row to a JSON object."""
    return {
        "question": row.question,
        "answers": list(row.answers),
        "passage": _passage_json(row.passage),
        "answer_start": row.answer_start,
        "negatives": [_passage_json(passage) for passage in row.negatives],
    }


def labelled_row(row: Mapping[str, object]) -> Labelled:
    """Parse a labeled question from a JSON object whose passages have both labels.

    Args:
        row: The object. `has_answer` is 0 or 1, and `llm_prefer` is 0, 1 or null if unknown.

    Raises:
        InputError: If a field or a label is missing or invalid; names it.
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
    refuse_if(
        given not in allowed,
        f"passages[{at}].{name}",
        given,
        "0 or 1" if None not in allowed else "0, 1, or null for not known",
    )
    return None if given is None else int(given)


def labelled_json(row: Labelled) -> dict[str, object]:
    """Convert a labeled question to a JSON object."""
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
    """Parse a passage from a JSON object with title and text; raises `InputError` if invalid."""
    given = check_mapping("passage", row)
    title = check_text("passage.title", given.get("title") or "")
    return Passage(id="", text=check_text("passage.text", given.get("text")), title=title)


def _passage_json(passage: Passage) -> dict[str, object]:
    return {"title": passage.title, "text": passage.text}


Row = TypeVar("Row", bound=Any)  # with a question


def split(rows: Sequence[Row], share: float, seed: int) -> tuple[list[Row], list[Row]]:
    """Split off a fraction of the questions; equal questions stay on one side.

    Args:
        rows: Rows with a question.
        share: Fraction to hold out, in (0, 1).
        seed: Random seed.

    Returns:
        Rows to train on, and rows held out.

    Raises:
        InputError: If one side is empty.
    """
    questions = sorted({row.question for row in rows})
    random.Random(seed).shuffle(questions)
    return _parted(rows, set(questions[: round(share * len(questions))]))


def split_by_hash(rows: Sequence[Row], share: float, seed: int) -> tuple[list[Row], list[Row]]:
    """Split off a fraction of the questions, each by a hash of its text.

    Args:
        rows: Rows with a question.
        share: Fraction to hold out, in (0, 1).
        seed: Seed of the hash.

    Returns:
        Rows to train on, and rows held out.

    Raises:
        InputError: If one side is empty.
    """
    held = set()
    for question in {row.question for row in rows}:
        digest = hashlib.sha256(f"{seed}:{question.strip().casefold()}".encode()).digest()
        if int.from_bytes(digest[:8], "big") / 2**64 < share:
            held.add(question)
    return _parted(rows, held)


def _parted(rows: Sequence[Row], held: Collection[str]) -> tuple[list[Row], list[Row]]:
    train = [row for row in rows if row.question not in held]
    refuse_if(not train or not held, "rows", len(rows), "enough questions to hold some out")
    return train, [row for row in rows if row.question in held]


def refuse_shared(train: Sequence[Listed], held: Sequence[Listed]) -> None:
    """Check that no question is in both parts, ignoring case and blanks.

    Args:
        train: Questions to train on.
        held: Questions held out.

    Raises:
        InputError: If questions are in both; names the first three.
    """

    def plain(row: Listed) -> str:
        return " ".join(row.question.split()).casefold()

    known = set(map(plain, train))
    shared = sorted({row.question for row in held if plain(row) in known})
    refuse_if(
        shared,
        "validation",
        "; ".join(shared[:3]),
        f"questions that are not trained on; {len(shared)} of them are",
    )


def in_lists(call: Callable[[list[Q]], Iterable[A]], lists: Iterable[Sequence[Q]]) -> list[list[A]]:
    """Call a model once for the items of all lists, and return its answers list by list.

    Args:
        call: Model's call, n items in, n answers out.
        lists: Items, such as the pairs of each question.
    """
    given = list(lists)
    answers = iter(call([item for items in given for item in items]))
    return [[next(answers) for _ in items] for items in given]


@dataclass(frozen=True, slots=True)
class Judged(Listed):
    """Passages of a question, each with a label.

    Args:
        question: The question.
        answers: Wordings of its answer, by which it is found; empty if they are unknown.
        passages: Its passages.
        holds: 1 for each passage that contains the answer, else 0.
    """

    question: str
    answers: tuple[str, ...]
    passages: tuple[Passage, ...]
    holds: tuple[int, ...]


def judged_row(row: Mapping[str, object]) -> Judged:
    """Parse a judged question from a JSON object whose passages have `has_answer`.

    Args:
        row: The object.

    Raises:
        InputError: If a field is missing or invalid; names it.
    """
    passages = check_many("passages", row.get("passages"), dict)
    refuse_if(not passages, "passages", row.get("passages"), "at least one")
    return Judged(
        check_text("question", row.get("question")),
        check_many("answers", row.get("answers") or (), str),
        tuple(passage_row(passage) for passage in passages),
        tuple(_label(p, at, "has_answer", (0, 1)) for at, p in enumerate(passages)),
    )


def judged_json(row: Judged) -> dict[str, object]:
    """Convert a judged question to a JSON object."""
    return {
        "question": row.question,
        "answers": list(row.answers),
        "passages": [
            {**_passage_json(passage), "has_answer": holds}
            for passage, holds in zip(row.passages, row.holds, strict=True)
        ],
    }


@dataclass(frozen=True, slots=True)
class KnownRow:
    """Question, the model's own draft of an answer, and whether the model knew it.

    Args:
        question: The question.
        draft: The model's draft.
        known: Whether the model knew the answer.
        llm: Name of the model; blank if unknown.
    """

    question: str
    draft: str
    known: bool
    llm: str = ""


def known_rows(rows: Iterable[Mapping[str, object]]) -> list[KnownRow]:
    """Read rows of question, draft and known.

    Args:
        rows: Rows; those with an error are skipped.

    Raises:
        InputError: If a field is missing or invalid; names the first such row.
    """
    found = []
    for at, row in enumerate(rows):
        if "error" in row:
            continue
        known = row.get("known")
        refuse_if(known not in (0, 1), f"rows[{at}].known", known, "true or false")
        question = check_text(f"rows[{at}].question", row.get("question"), blank=False)
        draft = check_text(f"rows[{at}].draft", row.get("draft") or "").strip()
        llm = check_text(f"rows[{at}].llm", row.get("llm") or "")
        found.append(KnownRow(question, draft, bool(known), llm))
    return found


def split_rows(
    rows: Sequence[KnownRow], *, validation: float, seed: int
) -> tuple[list[KnownRow], list[KnownRow]]:
    """Split off a fraction of the questions, with known and unknown ones on both sides.

    Args:
        rows: Rows.
        validation: Fraction to hold out, in (0, 1).
        seed: Seed of the hash.
    """
    parts = split_by_hash(rows, validation, seed)
    refuse_if(
        any(len({row.known for row in part}) < 2 for part in parts),
        "rows",
        len(rows),
        "known and unknown questions enough to train on some and hold some out",
    )
    return parts


def judged_model(rows: Sequence[KnownRow], given: str, base: str) -> str:
    """Return the model that the rows are about: the one passed, the rows' own, or the base.

    Args:
        rows: Rows.
        given: Name passed by the user; may be blank.
        base: Name of the base model.
    """
    named = sorted({row.llm for row in rows if row.llm})
    refuse_if(not given and len(named) > 1, "rows.llm", named, "one model, or name the one meant")
    return given or (named[0] if named else base)


KINDS = ("random", "prefixes")
BOTH = "both"
Places = tuple[int, ...]  # members, by their place in the sorted list of representatives


@dataclass(frozen=True, slots=True)
class Combination:
    """A combination of sub-documents (FIT-RAG, section 4.4.2): its members' scores, and its label.

    Of the questions that need retrieval, the paper combines sub-documents at random, drops similar
    combinations, keeps those on the skyline of the two scores, and labels by the answer of the
    language model. At inference the detector sees prefixes of the list sorted by score, never such
    combinations: "prefixes" are those, labeled alike, and a threshold is chosen on them.

    Args:
        kinds: How the combination was drawn.
        scores: Scores of its members.
        left: Scores of the representatives left out.
        eligible: Whether the answer from it was right.
        has_answer: Whether it contains a gold answer.
        share: Its fraction of the passages' tokens, in [0, 1].
    """

    kinds: tuple[str, ...]
    scores: tuple[BiLabelScore, ...]
    left: tuple[BiLabelScore, ...]
    eligible: bool
    has_answer: bool
    share: float


def drawn(count: int, *, draws: int, overlap: float, chance: random.Random) -> list[Places]:
    """Draw combinations of `count` members at random, each sorted, without similar ones.

    A draw that overlaps an earlier one by more than `overlap` is dropped. The paper gives no number
    of draws and no measure of overlap: here a draw takes a size at random and then as many
    representatives, the best window of each passage, as inference does, and the overlap is the
    fraction of members that two combinations share (Jaccard).

    Args:
        count: Number of members to draw from.
        draws: Number of draws.
        overlap: Maximum Jaccard overlap of two combinations, in [0, 1].
        chance: Source of randomness.
    """
    kept: list[set[int]] = []
    for _ in range(draws):
        places = set(chance.sample(range(count), chance.randint(1, count)))
        alike = (len(places & other) / len(places | other) for other in kept)
        if places not in kept and all(share <= overlap for share in alike):
            kept.append(places)
    return [tuple(sorted(places)) for places in kept]


def skyline(scores: Sequence[tuple[float, float]]) -> list[int]:
    """Return the places of the pairs that no other pair exceeds (Pareto front), in order.

    A pair exceeds another if it is at least as good in both numbers and better in one.
    """
    return [
        i
        for i, (x, y) in enumerate(scores)
        if not any(a >= x and b >= y and (a > x or b > y) for a, b in scores)
    ]


def prefixes(count: int) -> list[Places]:
    """Return all prefixes of a list, shortest first."""
    return [tuple(range(length)) for length in range(1, count + 1)]


def eligibility_rows(rows: Iterable[Mapping[str, object]]) -> list[list[Combination]]:
    """Read the combinations of each question from rows of `fitrag label eligibility`.

    Args:
        rows: Rows. Those with an error, questions known without retrieval, and combinations without
            an answer are skipped.

    Raises:
        InputError: If a field is invalid, which it names, or if no row is left.
    """
    found, count = [], 0
    for i, row in enumerate(rows):
        if row.get("error") is not None:
            continue
        count += 1
        given: Any = row.get("combinations")
        refuse_if(not isinstance(given, list), f"rows[{i}].combinations", given, "a list")
        own = [one for one in given if isinstance(one, dict) and one.get("eligible") is not None]
        if own:
            found.append([_judged(f"rows[{i}].combinations", one) for one in own])
    refuse_if(not found, "rows", count, "rows of `fitrag label eligibility` with combinations")
    return found


def _judged(place: str, given: dict[str, Any]) -> Combination:
    try:
        scores, left = (
            tuple(BiLabelScore(has, prefer) for has, prefer in given[name])
            for name in ("scores", "left")
        )
        labels = bool(given["eligible"]), bool(given["has_answer"]), float(given["share"])
        return Combination(tuple(given["kinds"]), scores, left, *labels)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError.of(
            place,
            given=given,
            allowed=f"kinds, scores, left, eligible, has_answer and share ({error})",
        ) from None
