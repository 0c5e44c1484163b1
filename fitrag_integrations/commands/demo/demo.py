"""`fitrag demo`: FIT-RAG as a drop-in of both frameworks, on questions shipped for it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from fitrag_integrations.commands.demo.figures import (
    Figures,
    compression,
    figures,
    gate_figures,
    is_right,
    recalls,
)
from fitrag_integrations.commands.demo.stacks import (
    PASSAGES,
    Parts,
    Question,
    Worked,
    langchain_stack,
    llama_index_stack,
    questions,
)
from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.batch import CHUNK, chunks
from fitrag_integrations.commands.engine.options import AsJson, ModelOptions
from fitrag_integrations.commands.engine.progress import progress_bar
from fitrag_integrations.commands.evaluate.tables import pivot, show
from fitrag_integrations.commands.run.telling import MARKS, cost, kept_lines
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.option import Option
from fitrag_integrations.methods.prompts import render_excerpts
from fitrag_integrations.text.tokens import approximate_tokens

STACKS = {"LangChain": langchain_stack, "LlamaIndex": llama_index_stack}
NEEDS = {"langchain_core": "langchain", "llama_index.core": "llama-index", "faiss": "faiss"}
SAID = (
    "recall_n: a passage with the answer is among the first n, before and after reranking.",
    "In brackets are 95 % intervals over the questions.",
)
GATE_SAID = (
    "What the gate says is known is answered by a language model of five million weights, which",
    "was shown some of these answers in training, up to 64 times. Recall, tokens and kept are of",
    "the other questions; answers with retrieval are the reader's.",
)
WIDTH = 100
ABSTAINED = "(no answer: the reader abstains)"
Run = tuple[list[Worked], float]


@dataclass(frozen=True)
class DemoPlan:
    """Answer questions about a small corpus through LangChain and through LlamaIndex.

    Both retrieve, rerank, compress and answer with the same parts; shows an answer before and
    after, what each step gained, and examples. What the small language model that ships with the
    package knows by itself, it answers without retrieval; a model given by --llm answers
    everything with it.
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
        parts, asked = _parts(self.model, self.llm), questions(self.questions)
        runs = {name: _run(name, parts, asked) for name in STACKS}
        extractive = self.llm is None
        rows = {name: figures(*run, extractive=extractive) for name, run in runs.items()}
        gates = _gates(parts, runs) if parts.gate is not None else {}
        worked, _ = runs["LangChain"]
        examples = chosen(worked, self.examples, extractive=extractive)
        if self.json:
            typer.echo(json.dumps(_report(rows, gates, runs, examples)))
            return
        opening = most_saved(worked, extractive=extractive)
        if opening is not None:
            show_worked(opening, whole=True)
        right = "abstaining" if extractive else "knowing the answer"
        show_figures(rows, [f"Where the corpus has no answer, {right} is right.", *SAID])
        typer.echo(f"Both frameworks answer {equal_answers(runs)} of {len(worked)} alike.")
        if gates:
            show_figures(gates, GATE_SAID)
        for each in examples:
            show_worked(each)


def _parts(chosen: ModelOptions, llm: str | None) -> Parts:
    """Load the models, index the corpus, and run each once so that no pipeline pays for it."""
    from fitrag_integrations.retrieval import read_corpus

    plain = replace(chosen, model=None)
    chat = None if llm is None else models.load_chat_model(llm)
    scorer, reader = models.load_scorer(chosen), models.load_reader(plain)
    gate: Any = models.load_gate(plain) if llm is None else None
    corpus = list(read_corpus(PASSAGES))
    index = models.new_index(plain)
    with progress_bar("indexing", len(corpus)) as advance:
        for chunk in chunks(corpus, CHUNK):
            index.add(chunk)
            advance(len(chunk))
    first = "What is this?"
    scorer.score([(first, corpus[0])])
    reader.read([(first, corpus[0])])
    if gate is not None:
        gate.p_known([first], [draft.text for draft in gate.drafter.draft([first])])
    return Parts(index, scorer, reader, chat, gate=gate)


def _run(name: str, parts: Parts, asked: Sequence[Question]) -> Run:
    stack, worked = parts.stack(STACKS[name]), list[Worked]()
    began = time.perf_counter()
    with progress_bar(name, len(asked)) as advance:
        for chunk in chunks(asked, CHUNK):
            worked.extend(stack(chunk))
            advance(len(chunk))
    return worked, time.perf_counter() - began


