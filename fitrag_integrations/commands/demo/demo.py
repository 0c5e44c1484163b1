"""`fitrag demo`: what FIT-RAG does for questions about a small corpus, on one screen."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Annotated

import typer

from fitrag_integrations.commands.demo import figures as measured
from fitrag_integrations.commands.demo import stacks
from fitrag_integrations.commands.demo.figures import Compared, Figures, is_right, recalls
from fitrag_integrations.commands.demo.stacks import FirstPassages, Parts, Question, Worked
from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.options import AsJson, ModelOptions
from fitrag_integrations.commands.engine.progress import progress_bar
from fitrag_integrations.commands.evaluate.tables import pivot, show
from fitrag_integrations.commands.run.answering import MARKS, PLAIN_MARKS, cost, kept_lines, shown
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.option import Option
from fitrag_integrations.core.progress import chunks
from fitrag_integrations.ports import Method
from fitrag_integrations.training.fitted.savings import cost_of
from fitrag_integrations.types import Excerpt, Passage

STACKS = {"LangChain": stacks.langchain_stack, "LlamaIndex": stacks.llama_index_stack}
NEEDS = {"faiss": "faiss"}
NEEDS_ALL = {**NEEDS, "langchain_core": "langchain", "llama_index.core": "llama-index"}
WORDS = {
    "accuracy": "right answers, all questions",
    "answerable": "right answers, answerable questions",
    "unanswerable": "no answer, unanswerable questions",
    "recall_1_before": "answer in the first passage, dense order",
    "recall_1_after": "answer in the first passage, reranked",
    "recall_5_before": "answer in the first five passages, dense order",
    "recall_5_after": "answer in the first five passages, reranked",
    "tokens_before": "tokens of the retrieved passages",
    "tokens_after": "tokens after compression",
    "kept": "answers still there after compression",
    "saved": "fraction of the tokens saved",
    "milliseconds": "milliseconds per question",
    "threshold": "decision threshold of the gate",
    "skipped": "questions answered without retrieval",
    "tokens": "tokens of the prompt, with the gate",
    "tokens_if_retrieved": "tokens of the prompt, always retrieving",
    "right_skipped": "right without retrieval, of those",
    "right_if_retrieved": "right with retrieval, of those",
    "right_retrieved": "right answers to the other questions",
}
"""What the figures of `--json` are called on a terminal."""
GATE_SAID = """\
The gate decides before retrieval whether the language model knows the answer. These questions are
about the world, not about the handbook: the bundled language model, of five million weights, was
shown some of their answers in training, up to 64 times, and knows nothing else."""
BATCH = 4  # questions between two steps of the progress bar
LINES = 8  # of the excerpts on the first screen
WIDTH = 100
Run = tuple[list[Worked], float]


@dataclass(frozen=True)
class DemoPlan:
    """Show what FIT-RAG does for questions about the documents of a made-up company.

    Retrieves ten passages for each question, and fills a prompt of few tokens in two ways: with
    the first passages, and with the best sentences by FIT-RAG. Prints one example and one table.
    Runs offline, with the models that ship in the package.
    """

    questions: Annotated[int, Option("Maximum number of questions.", name="--limit", min=1)] = 80
    max_tokens: Annotated[int, Option("Passage tokens per prompt.", min=1)] = 200
    llm: Annotated[
        str | None,
        Option(
            "LangChain chat model that answers.",
            metavar="PROVIDER:MODEL",
            default="the extractive reader",
        ),
    ] = None
    all: Annotated[
        bool,
        Option("Also run LangChain, LlamaIndex and the retrieval gate, and show more examples."),
    ] = False
    examples: Annotated[int, Option("Number of examples with --all.", min=0)] = 4
    model: ModelOptions = ModelOptions()
    json: AsJson = False

    def run(self) -> None:
        """Run the questions and print the results; `--json` implies `--all`."""
        everything = self.all or self.json
        for module, extra in (NEEDS_ALL if everything else NEEDS).items():
            require_extra(module, extra=extra, feature="fitrag demo")
        reads, (parts, corpus) = self.llm is None, self._parts(stacks.DOCUMENTS)
        asked = stacks.handbook_questions(corpus, self.questions)
        cut, _ = _run("first passages", parts, asked, method=FirstPassages(self.max_tokens))
        fitted, _ = _run("FIT-RAG", parts, asked)
        table = measured.compared(cut, fitted, extractive=reads)
        if not everything:
            self._screen(corpus, cut, fitted, table)
            return
        runs = {name: _run(name, parts, asked, build) for name, build in STACKS.items()}
        rows = {name: measured.figures(*run, extractive=reads) for name, run in runs.items()}
        gates = self._gates(parts) if reads else {}
        same, others = equal_answers(runs), sum(not each.answerable for each in asked)
        examples = chosen(fitted, self.examples, extractive=reads)
        if self.json:
            counts = {"questions": len(asked), "unanswerable": others, "equal_answers": same}
            compared = {name: row.to_dict() for name, row in table.items()}
            printed = {"compared": compared, "figures": _plain(rows), "gate": _plain(gates)}
            typer.echo(
                json.dumps({**counts, **printed, "examples": [e.to_dict() for e in examples]})
            )
            return
        self._screen(corpus, cut, fitted, table)
        said = f"Equal answers through both frameworks: {same} of {len(asked)}. "
        show_figures(rows, f"{said}In brackets: 95 % intervals.", "FIT-RAG as a drop-in")
        if gates:
            show_figures(gates, GATE_SAID, "Retrieving only what the model does not know")
        for each in examples:
            show_worked(each)

    def _parts(self, folder: Path) -> tuple[Parts, list[Passage]]:
        """Load the models, and index the documents in a folder."""
        from fitrag_integrations.retrieval import read_corpus

        plain, llm = replace(self.model, model=None), self.llm
        scorer = None if self.model == ModelOptions() else models.load_scorer(self.model)
        chat = None if llm is None else models.load_chat_model(llm)
        index, corpus = models.new_index(plain), list(read_corpus(folder))
        with progress_bar("indexing", len(corpus), verb="demo") as advance:
            for chunk in chunks(corpus, BATCH):
                index.add(chunk)
                advance(len(chunk))
        reader = models.load_reader(plain)
        return Parts(index, scorer, reader, chat, max_tokens=self.max_tokens), corpus

    def _gates(self, parts: Parts) -> dict[str, Figures]:
        """Compare both frameworks behind a gate with retrieval for every question.

        The questions are about what the bundled language model partly knows.
        """
        ungated = replace(parts, index=self._parts(stacks.FACTS / "passages.jsonl")[0].index)
        gated = replace(ungated, gate=models.load_gate(replace(self.model, model=None)))
        asked = stacks.questions(self.questions)
        runs = {name: _run(f"{name}, gated", gated, asked, build) for name, build in STACKS.items()}
        passed = [each.question for each in runs["LangChain"][0] if each.skipped]
        again, _ = _run("without the gate", ungated, passed)
        limit = gated.gate.threshold
        return {name: measured.gate_figures(run[0], again, limit) for name, run in runs.items()}

    def _screen(
        self,
        corpus: Sequence[Passage],
        cut: Sequence[Worked],
        fitted: Sequence[Worked],
        table: Mapping[str, Compared],
    ) -> None:
        """Print one example, the table, and what goes wrong."""
        extractive = self.llm is None
        if (example := opening(cut, fitted, extractive=extractive)) is not None:
            show_before_after(example)
        wholes = [(each.question, list(map(Excerpt.whole, each.found))) for each in fitted]
        answerable = [(q, found) for q, found in wholes if q.answerable]
        tokens = fmean(cost_of(found) for _, found in wholes)
        held = fmean([float(q.is_held_by(found)) for q, found in answerable] or [0.0])
        documents = len({passage.source for passage in corpus})
        typer.echo(
            f"{len(fitted)} questions, {len(answerable)} with an answer in {documents} documents "
            f"of a made-up company.\nDense retrieval returns ten passages: {tokens:,.0f} tokens, "
            f"with the answer for {held:.0%}. In {self.max_tokens} tokens:\n"
        )
        lines = []
        for name, row in table.items():
            if name == measured.COST:
                lines.append([name, f"{row.plain:,.0f}", f"{row.fitrag:,.0f}", ""])
                continue
            change, low, high = (
                100 * (each or 0.0) for each in (row.change.value, *(row.change.bounds or (0, 0)))
            )
            within = f"{change:+.0f} points [{low:.0f}, {high:.0f}]"
            head = f"{name}, of {row.questions}"
            lines.append([head, f"{row.plain:.0%}", f"{row.fitrag:.0%}", within])
        heads = {"": False, "first passages": True, "FIT-RAG": True, "difference (95 %)": True}
        show("", heads, lines, WIDTH)
        retrieved = [
            each for each, (q, found) in zip(fitted, wholes, strict=True) if q.is_held_by(found)
        ]
        lost = sum(not each.question.is_held_by(each.kept) for each in retrieved)
        bad = f"What goes wrong: {lost} of {len(retrieved)} retrieved answers lost"
        others = [each for each in fitted if not each.question.answerable]
        if extractive and others:
            wrong = sum(bool(each.answer) for each in others)
            bad += f"; {wrong} of {len(others)} questions without an answer answered all the same"
        typer.echo(f"{bad}.")
        if extractive:
            typer.echo("Answers are those of the bundled reader, a stand-in for a language model.")
        typer.echo("More: fitrag demo --all. On your own files: fitrag try FOLDER.")


def _run(
    name: str,
    parts: Parts,
    asked: Sequence[Question],
    build: stacks.Build = stacks.plain_stack,
    method: Method | None = None,
) -> Run:
    stack, worked = parts.stack(build, method), list[Worked]()
    began = time.perf_counter()
    with progress_bar(name, len(asked), verb="demo") as advance:
        for chunk in chunks(asked, BATCH):
            worked.extend(stack(chunk))
            advance(len(chunk))
    return worked, time.perf_counter() - began


def chosen(worked: Sequence[Worked], count: int, *, extractive: bool) -> list[Worked]:
    """Choose examples: a right answer, one the reranker helped, one without an answer, a wrong one,
    then the others.
    """
    judged = [(each, is_right(each, extractive=extractive), recalls(each)) for each in worked]
    kinds = (
        [each for each, right, r in judged if right and r["recall_1_before"]],
        [each for each, right, r in judged if right and r["recall_1_after"] > r["recall_1_before"]],
        [each for each, right, _ in judged if right and not each.question.answerable],
        [each for each, right, _ in judged if not right],
    )
    first = list({each.question: each for kind in kinds for each in kind[:1]}.values())
    return [*first, *(each for each in worked if each not in first)][:count]


def opening(cut: Sequence[Worked], fitted: Sequence[Worked], *, extractive: bool) -> Worked | None:
    """Choose the example to open with: a right answer that the first passages leave out.

    The shortest of them; any right answer where they leave out none.
    """
    right = [
        (one, other)
        for one, other in zip(cut, fitted, strict=True)
        if other.answer and is_right(other, extractive=extractive)
        if other.question.is_held_by(other.kept)
    ]
    better = [pair for pair in right if not pair[0].question.is_held_by(pair[0].kept)]
    found = [other for _, other in better or right]
    return min(found, key=lambda each: sum(len(one.text) for one in each.kept), default=None)


def show_before_after(each: Worked) -> None:
    """Print a question, what was retrieved, what is left of it, and the answer."""
    from rich.text import Text

    marks = MARKS if sys.stdout.isatty() else PLAIN_MARKS
    wholes = list(map(Excerpt.whole, each.found))
    titles = "; ".join(dict.fromkeys(one.title or one.id for one in each.found))
    lines = [
        f"Before: {len(wholes)} passages, {cost_of(wholes):,} tokens, from",
        f"\x1b[2m  {titles}\x1b[0m",
        "",
        f"After: {cost_of(each.kept):,} tokens",
    ]
    for at, one in enumerate(each.kept[:LINES]):
        title = f"{one.passage.title or one.passage.id}: "
        lines.append(f"  {title if at else title}{shown(one.text, each.answer, marks)}")
    more = len(each.kept) - LINES
    lines += [f"  and {more} more"] * (more > 0)
    lines += ["", f"Answer: {each.answer}"]
    _panel(each.question.text, Text.from_ansi("\n".join(lines)))


def show_worked(each: Worked) -> None:
    """Print what was decided, ranked, kept and answered."""
    from rich.text import Text

    ids, gold = each.question.passage_ids, " / ".join(each.question.answers)
    lines = [f"Gate: {each.decision.why}"] if each.decision is not None else []
    for one in each.ranked[:3]:
        lines.append(f"{one.score:.3f} {' *'[one.passage.id in ids]} {one.passage.title}")
    lines += ["", cost(each.compressed, each.kept)] if each.ranked else []
    answer = each.answer or "(none: the reader abstains)"
    lines += [*kept_lines(each.kept[:LINES], each.answer, MARKS), "", f"Answer: {answer}"]
    lines += [f"Expected: {gold or 'none'}{', not in the corpus' * (not ids)}"]
    _panel(each.question.text, Text.from_ansi("\n".join(lines)))


def _panel(title: str, text: object) -> None:
    from rich.console import Console
    from rich.panel import Panel
    from rich.text import Text

    panel = Panel(text, title=Text(title), title_align="left")  # type: ignore[arg-type]
    Console(width=WIDTH, highlight=False).print(panel)


def show_figures(rows: Mapping[str, Figures], said: str, title: str = "") -> None:
    """Print figures down and the frameworks across, and lines under them."""
    heads, lines = pivot(
        [replace(f, of={"system": name}) for name, row in rows.items() for f in row.values()]
    )
    words: Iterable[list[str]] = ([WORDS.get(line[0], line[0]), *line[1:]] for line in lines)
    show(title, {"": False, **dict.fromkeys(heads, True)}, words, WIDTH + 20)
    typer.echo(said)


def _plain(rows: Mapping[str, Figures]) -> dict[str, dict[str, float | None]]:
    return {which: {name: f.value for name, f in row.items()} for which, row in rows.items()}


def equal_answers(runs: Mapping[str, Run]) -> int:
    """Count the questions that every pipeline answered alike."""
    every = zip(*([each.answer for each in worked] for worked, _ in runs.values()), strict=True)
    return sum(len(set(answers)) == 1 for answers in every)
