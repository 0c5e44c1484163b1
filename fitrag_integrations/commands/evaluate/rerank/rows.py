"""The rows of `fitrag evaluate rerank`: questions whose passages are labelled, scored and read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fitrag_integrations.commands.engine.batch import Advance, chunks
from fitrag_integrations.commands.engine.rows import passages_of, question_of
from fitrag_integrations.commands.evaluate.options import Ours
from fitrag_integrations.core.checks import check_label, check_number
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.answers import contains_answer, exact_match, normalize
from fitrag_integrations.evaluation.figures.ranking import Ranking
from fitrag_integrations.evaluation.judging import gold
from fitrag_integrations.evaluation.questions import each_row, set_of
from fitrag_integrations.evaluation.ranking import Candidates
from fitrag_integrations.ports import Reader, Scorer
from fitrag_integrations.types import BiLabelScore

CHUNK = 16  # questions that share a model batch
ADDED = ("labels", "ours")


def ranked_rows(paths: Sequence[Path], shape: Ours) -> list[Row]:
    """Read the rows; raises `InputError` naming the first that lacks something."""
    rows = [row for path in paths for row in each_row(shape.rows(path), _checked, f"{path}, ")]
    if not rows:
        given = ", ".join(map(str, paths))
        raise InputError.of("rows", given=given, allowed="at least one row")
    return rows


def as_given(row: Row) -> Row:
    """Leave out what was added to a row while it was read."""
    return {name: value for name, value in row.items() if name not in ADDED}


def short_answers(rows: Sequence[Row]) -> int:
    """Count the rows that have an answer of one letter or of none, and labels of ours."""
    return sum(
        any(len(normalize(answer)) < 2 for answer in row["answers"]) for row in rows if row["ours"]
    )


def are_scored(rows: Sequence[Row]) -> bool:
    """Say whether every row brings the scores of its passages, as `fitrag score` adds them."""
    return all(row.get("scores") is not None for row in rows)


def candidates(rows: Sequence[Row], scorer: Scorer | None, advance: Advance) -> list[Candidates]:
    """Score the passages of each row, or take the scores that it brings where `scorer` is None."""
    made = []
    for chunk in chunks(rows, CHUNK):
        pairs = [(row["question"], passage) for row in chunk for passage in passages_of(row)]
        scores = iter(scorer.score(pairs) if scorer else map(_score, _recorded(chunk)))
        made += [_candidates(row, [next(scores) for _ in row["passages"]]) for row in chunk]
        advance(len(chunk))
    return made


def read_first(
    rows: Sequence[Row],
    ranked: Sequence[Candidates],
    reader: Reader,
    k: int,
    advance: Advance,
) -> list[Candidates]:
    """Have read what any order puts among its first `k`, and judge the answers."""
    orders, made = Ranking(ranked).orders, []
    for chunk in chunks(list(zip(rows, ranked, strict=True)), CHUNK):
        wanted = [sorted({i for by in orders for i in one.order(by)[:k]}) for _, one in chunk]
        pairs = [
            (row["question"], passages_of(row)[i])
            for (row, _), places in zip(chunk, wanted, strict=True)
            for i in places
        ]
        answers = iter(reader.read(pairs))
        for (row, one), places in zip(chunk, wanted, strict=True):
            found = {i: next(answers) for i in places}
            right = {i: _is_right(found[i].text, row["answers"]) for i in places}
            made.append(_with_answers(one, right, {i: found[i].score for i in places}))
        advance(len(chunk))
    return made


def _with_answers(
    one: Candidates, right: Mapping[int, bool], trust: Mapping[int, float]
) -> Candidates:
    """Keep answers by place; a passage that no order asks for is never looked at."""
    places = range(len(one.has_answer))
    labels = one.llm_prefer
    if labels is None and len(right) == len(places):
        labels = tuple(int(right[i]) for i in places)
    return replace(
        one,
        llm_prefer=labels,
        right=tuple(right.get(i, False) for i in places),
        trust=tuple(trust.get(i, -1.0) for i in places),
    )


def _is_right(answer: str, gold: Sequence[str]) -> bool:
    return contains_answer(answer, gold) or exact_match(answer, gold)


def _checked(row: Row) -> Row:
    question_of(row)
    passages = passages_of(row)
    brought = [passage.get("has_answer") for passage in row["passages"]]
    ours = None in brought
    answers = gold(row) if ours or row.get("answers") is not None else []
    if ours:
        brought = [contains_answer(f"{p.title} {p.text}", answers) for p in passages]
    labels = [check_label(f"passages[{i}].has_answer", value) for i, value in enumerate(brought)]
    if row.get("scores") is not None:
        _recorded([row])
    return {**row, "answers": answers, "labels": labels, "ours": ours}


def _recorded(rows: Sequence[Row]) -> list[object]:
    for row in rows:
        given, count = row["scores"], len(row["passages"])
        if not isinstance(given, list) or len(given) != count:
            raise InputError.of("scores", given=given, allowed=f"a list of {count} scores")
    return [score for row in rows for score in row["scores"]]


def _score(given: object) -> BiLabelScore:
    if not isinstance(given, Mapping):
        allowed = "an object with has_answer and llm_prefer"
        raise InputError.of("scores", given=given, allowed=allowed)
    return BiLabelScore.from_dict(given)


def _candidates(row: Row, scores: Sequence[BiLabelScore]) -> Candidates:
    given = [passage.get("llm_prefer") for passage in row["passages"]]
    prefer = tuple(
        None if value is None else check_label(f"passages[{i}].llm_prefer", value)
        for i, value in enumerate(given)
    )
    asked = any(value is not None for value in given)
    return Candidates(
        tuple(row["labels"]),
        tuple(scores),
        llm_prefer=prefer if asked else None,
        right=tuple(None if p is None else bool(p) for p in prefer) if asked else None,
        trust=_trust(row) if asked else None,
        set=set_of(row),
    )


def _trust(row: Row) -> tuple[float, ...] | None:
    """Take the reader's score of every passage; None where one has none."""
    given = [passage.get("reader_score") for passage in row["passages"]]
    if None in given:
        return None
    return tuple(check_number(f"passages[{i}].reader_score", x) for i, x in enumerate(given))
