"""What every system did with a question, its kept excerpts included, within the page's size.

A row of `per_question` may have more than its answer: `explained`, the trace; `decision`, `action`
and `excerpts`, as in a `Context`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fitrag_integrations.core.record import Row
from fitrag_integrations.evaluation.figure import counted, cut, number
from fitrag_integrations.evaluation.figures.methods import JUDGED, right_of, system_of
from fitrag_integrations.evaluation.result import Result

BUDGET = 2_500_000  # characters of traces and excerpts in a page
LEAST, MOST = 300, 12_000  # of these, for one answer
NAMES = {
    "EM": "exact match",
    "tokens_in": "tokens read",
    "tokens_out": "tokens written",
    "retriever_calls": "retriever calls",
    "llm_calls": "LLM calls",
}
ACTORS = {
    "gate": "the gate",
    "route": "the evaluator",
    "compress": "the compressor",
    "compare": "both runs",
}
"""What to call a system without a name, by the kind of result."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One system on one question."""

    system: str
    answer: str | None
    verdict: str  # right, wrong, partly or nothing
    values: list[tuple[str, str]] = field(default_factory=list)
    decision: str = ""
    notes: list[str] = field(default_factory=list)
    error: str = ""
    excerpts: list[Kept] = field(default_factory=list)
    trace: str = ""
    left_out: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """Question with every system on it; `marks` are classes to filter by."""

    place: int
    text: str
    set: str
    gold: list[str]
    replies: list[Reply]
    marks: tuple[str, ...]