def _gates(parts: Parts, runs: Mapping[str, Run]) -> dict[str, Figures]:
    """Retrieve once for what the gate let pass, to compare."""
    skipped = [each.question for each in runs["LangChain"][0] if each.skipped]
    again, _ = _run("LangChain", replace(parts, gate=None), skipped)
    held = {each.question: each for each in again}
    return {
        name: gate_figures(
            worked, [held[w.question] for w in worked if w.question in held], parts.gate.threshold
        )
        for name, (worked, _) in runs.items()
    }


def chosen(worked: Sequence[Worked], count: int, *, extractive: bool) -> list[Worked]:
    """Choose examples: one plain, one the reranker helped, one unanswerable, one that was known,
    then the others.
    """
    right = [each for each in worked if is_right(each, extractive=extractive)]
    first = [(each, recalls(each)) for each in right]
    plain = [each for each, r in first if r["recall_1_before"]]
    helped = [each for each, r in first if r["recall_1_after"] and not r["recall_1_before"]]
    others = [each for each in right if not each.question.answerable and not each.skipped]
    known = [each for each in right if each.skipped]
    picked = [*plain[:1], *helped[:1], *others[:1], *known[:1]]
    return [*picked, *(each for each in worked if each not in picked)][:count]


def most_saved(worked: Sequence[Worked], *, extractive: bool) -> Worked | None:
    """Choose what to open with: a right answer, read from the least of many tokens."""

    def saved(each: Worked) -> float:
        values = compression(each)
        return values["tokens_in"] - values["tokens_out"]

    right = [w for w in worked if w.answer and not w.skipped and is_right(w, extractive=extractive)]
    return max(right, key=saved, default=None)


def show_worked(each: Worked, *, whole: bool = False) -> None:
    """Print what was decided, ranked, kept and answered; `whole` puts the passages before that."""
    from rich.console import Console
    from rich.panel import Panel
    from rich.text import Text

    ids, gold = each.question.passage_ids, " / ".join(each.question.answers)
    title, lines = f"{'Before and after: ' * whole}{each.question.text}", list[str]()
    if whole:
        lines += [f"\x1b[2m{one.title}: {one.text}\x1b[0m" for one in each.compressed]
    else:
        lines += [f"Gate: {each.decision.why}"] if each.decision is not None else []
        ranked = each.ranked[: each.top_n]
        lines += [f"{r.score:.3f} {' *'[r.passage.id in ids]} {r.passage.title}" for r in ranked]
    lines += ["", cost(each.compressed, each.kept)] if each.ranked else []
    lines += [*kept_lines(each.kept, each.answer, MARKS), "", f"Answer: {each.answer or ABSTAINED}"]
    lines += [] if whole else [f"Expected: {gold}{', not in the corpus' * (not ids)}"]
    panel = Panel(Text.from_ansi("\n".join(lines)), title=Text(title), title_align="left")
    Console(width=WIDTH, highlight=False).print(panel)


def show_figures(rows: Mapping[str, Figures], said: Sequence[str]) -> None:
    """Print figures down and the frameworks across, and lines under them."""
    named = [replace(f, of={"system": name}) for name, row in rows.items() for f in row.values()]
    heads, lines = pivot(named)
    show("", {"": False, **dict.fromkeys(heads, True)}, lines, WIDTH)
    for line in said:
        typer.echo(line)


def _report(
    rows: Mapping[str, Figures],
    gates: Mapping[str, Figures],
    runs: Mapping[str, Run],
    examples: Sequence[Worked],
) -> dict[str, object]:
    """Give all of it as plain values."""
    worked, _ = runs["LangChain"]
    return {
        "questions": len(worked),
        "unanswerable": sum(not each.question.answerable for each in worked),
        "equal_answers": equal_answers(runs),
        "figures": {name: _plain(row) for name, row in rows.items()},
        "gate": {name: _plain(row) for name, row in gates.items()},
        "examples": [_example(each) for each in examples],
    }


def _plain(row: Figures) -> dict[str, float | None]:
    return {name: figure.value for name, figure in row.items()}


def _example(each: Worked) -> dict[str, object]:
    return {
        "question": each.question.text,
        "answers": list(each.question.answers),
        "answerable": each.question.answerable,
        "found": [passage.id for passage in each.found],
        "ranked": [excerpt.passage.id for excerpt in each.ranked],
        "kept": [[e.passage.id, e.start, e.end] for e in each.kept],
        "tokens": approximate_tokens(render_excerpts(each.kept)),
        "prompt": each.prompt,
        "answer": each.answer,
        "decision": None if each.decision is None else each.decision.to_dict(),
    }


def equal_answers(runs: Mapping[str, Run]) -> int:
    """Count the questions that every pipeline answered alike."""
    every = zip(*([each.answer for each in worked] for worked, _ in runs.values()), strict=True)
    return sum(len(set(answers)) == 1 for answers in every)
