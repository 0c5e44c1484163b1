"""`fitrag evaluate rerank`: the order of passages by a scorer against the retriever's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, TypeVar

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.batch import CHUNK, Advance
from fitrag_integrations.commands.engine.options import ModelOptions, Quiet
from fitrag_integrations.commands.engine.progress import progress_bar
from fitrag_integrations.commands.engine.rows import passages_of, question_of
from fitrag_integrations.commands.evaluate.options import (
    EMBEDDED,
    LabeledRows,
    Ours,
    Outcome,
    settings_of,
)
from fitrag_integrations.commands.evaluate.terminal import pivot, show
from fitrag_integrations.core.checks import check_label, check_number
from fitrag_integrations.core.option import Option
from fitrag_integrations.core.progress import chunks
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.evaluation.answers import is_correct, normalize
from fitrag_integrations.evaluation.figure import NOTHING
from fitrag_integrations.evaluation.figures.decisions import labels
from fitrag_integrations.evaluation.figures.ranking import (
    Ranking,
    ranking_plots,
    ranking_rows,
)
from fitrag_integrations.evaluation.judging import gold
from fitrag_integrations.evaluation.ranking import Candidates
from fitrag_integrations.evaluation.result import Result, each_row, set_of
from fitrag_integrations.ports import Reader, Scorer
from fitrag_integrations.training.rows import in_lists
from fitrag_integrations.types import BiLabelScore

T = TypeVar("T")
WITH_CHANGE = "with the difference to the retriever's order and its interval"
UNCHANGED = dict.fromkeys(("difference", "difference_low", "difference_high", "p"))
CHANGE = {"difference": "difference", "low": "difference_low", "high": "difference_high", "p": "p"}


@dataclass(frozen=True)
class EvaluateRerank:
    """Compare four orders of each question's passages: the retriever's and those by the scores.

    Reads question, answers and passages[{title, text}] in the retriever's order, with has_answer,
    llm_prefer and reader_score where they are known, and scores[{has_answer, llm_prefer}] of
    `fitrag score`, which are taken unless a model is named. An interval holds 95 % of bootstrap
    samples of the difference to the retriever's order over the same questions.
    """

    rows: LabeledRows
    reranker: Annotated[
        str | None, Option("Published reranker instead of --model: a hub name or a folder.")
    ] = None
    scale: Annotated[
        str | None,
        Option("Output of the reranker: tokens, logit or probability.", default="by its type"),
    ] = None
    k: Annotated[str, Option("Depths of R@k, separated by commas.", name="--k")] = (
        "1,3,5,10,20,50,100"
    )
    reader: Annotated[
        str | None,
        Option("Reader of the first passages: embedded, or a folder."),
    ] = None
    read_k: Annotated[str, Option("Numbers of passages for the reader, separated by commas.")] = (
        "1,3,5"
    )
    shape: Ours = Ours()
    outcome: Outcome = Outcome()
    model: ModelOptions = ModelOptions()
    quiet: Quiet = False

    def run(self) -> None:
        """Measure it."""
        self.outcome.check()
        ks, read_ks = depths("--k", self.k), depths("--read-k", self.read_k)
        given = ranked_rows(self.rows, self.shape)
        unanswered = self.reader is not None and not all(row["answers"] for row in given)
        allowed = "nothing, where rows have no answers to compare with"
        refuse_if(unanswered, "--reader", self.reader, allowed)
        scorer = self._scorer(given)
        ranking = Ranking(self._ranked(given, scorer, read_ks), self.outcome.draws)
        ks, read_ks = ([k for k in some if k <= ranking.depth] for some in (ks, read_ks))
        figures, gaps = ranking.figures(ks, read_ks), ranking.gap_closed()
        used: Row = {} if self.reader is None else {"reader": self._reader}
        if scorer is not None:
            used = {"scorer": self.model.model or self.reranker, **used}
        rows = [
            {name: row[name] for name in row if name not in ("labels", "ours")} for row in given
        ]
        chosen = {"k": ks, "read_k": read_ks, "scale": self.scale, "format": self.shape.format}
        result = Result(
            "rerank",
            [{**UNCHANGED, **figure.to_dict()} for figure in figures],
            ranking_rows(given, ranking, ks, read_ks),
            settings_of("rerank", self.rows, rows, self.outcome.draws, used, chosen),
            ranking_plots(ranking, figures),
            _notes(given, ranking, read_ks),
        )
        by_order: dict[str, dict[str, Row]] = {}
        for row in result.figures:
            change = {name: row[own] for name, own in CHANGE.items()}
            by_order.setdefault(row["order"], {})[row["figure"]] = {"value": row["value"], **change}
        summary = {"rows": len(given), "figures": by_order, "gap_closed": gaps}

        def show_orders() -> None:
            """Print the figures down and the orders across, and the gap closed."""
            orders, lines = pivot(figures)
            closed = {by: NOTHING if gap is None else f"{gap:.2f}" for by, gap in gaps.items()}
            lines.append(["gap closed (MRR)", *(closed.get(order, NOTHING) for order in orders)])
            title = f"{len(given)} questions; {WITH_CHANGE}"
            show(title, {"figure": False, **dict.fromkeys(orders, True)}, lines)

        self.outcome.publish(result, show_orders, summary={**summary, "notes": list(result.notes)})

    @property
    def _reader(self) -> str | None:
        return None if self.reader == EMBEDDED else self.reader

    def _ranked(
        self, rows: Sequence[Row], scorer: Scorer | None, read_ks: Sequence[int]
    ) -> list[Candidates]:
        """Score the passages, and have read what comes first where a reader is asked."""
        with progress_bar("score", len(rows), shown=not self.quiet) as advance:
            ranked = candidates(rows, scorer, advance)
        if self.reader is None:
            return ranked
        reader = models.load_reader(replace(self.model, model=self._reader))
        with progress_bar("read", len(rows), shown=not self.quiet) as advance:
            return read_first(rows, ranked, reader, max(read_ks), advance)

    def _scorer(self, rows: Sequence[Row]) -> Scorer | None:
        """Load what scores; None where the rows bring their scores and no model is named."""
        if self.reranker is None:
            refuse_if(self.scale is not None, "--scale", self.scale, "nothing without --reranker")
            scored = self.model.model is None and are_scored(rows)
            return None if scored else models.load_scorer(self.model)
        refuse_if(
            self.model.model is not None, "--reranker", self.reranker, "nothing beside --model"
        )
        return models.load_reranker(self.reranker, self.scale, self.model)


def depths(option: str, given: str) -> list[int]:
    """Read whole numbers with commas, sorted, each once."""
    parts = [part.strip() for part in given.split(",")]
    whole = all(part.isascii() and part.isdigit() and int(part) for part in parts)
    refuse_if(not whole, option, given, "whole numbers above 0, with commas")
    return sorted(set(map(int, parts)))


def _notes(rows: Sequence[Row], ranking: Ranking, read_ks: Sequence[int]) -> list[str]:
    notes = []
    if len(ranking.orders) == 2:
        notes.append("the scorer gives no llm_prefer: has_answer is all there is to sort by")
    for k in read_ks:
        if 0 < (count := len(ranking.answered(k))) < len(rows):
            notes.append(f"accuracy@{k} is over the {count} questions whose answers are known")
    if count := sum(
        [row["ours"] and any(len(normalize(each)) < 2 for each in row["answers"]) for row in rows]
    ):
        notes.append(f"{count} rows have an answer of one letter or none: it stands in many texts")
    return notes


def ranked_rows(paths: Sequence[Path], shape: Ours) -> list[Row]:
    """Read the rows; raises `InputError` naming the first that lacks something."""
    rows = [row for path in paths for row in each_row(shape.rows(path), _checked, f"{path}, ")]
    refuse_if(not rows, "rows", ", ".join(map(str, paths)), "at least one row")
    return rows


def are_scored(rows: Sequence[Row]) -> bool:
    """Return whether every row has the scores of its passages, as `fitrag score` adds them."""
    return all(row.get("scores") is not None for row in rows)


def candidates(rows: Sequence[Row], scorer: Scorer | None, advance: Advance) -> list[Candidates]:
    """Score the passages of each row, or take the scores that it brings where `scorer` is None."""
    made = []
    for chunk in chunks(rows, CHUNK):
        pairs = [[(row["question"], passage) for passage in passages_of(row)] for row in chunk]
        scores = in_lists(scorer.score, pairs) if scorer else map(_recorded, chunk)
        for row, own in zip(chunk, scores, strict=True):
            prefer = _known(row, "llm_prefer", check_label)
            trust = _known(row, "reader_score", check_number)
            one = Candidates(tuple(row["labels"]), tuple(own), set=set_of(row))
            if any(value is not None for value in prefer):
                right = tuple(None if value is None else bool(value) for value in prefer)
                sure = tuple(value for value in trust if value is not None)
                read = sure if len(sure) == len(trust) else None
                one = replace(one, llm_prefer=tuple(prefer), right=right, trust=read)
            made.append(one)
        advance(len(chunk))
    return made


def _known(row: Row, name: str, check: Callable[[str, object], T]) -> list[T | None]:
    """Return a checked field of every passage of a row; None where it is missing."""
    values = enumerate(passage.get(name) for passage in row["passages"])
    return [None if each is None else check(f"passages[{i}].{name}", each) for i, each in values]


def read_first(
    rows: Sequence[Row],
    ranked: Sequence[Candidates],
    reader: Reader,
    k: int,
    advance: Advance,
) -> list[Candidates]:
    """Read the passages that any order ranks among its first `k`, and judge the answers."""
    orders, made = Ranking(ranked).orders, []
    for chunk in chunks(list(zip(rows, ranked, strict=True)), CHUNK):
        wanted = [sorted({i for by in orders for i in one.order(by)[:k]}) for _, one in chunk]
        passages = [passages_of(row) for row, _ in chunk]
        pairs = [
            [(row["question"], own[i]) for i in places]
            for (row, _), own, places in zip(chunk, passages, wanted, strict=True)
        ]
        read = in_lists(reader.read, pairs)
        for (row, one), places, answers in zip(chunk, wanted, read, strict=True):
            found = dict(zip(places, answers, strict=True))
            right = {i: is_correct(answer.text, row["answers"]) for i, answer in found.items()}
            every, prefer = range(len(one.has_answer)), one.llm_prefer
            if prefer is None and len(right) == len(every):
                prefer = tuple(int(right[i]) for i in every)
            # a passage that no order asks for is never looked at
            judged = tuple(right.get(i, False) for i in every)
            trust = tuple(found[i].score if i in found else -1.0 for i in every)
            made.append(replace(one, llm_prefer=prefer, right=judged, trust=trust))
        advance(len(chunk))
    return made


def _checked(row: Row) -> Row:
    question_of(row)
    passages_of(row)
    own = labels(row)
    ours = any(passage.get("has_answer") is None for passage in row["passages"])
    answers = gold(row) if ours or row.get("answers") is not None else []
    if row.get("scores") is not None:
        _recorded(row)
    return {**row, "answers": answers, "labels": own, "ours": ours}


def _recorded(row: Row) -> list[BiLabelScore]:
    """Return the scores that a row brings."""
    given, count = row["scores"], len(row["passages"])
    if not isinstance(given, list) or len(given) != count:
        raise InputError.of("scores", given=given, allowed=f"a list of {count} scores")
    wrong = not all(isinstance(score, Mapping) for score in given)
    refuse_if(wrong, "scores", given, "objects with has_answer and llm_prefer")
    return [BiLabelScore.from_dict(score) for score in given]
