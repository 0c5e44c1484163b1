"""Files as users have them: does the excerpt still hold the answer at a budget of tokens?

    python benchmarks/own_files.py [--half report] [--budgets 100 200 400 800] [--show 30]

`benchmarks/files` has twice forty: documents, pages, tables, records, mails, tickets, chats,
transcripts, logs, German and Chinese, written by hand with a question each before anything was
measured. By those of `choose` defects were found and a weight was set, by those of `report` nothing
was. They are loaded as LangChain users do (the text of HTML, 800 characters with 100 in
common), and of all chunks the ten nearest by MiniLM are given to each way. Counted is how many
answers are left in what a prompt shows, within the budget; lists without the answer are left out
and named. `--show` prints what is kept at the second budget, to be looked at.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from compression_rows import Asked
from langchain_text_splitters import RecursiveCharacterTextSplitter
from lxml.html import fromstring
from worth_peers import Scores
from worth_rows import Vectors

from fitrag_integrations import rerank
from fitrag_integrations.core.jsonl import read_jsonl
from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.evaluation.table import paired_interval
from fitrag_integrations.flow import run
from fitrag_integrations.methods import FitRag
from fitrag_integrations.models.bundled import BundledScorer
from fitrag_integrations.ports import Ports
from fitrag_integrations.retrieval import Encoder
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.types import Excerpt, Passage
from fitrag_integrations.values.prompt import render_excerpts
from fitrag_integrations.values.windows import by_score, windows

HOME = Path(__file__).parent / "files"
OURS = "ours"


def main() -> None:
    """Print how many answers each way keeps, by kind."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--half", choices=("choose", "report"), default="report")
    parser.add_argument("--budgets", type=int, nargs="*", default=[100, 200, 400, 800])
    parser.add_argument("--show", type=int, default=0, help="excerpts to print")
    parser.add_argument("--dtype", default=None, help="of the scorer: int8 or float32")
    args = parser.parse_args()
    files = HOME / args.half
    split = RecursiveCharacterTextSplitter(chunk_size=800, chunk_overlap=100)
    chunks = [
        Passage(f"{path.name} {i}", text, source=path.name)
        for path in sorted(files.iterdir())
        if path.name != "questions.jsonl"
        for i, text in enumerate(split.split_text(read(path)))
    ]
    vectors, scorer = Vectors(Encoder.embedded()), Scores(BundledScorer(args.dtype))
    kept: dict[str, dict[tuple[str, int], list[bool]]] = {}
    missed, shown = [], 0
    for row in read_jsonl(files / "questions.jsonl"):
        near = vectors.near(row["question"], [one.text for one in chunks])
        found = [chunks[i] for i in (-near).argsort(kind="stable")[:10]]
        asked = Asked(row["question"], tuple(row["answers"]), tuple(found))
        if not asked.holds([Excerpt.whole(one) for one in found]):
            missed.append(row["file"])
            continue
        for budget in args.budgets:
            for way, excerpts in ways(asked, budget, vectors, scorer).items():
                text = render_excerpts(excerpts)
                assert approximate_tokens(text) <= budget, (way, text)
                right = contains_answer(text, asked.answers)
                for kind in (row["kind"], "all"):
                    kept.setdefault(kind, {}).setdefault((way, budget), []).append(right)
                if way == OURS and budget == args.budgets[1] and shown < args.show:
                    shown += 1
                    mark = "kept" if right else "lost"
                    print(f"--- {row['file']}, {mark}: {row['question']}\n{text}\n")
    print(table(kept, args.budgets))
    print(f"\nnot retrieved: {', '.join(missed) or 'none'}")


def read(path: Path) -> str:
    """Return the text of a file as a loader gives it."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".html":
        return text
    return "\n".join(part.strip() for part in fromstring(text).itertext() if part.strip())


def ways(row: Asked, budget: int, vectors: Vectors, scorer: Scores) -> dict[str, list[Excerpt]]:
    """Return what each way keeps within a budget, in the order of its prompt."""
    context = run(
        FitRag(scorer, max_tokens=budget)(
            row.question, Ports(retrieve=lambda asked: [row.passages for _ in asked])
        )
    ).value
    sentences = [one for passage in row.passages for one in windows(passage, size=1)]
    near = vectors.near(row.question, [one.text for one in sentences])
    judged = [replace(one, score=float(score)) for one, score in zip(sentences, near, strict=True)]
    return {
        OURS: list(context.excerpts),
        "reranked by ours, cut": filled(rerank(row.question, row.passages, scorer=scorer), budget),
        "MiniLM sentences": filled(by_score(judged), budget),
        "first passages": filled(list(map(Excerpt.whole, row.passages)), budget),
    }


def filled(excerpts: Sequence[Excerpt], budget: int) -> list[Excerpt]:
    """Keep the first that fit, and of the next the words that do."""
    kept: list[Excerpt] = []
    for one in excerpts:
        ends = [
            i for i in range(one.start, one.end + 1) if i == one.end or one.passage.text[i] == " "
        ]
        for end in (one.end, *reversed(ends)):
            part = replace(one, end=end)
            if approximate_tokens(render_excerpts([*kept, part])) <= budget:
                kept.append(part)
                break
        if not kept or kept[-1].end < one.end or kept[-1].passage is not one.passage:
            break
    return kept


def table(kept: dict[str, dict[tuple[str, int], list[bool]]], budgets: Sequence[int]) -> str:
    """Return the counts in Markdown, and for all the difference to each other way."""
    names = list(dict.fromkeys(way for way, _ in kept["all"]))
    lines = ["| kind | tokens | " + " | ".join(names) + " |", "| --- " * (len(names) + 2) + "|"]
    for kind, cells in kept.items():
        for budget in budgets:
            of = len(cells[OURS, budget])
            counts = [str(sum(cells[way, budget])) for way in names]
            lines.append(f"| {kind} ({of}) | {budget} | " + " | ".join(counts) + " |")
    for budget in budgets:
        cells, ours = kept["all"], [float(x) for x in kept["all"][OURS, budget]]
        for way in names[1:]:
            low, high = paired_interval(ours, [float(x) for x in cells[way, budget]])
            less = (sum(ours) - sum(cells[way, budget])) / len(ours)
            lines.append(f"\n{budget} tokens, less {way}: {less:+.3f} [{low:+.3f}, {high:+.3f}]")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
