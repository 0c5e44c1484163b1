"""Show the demo's worked examples and its summary on a terminal of 100 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from fitrag_integrations.commands.demo.data import Worked
from fitrag_integrations.commands.demo.figures import (
    Figures,
    found_within,
    is_right,
    ranked_within,
    tokens,
)
from fitrag_integrations.commands.demo.gate import GateFigures
from fitrag_integrations.types import Excerpt, RetrievalDecision

WIDTH = 100
SHOWN = 5  # reranked passages an example lists
HEADS = (
    "",
    "correct",
    "answer-\nable",
    "unanswer-\nable",
    "R@1",
    "R@5",
    "tokens",
    "saved",
    "answer\nkept",
    "ms a\nquestion",
)
GATE_HEADS = (
    "",
    "not\nretrieved",
    "of these\ncorrect",
    "if\nretrieved",
    "others\ncorrect",
    "prompt\ntokens",
    "saved",
)
ABSTAINED = "(no answer: the reader abstains)"


def console() -> Console:
    """Make a console of the demo's width."""
    return Console(width=WIDTH, highlight=False)


def chosen(worked: Sequence[Worked], count: int, *, extractive: bool) -> list[Worked]:
    """Choose examples: one plain, one the reranker helped, one unanswerable, one that was known,
    then the others.
    """
    right = [each for each in worked if is_right(each, extractive=extractive)]
    helped = [each for each in right if ranked_within(each, 1) and not found_within(each, 1)]
    plain = [each for each in right if found_within(each, 1)]
    others = [each for each in right if not each.question.answerable and not each.skipped]
    known = [each for each in right if each.skipped]
    first = [*plain[:1], *helped[:1], *others[:1], *known[:1]]
    return [*first, *(each for each in worked if each not in first)][:count]


def most_saved(worked: Sequence[Worked], *, extractive: bool) -> Worked | None:
    """Choose what to open with: a right answer, read from the least of many tokens."""
    right = [each for each in worked if each.answer and not each.skipped]
    right = [each for each in right if is_right(each, extractive=extractive)]
    return max(right, key=lambda each: whole_tokens(each) - tokens(each.kept), default=None)


def whole_tokens(each: Worked) -> int:
    """Count what the compressed passages cost as they were."""
    return tokens(Excerpt.whole(excerpt.passage) for excerpt in each.compressed)


def show_opening(out: Console, each: Worked) -> None:
    """Print the passages as they were, grey, and under them what was kept and answered."""
    before, after = whole_tokens(each), tokens(each.kept)
    parts: list[RenderableType] = [
        *(Text(f"{one.passage.title}: {one.passage.text}", style="dim") for one in each.compressed),
        Text(f"\n{before} -> {after} tokens", style="bold cyan"),
        *(_kept(excerpt, each.answer) for excerpt in each.kept),
        Text("\nAnswer: ", style="cyan") + Text(each.answer, style="bold green"),
    ]
    title = Text(f"Before and after: {each.question.text}", style="bold")
    out.print(Panel(Group(*parts), title=title, title_align="left", width=WIDTH))


def show_example(out: Console, number: int, each: Worked) -> None:
    """Print one question's way through the pipeline."""
    title = Text(f"Example {number}: {each.question.text}", style="bold")
    answer = Text(each.answer or ABSTAINED, style="bold green")
    gold = " / ".join(each.question.answers)
    known = gold if each.question.answerable else f"{gold}, which is not in the corpus"
    parts: list[RenderableType] = [
        *_decided(each.decision),
        *([] if each.skipped else _evidence(each)),
        Text("\nPrompt", style="cyan"),
        Text(each.prompt.strip(), style="dim"),
        Text("\nAnswer: ", style="cyan") + answer + Text(f"   (expected: {known})"),
    ]
    out.print(Panel(Group(*parts), title=title, title_align="left", width=WIDTH))


def _decided(decision: RetrievalDecision | None) -> list[RenderableType]:
    if decision is None:
        return []
    told = f"p_known {decision.p_known:.2f}, " if decision.p_known is not None else ""
    verdict = "to be retrieved for" if decision.retrieve else "not retrieved for"
    return [Text(f"Gate: {told}{verdict}: {decision.why}", style="cyan")]


