"""Measure corrective retrieval end to end, with recorded web knowledge as the search.

    python benchmarks/corrective.py DATA [-n 0] [--model DIR]

PopQA questions of DATA/odqa_retrieved with their five retrieved passages; the search gives what
DATA/crag recorded from the web for the same question. For each way to make a context: in how many
of them a gold answer stands (whole tokens), what the embedded reader makes of it, and its tokens.
Nothing here is trained or fitted on these questions. Brackets hold 95 % of bootstrap samples of
the difference to retrieval alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.evaluation.table import Measured, Table
from fitrag_integrations.flow import Flow, run_many
from fitrag_integrations.methods import Crag
from fitrag_integrations.methods.answering import Answering
from fitrag_integrations.methods.direct import Direct
from fitrag_integrations.methods.prompts import render_excerpts
from fitrag_integrations.models import ExtractiveReader, RetrievalEvaluator
from fitrag_integrations.ports import Method, Ports
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.training.rows import passage_row, read_jsonl
from fitrag_integrations.types import Action, Context, Excerpt, Passage


@dataclass(frozen=True)
class Recorded:
    """Hold a question, its gold answers, what was retrieved for it, and what the web had."""

    question: str
    answers: list[str]
    retrieved: list[Passage]
    web: list[Passage]


@dataclass(frozen=True)
class AlwaysWeb:
    """Search for every question; `retrieve` adds what was retrieved, in front."""

    retrieve: bool = False

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Give the flow that ends in the context."""
        found: Sequence[Passage] = []
        if self.retrieve:
            (found,) = yield from ports.retrieve.ask([question])
        (pages,) = yield from ports.search.ask([question])
        return Context(question, tuple(map(Excerpt.whole, [*found, *pages])))


def main() -> None:
    """Run every method over the same questions and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("-n", type=int, default=0, help="questions, 0 for all")
    parser.add_argument("--model", default=None, help="an evaluator's folder")
    args = parser.parse_args()
    rows = recorded(args.data)[: args.n or None]
    evaluator = (
        RetrievalEvaluator.embedded()
        if args.model is None
        else RetrievalEvaluator.from_pretrained(args.model)
    )
    crag = Crag(evaluator, without=["rewrite"])  # the recorded knowledge answers to the question
    methods: dict[str, Method] = {
        "retrieval only": Direct(),
        "always web": AlwaysWeb(),
        "retrieval and web, all of it": AlwaysWeb(retrieve=True),
        "CRAG": crag,
        "CRAG, strips not selected": replace(crag, without=["refine", "rewrite", "select"]),
    }
    reader = ExtractiveReader.embedded()
    found = [one for name, way in methods.items() for one in measured(name, way, reader, rows)]
    print(Table(f"{len(rows)} questions", found).text())


def recorded(data: Path) -> list[Recorded]:
    """Join the two recordings by question."""
    web = {
        row["question"]: row["refined_external_web"] or ""
        for row in read_jsonl(data / "crag" / "crag_popqa_knowledge.jsonl.gz")
    }
    return [
        Recorded(row["question"], row["answers"], _passages(row), _pages(web[row["question"]]))
        for row in read_jsonl(data / "odqa_retrieved" / "popqa_top5.jsonl.gz")
        if row["question"] in web
    ]


def measured(
    name: str, method: Method, reader: ExtractiveReader, rows: Sequence[Recorded]
) -> list[Measured]:
    """Measure per question the context, the answer read from it, tokens and the action."""
    by_question = {row.question: row for row in rows}
    ports = Ports(
        retrieve=_each(lambda q: by_question[q].retrieved),
        search=_each(lambda q: by_question[q].web),
    )
    answering = Answering(method, reader=reader)
    found = []
    for row, traced in zip(
        rows, run_many([answering(r.question, ports) for r in rows]), strict=True
    ):
        context = traced.value.context
        text = render_excerpts(context.excerpts)
        values = {
            "answer in context": float(contains_answer(text, row.answers)),
            "read": float(contains_answer(traced.value.text, row.answers)),
            "tokens": float(approximate_tokens(text)),
        }
        if context.action is not None:
            values |= {str(action): float(action is context.action) for action in Action}
        found.append(Measured(row.question, values, name))
    return found


def _each(
    call: Callable[[str], list[Passage]],
) -> Callable[[Sequence[str]], list[list[Passage]]]:
    return lambda queries: [call(query) for query in queries]


def _passages(row: dict[str, object]) -> list[Passage]:
    return [passage_row(passage) for passage in row["passages"]]  # type: ignore[attr-defined]


def _pages(text: str) -> list[Passage]:
    """Make one web passage of what was recorded, its leading mark left off."""
    body = text.lstrip("# ").strip()
    return [Passage("web", body, metadata={"web": True, "trust": "untrusted"})] if body else []


if __name__ == "__main__":
    main()
