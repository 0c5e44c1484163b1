"""`fitrag evaluate rerank`: the order of passages by a scorer against the retriever's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Annotated

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.batch import CHUNK
from fitrag_integrations.commands.engine.options import ModelOptions, Quiet
from fitrag_integrations.commands.engine.progress import chunked
from fitrag_integrations.commands.engine.rows import passages_of, question_of
from fitrag_integrations.commands.evaluate.options import (
    Drawing,
    Format,
    LabeledRows,
    Outcome,
    settings_of,
)
from fitrag_integrations.core.checks import check_label, check_number
from fitrag_integrations.core.generic import T
from fitrag_integrations.core.option import Option
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.evaluation import measures
from fitrag_integrations.evaluation.answers import is_correct, normalize
from fitrag_integrations.evaluation.judging import gold
from fitrag_integrations.evaluation.plots import Plot
from fitrag_integrations.evaluation.ranking import ORDERS, Candidates, recall_at
from fitrag_integrations.evaluation.rows import each_row, read_rows, set_of
from fitrag_integrations.evaluation.table import Table, measured
from fitrag_integrations.methods.settings import EMBEDDED
from fitrag_integrations.ports import Reader, Scorer
from fitrag_integrations.training.rows import in_lists
from fitrag_integrations.types import BiLabelScore


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
    plot: Drawing = None
    format: Format = "auto"
    outcome: Outcome = Outcome()
    model: ModelOptions = ModelOptions()
    quiet: Quiet = False

    def run(self) -> None:
        """Measure the order of the passages, and write the table."""
        self.outcome.check(self.plot)
        ks, read_ks = depths("--k", self.k), depths("--read-k", self.read_k)
        given = ranked_rows(self.rows, self.format)
        refuse_if(
            self.reader is not None and not all(row["answers"] for row in given),
            "--reader",
            self.reader,
            "nothing, where rows have no answers to compare with",
        )
        ranked = self._ranked(given, self._scorer(given), read_ks)
        orders, depth = orders_of(ranked), max(len(one.has_answer) for one in ranked)
        ks, read_ks = ([k for k in some if k <= depth] for some in (ks, read_ks))
        rows = [{**row, "ranked": one} for row, one in zip(given, ranked, strict=True)]

        def measure(row: Row, by: str) -> Row:
            known = [
                k for k in read_ks if all(row["ranked"].answered(o, k) is not None for o in orders)
            ]
            return measures.ranking(row["ranked"], by, ks, known)

        curves = {
            by: [
                [k, fmean(recall_at(one.labels(by), k) for one in ranked)]
                for k in range(1, depth + 1)
            ]
            for by in orders
        }
        table = Table(
            f"{len(given)} questions; differences are to the retriever's order",
            [one for by in orders for one in measured(rows, partial(measure, by=by), by)],
            self.outcome.draws,
            _notes(given, orders),
            Plot("R@k", "k", "share of questions with an answer in the first k", curves),
            settings_of(self.rows, [], model=self.model.model or self.reranker, reader=self.reader),
        )
        self.outcome.publish(table, self.plot)

    def _ranked(
        self, rows: Sequence[Row], scorer: Scorer | None, read_ks: Sequence[int]
    ) -> list[Candidates]:
        """Score the passages, and have read what comes first where a reader is asked."""
        shown = not self.quiet
        ranked = candidates(chunked("score", rows, CHUNK, shown=shown), scorer)
        if self.reader is None:
            return ranked
        named = None if self.reader == EMBEDDED else self.reader
        reader = models.load_reader(replace(self.model, model=named))
        both = chunked("read", list(zip(rows, ranked, strict=True)), CHUNK, shown=shown)
        return read_first(both, orders_of(ranked), reader, max(read_ks))

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
    refuse_if(
        not all(part.isascii() and part.isdigit() and int(part) for part in parts),
        option,
        given,
        "whole numbers above 0, with commas",
    )
    return sorted(set(map(int, parts)))


def orders_of(rows: Sequence[Candidates]) -> tuple[str, ...]:
    """Return the orders; those by `llm_prefer` and by the sum require its scores."""
    both = all(score.llm_prefer is not None for row in rows for score in row.scores)
    return ORDERS if both else ORDERS[:2]


def _notes(rows: Sequence[Row], orders: Sequence[str]) -> list[str]:
    notes = []
    if len(orders) == 2:
        notes.append("the scorer gives no llm_prefer: has_answer is all there is to sort by")
    if count := sum(
        [row["ours"] and any(len(normalize(each)) < 2 for each in row["answers"]) for row in rows]
    ):
        notes.append(f"{count} rows have an answer of one letter or none: it stands in many texts")
    return notes


def ranked_rows(paths: Sequence[Path], format: str = "auto") -> list[Row]:
    """Read the rows; raises `InputError` naming the first that lacks something."""
    return [
        row for path in paths for row in each_row(read_rows(path, format), _checked, f"{path}, ")
    ]


def are_scored(rows: Sequence[Row]) -> bool:
    """Return whether every row has the scores of its passages, as `fitrag score` adds them."""
    return all(row.get("scores") is not None for row in rows)


def candidates(rows: Iterable[Sequence[Row]], scorer: Scorer | None) -> list[Candidates]:
    """Score the passages of rows in chunks, or take the scores they bring without a `scorer`."""
    made = []
    for chunk in rows:
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
    return made


def _known(row: Row, name: str, check: Callable[[str, object], T]) -> list[T | None]:
    """Return a checked field of every passage of a row; None where it is missing."""
    values = enumerate(passage.get(name) for passage in row["passages"])
    return [None if each is None else check(f"passages[{i}].{name}", each) for i, each in values]


def read_first(
    rows: Iterable[Sequence[tuple[Row, Candidates]]], orders: Sequence[str], reader: Reader, k: int
) -> list[Candidates]:
    """Read the passages that any order ranks among its first `k`, and judge the answers."""
    made = []
    for chunk in rows:
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
    return made


def _checked(row: Row) -> Row:
    question_of(row)
    passages_of(row)
    own = measures.has_answer(row)
    ours = any(passage.get("has_answer") is None for passage in row["passages"])
    answers = gold(row) if ours or row.get("answers") is not None else []
    if row.get("scores") is not None:
        _recorded(row)
    return {**row, "answers": answers, "labels": own, "ours": ours}


def _recorded(row: Row) -> list[BiLabelScore]:
    """Return the scores that a row brings."""
    given, count = row["scores"], len(row["passages"])
    refuse_if(
        not isinstance(given, list) or len(given) != count,
        "scores",
        given,
        f"a list of {count} scores",
    )
    refuse_if(
        not all(isinstance(score, Mapping) for score in given),
        "scores",
        given,
        "objects with has_answer and llm_prefer",
    )
    return [BiLabelScore.from_dict(score) for score in given]