def questions(results: Sequence[Result]) -> list[Question]:
    """Group the rows of all results by question, in the order of their first appearance."""
    groups: dict[str, list[tuple[str, Row]]] = {}
    asked = [(at, result) for at, result in enumerate(results, start=1) if result.per_question]
    for at, result in asked:
        before = f"{at}. " if len(asked) > 1 else ""
        for row in _rows(result):
            name = before + (system_of(row) or ACTORS.get(result.kind, "the answer"))
            groups.setdefault(str(row.get("id") or row.get("question")), []).append((name, row))
    room = min(MOST, max(LEAST, BUDGET // max(sum(map(len, groups.values())), 1)))
    made = []
    for place, rows in enumerate(groups.values(), start=1):
        first, replies = rows[0][1], [_reply(name, row, room) for name, row in rows]
        verdicts = {each.verdict for each in replies if each.verdict}
        noted = any(each.notes or each.error for each in replies)
        marks = {"wrong": "wrong" in verdicts, "differs": len(verdicts) > 1, "noted": noted}
        made.append(
            Question(
                place,
                str(first.get("question") or "(a question whose text was not kept)"),
                str(first.get("set") or ""),
                [str(answer) for answer in many(first.get("answers"))],
                replies,
                tuple(mark for mark, is_set in marks.items() if is_set),
            )
        )
    return made


def _rows(result: Result) -> Iterator[Row]:
    """Yield the rows; a row of a comparison becomes one for each run."""
    for row in result.per_question:
        said, values = row.get("predictions"), row.get("values")
        if not isinstance(said, Mapping) or not isinstance(values, Mapping):
            yield row
            continue
        for run, prediction in said.items():
            own = {k.removesuffix(f", {run}"): v for k, v in values.items() if k.endswith(run)}
            name = " ".join(filter(None, (system_of(row), f"({run} run)")))
            yield {**row, "system": name, "prediction": prediction, "values": own}


def _reply(name: str, row: Row, room: int) -> Reply:
    gold = list(map(str, many(row.get("answers"))))
    kept, used, missing = excerpts(many(row.get("excerpts")), gold, room // 2)
    explained = row.get("explained") or ""
    trace = explained if isinstance(explained, str) else "\n".join(map(str, many(explained)))
    trace, rest = cut(trace, room - used)
    left_out = [counted(missing, "excerpt")] if missing else []
    left_out += [f"{counted(rest, 'character')} of the trace"] if rest else []
    said, values, right = row.get("prediction"), row.get("values"), right_of(row)
    verdict = (
        "" if right is None else "right" if right >= 1 else "wrong" if right <= 0 else "partly"
    )
    return Reply(
        system=name,
        answer=None if said is None else cut(str(said), MOST)[0],
        verdict=verdict,
        values=[
            (
                NAMES.get(measure, str(measure)),
                number(int(value) if isinstance(value, float) and value.is_integer() else value),
            )
            for measure, value in (values.items() if isinstance(values, Mapping) else ())
            if value is not None and measure not in JUDGED
        ],
        decision=_decision(row),
        notes=[cut(str(note), room)[0] for note in many(row.get("notes"))],
        error=cut(str(row.get("error") or ""), room)[0],
        excerpts=kept,
        trace=trace,
        left_out=" and ".join(left_out),
    )


def _decision(row: Row) -> str:
    """Return the decision and its reason."""
    parts = [f"action: {row['action']}"] if row.get("action") else []
    if isinstance(decision := row.get("decision"), Mapping):
        verdict = "retrieve" if decision.get("retrieve") else "do not retrieve"
        for name in ("p_known", "threshold"):
            if decision.get(name) is not None:
                verdict += f", {name} {number(decision[name])}"
        parts.append(verdict + (f": {decision['why']}" if decision.get("why") else ""))
    elif decision:
        parts.append(str(decision))
    return cut("; ".join(parts), LEAST * 4)[0]


AROUND = 240  # characters shown on either side of what was kept


@dataclass(frozen=True, slots=True)
class Kept:
    """Passage as the page shows it: the kept part, and the text around it.

    The part kept is in `pieces`, each with whether it is one of the right answers.
    """

    name: str
    score: str
    before: str
    kept: str
    after: str
    pieces: Sequence[tuple[str, bool]]

    @property
    def whole(self) -> bool:
        """Whether the whole passage was kept."""
        return not self.before.strip() and not self.after.strip()


def excerpts(
    given: Iterable[object], gold: Sequence[str], room: int
) -> tuple[list[Kept], int, int]:
    """Return the excerpts that fit into a page.

    Args:
        given: Excerpts as plain values.
        gold: Right answers, marked as whole words in either case.
        room: Maximum number of characters.

    Returns:
        The excerpts, their number of characters, and the number left out.
    """
    right = sorted(filter(None, map(str.strip, gold)), key=len, reverse=True)
    found = re.compile(
        rf"(?<!\w)({'|'.join(map(re.escape, right)) or '(?!)'})(?!\w)", re.IGNORECASE
    )
    kept, used, count = [], 0, 0
    for each in given:
        count += 1
        shown = _of(each, found) if isinstance(each, Mapping) else None
        size = 0 if shown is None else len(shown.before) + len(shown.kept) + len(shown.after)
        if shown is not None and used + size <= room:
            kept.append(shown)
            used += size
    return kept, used, count - len(kept)


def _of(excerpt: Row, right: re.Pattern[str]) -> Kept | None:
    passage, start, end = (excerpt.get(name) for name in ("passage", "start", "end"))
    if not isinstance(passage, Mapping) or not isinstance(start, int) or not isinstance(end, int):
        return None
    text = str(passage.get("text", ""))
    if not 0 <= start <= end <= len(text):
        return None
    before, after = text[max(0, start - AROUND) : start], text[end : end + AROUND]
    if start > AROUND:
        before = "… " + before.partition(" ")[2]
    if end + AROUND < len(text):
        after = after.rpartition(" ")[0] + " …"
    name = next((str(passage[k]) for k in ("title", "source", "id") if passage.get(k)), "untitled")
    score = number(excerpt.get("score"))
    kept = text[start:end]
    pieces = [(piece, at % 2 == 1) for at, piece in enumerate(right.split(kept)) if piece]
    return Kept(name, score, before, kept, after, pieces)


def many(value: object) -> list[object]:
    """Return a list unchanged, and an empty one for anything else."""
    return list(value) if isinstance(value, list | tuple) else []