def _evidence(each: Worked) -> list[RenderableType]:
    return [
        Text("Retrieved, with the inner product", style="cyan"),
        _found(each),
        Text(f"\nReranked, with the two labels; the first {each.top_n} go on", style="cyan"),
        _ranked(each),
        Text("\nKept by the compressor, the answer marked", style="cyan"),
        *(_kept(excerpt, each.answer) for excerpt in each.kept),
    ]


def _found(each: Worked) -> Table:
    table = _plain_table()
    for passage in each.found:
        score = passage.metadata.get("retrieval_score", 0.0)
        mark = "*" if passage.id in each.question.passage_ids else " "
        table.add_row(f"{score:.3f}", mark, Text(passage.title))
    return table


def _ranked(each: Worked) -> Table:
    table = _plain_table()
    for excerpt in each.ranked[:SHOWN]:
        labels = excerpt.labels
        has = "" if labels is None else f"has_answer {labels.has_answer:.2f}"
        prefer = labels.llm_prefer if labels else None
        mark = "*" if excerpt.passage.id in each.question.passage_ids else " "
        said = "" if prefer is None else f"llm_prefer {prefer:.2f}"
        table.add_row(f"{excerpt.score:.3f}", mark, has, said, Text(excerpt.passage.title))
    return table


def _plain_table() -> Table:
    return Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))


def _kept(excerpt: Excerpt, answer: str) -> Text:
    place = f"{excerpt.passage.title} [{excerpt.start}:{excerpt.end}] "
    body = Text(excerpt.text)
    if answer:
        body.highlight_words([answer], style="bold black on yellow")
    return Text(place, style="bold") + body


def show_summary(out: Console, rows: Mapping[str, Figures], said: Sequence[str]) -> None:
    """Print the table of figures and the lines under it."""
    out.print(_table(HEADS, {name: _cells(row) for name, row in rows.items()}))
    for line in said:
        out.print(Text(line))


def show_gate(out: Console, rows: Mapping[str, GateFigures], said: Sequence[str]) -> None:
    """Print the gate's table and the lines under it."""
    out.print(_table(GATE_HEADS, {name: _gate_cells(row) for name, row in rows.items()}))
    for line in said:
        out.print(Text(line))


def _table(heads: Sequence[str], rows: Mapping[str, Sequence[str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, width=WIDTH, padding=(0, 1, 0, 0))
    for head in heads:
        table.add_column(head, no_wrap=True, justify="right" if head else "left")
    for name, cells in rows.items():
        table.add_row(name, *cells)
    return table


def _gate_cells(row: GateFigures) -> list[str]:
    shares = (row.skipped, row.right_skipped, row.right_if_retrieved, row.right_retrieved)
    before = row.tokens_if_retrieved
    return [
        *("-" if share is None else f"{share:.1%}" for share in shares),
        f"{before:.0f}→{row.tokens:.0f}",
        f"{1 - row.tokens / before:.0%}" if before else "-",
    ]


def _cells(row: Figures) -> list[str]:
    return [
        f"{row.accuracy:.1%}",
        f"{row.answerable:.1%}",
        f"{row.unanswerable:.1%}",
        f"{row.recall_1_before:.2f}→{row.recall_1_after:.2f}",
        f"{row.recall_5_before:.2f}→{row.recall_5_after:.2f}",
        f"{row.tokens_before:.0f}→{row.tokens_after:.0f}",
        f"{row.saved:.0%}",
        f"{row.kept:.1%}",
        f"{row.milliseconds:.0f}",
    ]


def example_dict(each: Worked) -> dict[str, object]:
    """Give an example as plain values."""
    return {
        "question": each.question.text,
        "answers": list(each.question.answers),
        "answerable": each.question.answerable,
        "found": [passage.id for passage in each.found],
        "ranked": [excerpt.passage.id for excerpt in each.ranked],
        "kept": [[e.passage.id, e.start, e.end] for e in each.kept],
        "tokens": tokens(each.kept),
        "prompt": each.prompt,
        "answer": each.answer,
        "decision": None if each.decision is None else each.decision.to_dict(),
    }
