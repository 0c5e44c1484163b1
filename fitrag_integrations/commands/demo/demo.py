"""`fitrag demo`: our drop-ins at work in both frameworks, on questions shipped for it."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

import typer

from fitrag_integrations.commands.demo import data as demo_data
from fitrag_integrations.commands.demo.data import Parts, Question, Stack, Worked
from fitrag_integrations.commands.demo.figures import Figures, figures
from fitrag_integrations.commands.demo.gate import GateFigures, gate_figures
from fitrag_integrations.commands.demo.langchain import langchain_stack
from fitrag_integrations.commands.demo.llama_index import llama_index_stack
from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.batch import CHUNK, chunks
from fitrag_integrations.commands.engine.options import AsJson, ModelOptions
from fitrag_integrations.commands.engine.progress import progress_bar
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.option import Option

STACKS = {"LangChain": langchain_stack, "LlamaIndex": llama_index_stack}
NEEDS = {"langchain_core": "langchain", "llama_index.core": "llama-index", "faiss": "faiss"}
GATE_SAID = (
    "What the gate says is known is answered by a language model of five million weights, which",
    "was shown some of these answers in training, up to 64 times. R@n, tokens and answer kept, in",
    "the upper table, are those of the other questions; answers with retrieval are the reader's.",
)
Run = tuple[list[Worked], float]


@dataclass(frozen=True)
class DemoPlan:
    """Answer questions about a small corpus through LangChain and through LlamaIndex.

    Both retrieve, rerank, compress and answer with the same parts; shows examples in full, then
    what each step gained. What the small language model that ships with the package knows by
    itself, it answers without retrieval; a model given by --llm answers everything with it.
    """

    questions: Annotated[int, Option("How many questions to ask.", min=1)] = 80
    llm: Annotated[
        str | None,
        Option(
            "LangChain chat model that answers.",
            metavar="PROVIDER:MODEL",
            default="the extractive reader",
        ),
    ] = None
    examples: Annotated[int, Option("Worked examples to show.", min=0)] = 4
    model: ModelOptions = ModelOptions()
    json: AsJson = False

    def run(self) -> None:
        """Ask and show."""
        for module, extra in NEEDS.items():
            require_extra(module, extra=extra, feature="fitrag demo")
        parts = _parts(self.model, self.llm)
        asked = demo_data.questions(self.questions)
        runs = {name: _run(name, build(parts), asked) for name, build in STACKS.items()}
        rows = {
            name: figures(worked, seconds, extractive=self.llm is None)
            for name, (worked, seconds) in runs.items()
        }
        gates = _gates(parts, runs) if parts.gate is not None else {}
        report = _print_json if self.json else _print
        report(rows, gates, runs, self.examples, self.llm)


def _parts(chosen: ModelOptions, llm: str | None) -> Parts:
    """Load the models, index the corpus, and run each once so that no pipeline pays for it."""
    from fitrag_integrations.retrieval import read_corpus

    plain = replace(chosen, model=None)
    chat = None if llm is None else models.load_chat_model(llm)
    scorer, reader = models.load_scorer(chosen), models.load_reader(plain)
    corpus = list(read_corpus(demo_data.PASSAGES))
    index = models.new_index(plain)
    with progress_bar("indexing", len(corpus)) as advance:
        for chunk in chunks(corpus, CHUNK):
            index.add(chunk)
            advance(len(chunk))
    first = [("What is this?", corpus[0])]
    scorer.score(first)
    reader.read(first)
    gate = _gate(plain) if llm is None else None
    return Parts(index, scorer, reader, chat, gate=gate)


def _gate(chosen: ModelOptions) -> Any:
    """Load the gate over the closed-book model, and run both once."""
    gate: Any = models.load_gate(chosen)
    (draft,) = gate.drafter.draft(["What is this?"])
    gate.p_known(["What is this?"], [draft.text])
    return gate


def _gates(parts: Parts, runs: dict[str, Run]) -> dict[str, GateFigures]:
    """Retrieve once for what the gate let pass, to compare."""
    worked, _ = runs["LangChain"]
    passed = [each.question for each in worked if each.skipped]
    again, _ = _run("comparing", langchain_stack(replace(parts, gate=None)), passed)
    held = {each.question.text: each for each in again}
    return {
        name: gate_figures(
            worked,
            [held[each.question.text] for each in worked if each.question.text in held],
            parts.gate.threshold,
        )
        for name, (worked, _) in runs.items()
    }


def _run(name: str, stack: Stack, asked: Sequence[Question]) -> Run:
    began, worked = time.perf_counter(), list[Worked]()
    with progress_bar(name, len(asked)) as advance:
        for chunk in chunks(asked, CHUNK):
            worked.extend(stack(chunk))
            advance(len(chunk))
    return worked, time.perf_counter() - began


def _print(
    rows: dict[str, Figures],
    gates: dict[str, GateFigures],
    runs: dict[str, Run],
    examples: int,
    llm: str | None,
) -> None:
    from fitrag_integrations.commands.demo import report as demo_report

    out, (worked, _) = demo_report.console(), runs["LangChain"]
    opening = demo_report.most_saved(worked, extractive=llm is None)
    if opening is not None:
        demo_report.show_opening(out, opening)
    for number, each in enumerate(
        demo_report.chosen(worked, examples, extractive=llm is None), start=1
    ):
        demo_report.show_example(out, number, each)
    unanswerable = sum(not each.question.answerable for each in worked)
    same = equal_answers(runs)
    demo_report.show_summary(
        out,
        rows,
        [
            f"{len(worked)} questions, {unanswerable} of them not answered by the corpus, where "
            + ("abstaining is right." if llm is None else "knowing the answer is right."),
            "R@n: a passage with the answer is among the first n, before and after reranking.",
            f"Answers of both frameworks are equal on {same} of {len(worked)} questions.",
        ],
    )
    if gates:
        demo_report.show_gate(out, gates, GATE_SAID)


def _print_json(
    rows: dict[str, Figures],
    gates: dict[str, GateFigures],
    runs: dict[str, Run],
    examples: int,
    llm: str | None,
) -> None:
    from fitrag_integrations.commands.demo import report as demo_report

    worked, _ = runs["LangChain"]
    shown = demo_report.chosen(worked, examples, extractive=llm is None)
    report = {
        "questions": len(worked),
        "unanswerable": sum(not each.question.answerable for each in worked),
        "equal_answers": equal_answers(runs),
        "figures": {name: asdict(row) for name, row in rows.items()},
        "gate": {name: asdict(row) for name, row in gates.items()},
        "examples": [demo_report.example_dict(each) for each in shown],
    }
    typer.echo(json.dumps(report))


def equal_answers(runs: dict[str, Run]) -> int:
    """Count the questions that every pipeline answered alike."""
    every = zip(*([each.answer for each in worked] for worked, _ in runs.values()), strict=True)
    return sum(len(set(answers)) == 1 for answers in every)
