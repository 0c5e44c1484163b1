"""Recognize the shape of published rows, and turn them into rows of question and answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fitrag_integrations.core.checks import check_text
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.loaders import multihop, runs, single, wikipedia


@dataclass(frozen=True, slots=True)
class Loaded:
    """Hold rows of question and answers, the shape they came in, and what was left out.

    ``format`` names the shape, ``notes`` say in plain sentences what was left out.
    """

    rows: list[Row]
    format: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Shape:
    """Say which fields tell a shape from the others, and how a row of it is read."""

    fields: tuple[str, ...]
    read: Callable[[Row], Row | None]
    fits: Callable[[Row], bool] = lambda row: True

    def recognizes(self, row: Row) -> bool:
        return all(name in row for name in self.fields) and self.fits(row)


def _native(row: Row) -> Row:
    check_text("question", row.get("question"), blank=False)
    return dict(row)


def _is_run(row: Row) -> bool:
    """Tell a run of Self-RAG's; rows with passages or a prediction are ours."""
    said = isinstance(row.get("output"), str) or any(name in row for name in runs.CONTEXTS)
    ours = "passages" in row or "prediction" in row
    return said and not ours and any(name in row for name in runs.ASKED)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


SHAPES = {  # the first that fits is taken: a shape stands before those whose fields it shares
    "bergen": _Shape(("q_id", "question", "response", "label"), runs.bergen),
    "biography": _Shape(("topic",), wikipedia.biography, lambda row: "passages" not in row),
    "kilt": _Shape(("input", "output"), wikipedia.kilt, lambda row: _is_list(row["output"])),
    "dpr": _Shape(("question", "answers", "positive_ctxs"), wikipedia.dpr),
    "selfrag": _Shape((), runs.selfrag, _is_run),
    "popqa": _Shape(("question", "possible_answers"), single.popqa),
    "musique": _Shape(("question", "answer", "paragraphs"), multihop.musique),
    "2wiki": _Shape(("question", "answer", "context", "evidences"), multihop.hotpotqa),
    "hotpotqa": _Shape(("question", "answer", "context", "supporting_facts"), multihop.hotpotqa),
    "asqa": _Shape(("ambiguous_question", "qa_pairs"), single.asqa),
    "pubhealth": _Shape(("claim", "label"), single.pubhealth),
    "arc": _Shape(("question", "answerKey"), single.arc),
    "fitrag": _Shape(("question", "answers"), _native),
    "triviaqa": _Shape(
        ("question", "answer"), single.triviaqa, lambda row: isinstance(row["answer"], Mapping)
    ),
    "triviaqa (original)": _Shape(("Question", "Answer"), single.triviaqa),
    "nq": _Shape(("question", "answer"), single.nq, lambda row: isinstance(row["answer"], list)),
}
FORMATS = tuple(name for name in SHAPES if " " not in name)
"""The shapes that can be asked for by name; `auto` finds out."""


def recognize(row: Row) -> str:
    """Name the shape of a row; raises `InputError` naming its fields where it is none of ours."""
    if not isinstance(row, Mapping):
        raise InputError.of("row", given=row, allowed="an object")
    for name, shape in SHAPES.items():
        if shape.recognizes(row):
            return name
    known = "; ".join(f"{name} ({', '.join(shape.fields)})" for name, shape in SHAPES.items())
    known = known.replace("selfrag ()", "selfrag (ctxs, docs or output)")
    given = ", ".join(map(str, row)) or "no field"
    raise InputError(f"format: given a row of the fields {given}, allowed {known}")


def convert(rows: Sequence[Row], format: str = "auto") -> Loaded:
    """Turn rows of one published shape into rows of question and answers, in their order.

    `format` is one of `FORMATS`, or `auto`, which looks at the first row. A claim of PubHealth
    that nobody judged is left out, and `notes` count them. Raises `InputError` for an unknown
    shape, and for a row that is not as published, by its number from 1.
    """
    if format != "auto" and format not in FORMATS:
        raise InputError.of("format", given=format, allowed=", ".join(("auto", *FORMATS)))
    if not rows:
        raise InputError.of("rows", given=0, allowed="at least one row")
    name = recognize(rows[0]) if format == "auto" else format
    made = [_read(SHAPES[name], row, number) for number, row in enumerate(rows, start=1)]
    kept = [row for row in made if row is not None]
    if not kept:
        raise InputError.of("rows", given=f"{len(rows)} without a label", allowed="labelled rows")
    left = len(rows) - len(kept)
    notes = (f"{left} of {len(rows)} rows have no label and are left out",) if left else ()
    return Loaded(kept, name.partition(" ")[0], notes)


def _read(shape: _Shape, row: Row, number: int) -> Row | None:
    try:
        if not isinstance(row, Mapping):
            raise InputError.of("row", given=row, allowed="an object")
        return shape.read(row)
    except InputError as error:
        raise InputError(f"row {number}: {error}") from error
