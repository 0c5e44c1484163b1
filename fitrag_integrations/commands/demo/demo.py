"""`fitrag demo`: FIT-RAG as a drop-in of both frameworks, on questions shipped for it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from fitrag_integrations.commands.demo import figures as measured
from fitrag_integrations.commands.demo import stacks
from fitrag_integrations.commands.demo.figures import Figures, is_right, recalls
from fitrag_integrations.commands.demo.stacks import Parts, Worked
from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.batch import CHUNK, chunks
from fitrag_integrations.commands.engine.options import AsJson, ModelOptions
from fitrag_integrations.commands.engine.progress import progress_bar
from fitrag_integrations.commands.evaluate.tables import pivot, show
from fitrag_integrations.commands.run.telling import MARKS, cost, kept_lines
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.option import Option

STACKS = {"LangChain": stacks.langchain_stack, "LlamaIndex": stacks.llama_index_stack}
NEEDS = {"langchain_core": "langchain", "llama_index.core": "llama-index", "faiss": "faiss"}
SAID = """\
{} questions, {} of them not answered by the corpus, where {} is right.
recall_n: a passage with the answer is among the first n, before and after reranking.
In brackets are 95 % intervals. Answers of both frameworks are equal on {} of {} questions."""
GATE_SAID = """\
What the gate says is known is answered by a language model of five million weights, which
was shown some of these answers in training, up to 64 times. Recall, tokens and kept are of
the other questions; answers with retrieval are the reader's."""
WIDTH = 100
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
        parts, asked = self._parts(), stacks.questions(self.questions)
        reads = self.llm is None
        runs = {name: _run(name, parts, asked) for name in STACKS}
        rows = {name: measured.figures(*run, extractive=reads) for name, run in runs.items()}
        gates = {} if parts.gate is None else _gates(parts, runs)
        worked, same = runs["LangChain"][0], equal_answers(runs)
        others = sum(not question.answerable for question in asked)
        examples = chosen(worked, self.examples, extractive=reads)
        if self.json:
            counts = {"questions": len(asked), "unanswerable": others, "equal_answers": same}
            told = {"figures": _plain(rows), "gate": _plain(gates)}
            shown = [each.to_dict() for each in examples]
            typer.echo(json.dumps({**counts, **told, "examples": shown}))
            return
        if (opening := most_saved(worked, extractive=reads)) is not None:
            show_worked(opening, whole=True)
        right = "abstaining" if reads else "knowing the answer"
        show_figures(rows, SAID.format(len(asked), others, right, same, len(asked)))
        if gates:
            show_figures(gates, GATE_SAID)
        for each in examples:
            show_worked(each)

    def _parts(self) -> Parts:
        """Load the models, index the corpus, and run each once: no pipeline pays for it."""
        from fitrag_integrations.retrieval import read_corpus

        plain, llm = replace(self.model, model=None), self.llm
        scorer, reader = models.load_scorer(self.model), models.load_reader(plain)
        chat = None if llm is None else models.load_chat_model(llm)
        index, corpus = models.new_index(plain), list(read_corpus(stacks.PASSAGES))
        with progress_bar("indexing", len(corpus)) as advance:
            for chunk in chunks(corpus, CHUNK):
                index.add(chunk)
                advance(len(chunk))
        gate = None if chat is not None else models.load_gate(plain)
        parts = Parts(index, scorer, reader, chat, gate=gate)
        for build in STACKS.values():
            parts.stack(build)(stacks.questions(1))
        return parts


def _run(name: str, parts: Parts, asked: Sequence[stacks.Question]) -> Run:
    stack, worked = parts.stack(STACKS[name]), list[Worked]()
    began = time.perf_counter()
    with progress_bar(name, len(asked)) as advance:
        for chunk in chunks(asked, CHUNK):
            worked.extend(stack(chunk))
            advance(len(chunk))
    return worked, time.perf_counter() - began


def _gates(parts: Parts, runs: Mapping[str, Run]) -> dict[str, Figures]:
    """Retrieve once for what the gate let pass, to compare."""
    passed = [each.question for each in runs["LangChain"][0] if each.skipped]
    again, _ = _run("LangChain", replace(parts, gate=None), passed)
    limit = parts.gate.threshold
    return {name: measured.gate_figures(run[0], again, limit) for name, run in runs.items()}


def chosen(worked: Sequence[Worked], count: int, *, extractive: bool) -> list[Worked]:
    """Choose examples: one plain, one the reranker helped, one unanswerable, one that was known,
    then the others.
    """
    right = [(each, recalls(each)) for each in worked if is_right(each, extractive=extractive)]
    kinds = (
        [each for each, r in right if r["recall_1_before"]],
        [each for each, r in right if r["recall_1_after"] > r["recall_1_before"]],
        [each for each, _ in right if not each.question.answerable and not each.skipped],
        [each for each, _ in right if each.skipped],
    )
    first = [each for kind in kinds for each in kind[:1]]
    return [*first, *(each for each in worked if each not in first)][:count]


def most_saved(worked: Sequence[Worked], *, extractive: bool) -> Worked | None:
    """Choose what to open with: a right answer, read from the least of many tokens."""

    def saved(each: Worked) -> float:
        values = measured.compression(each)
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
    answer = each.answer or "(no answer: the reader abstains)"
    lines += [*kept_lines(each.kept, each.answer, MARKS), "", f"Answer: {answer}"]
    lines += [] if whole else [f"Expected: {gold}{', not in the corpus' * (not ids)}"]
    panel = Panel(Text.from_ansi("\n".join(lines)), title=Text(title), title_align="left")
    Console(width=WIDTH, highlight=False).print(panel)


def show_figures(rows: Mapping[str, Figures], said: str) -> None:
    """Print figures down and the frameworks across, and lines under them."""
    named = [replace(f, of={"system": name}) for name, row in rows.items() for f in row.values()]
    heads, lines = pivot(named)
    show("", {"": False, **dict.fromkeys(heads, True)}, lines, WIDTH)
    typer.echo(said)


def _plain(rows: Mapping[str, Figures]) -> dict[str, dict[str, float | None]]:
    return {which: {name: f.value for name, f in row.items()} for which, row in rows.items()}


def equal_answers(runs: Mapping[str, Run]) -> int:
    """Count the questions that every pipeline answered alike."""
    every = zip(*([each.answer for each in worked] for worked, _ in runs.values()), strict=True)
    return sum(len(set(answers)) == 1 for answers in every)
