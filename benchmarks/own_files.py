"""Files as users have them: does the excerpt still hold the answer at a budget of tokens?

    python benchmarks/own_files.py [--half report] [--budgets 100 200 400 800] [--show 30]
    python benchmarks/own_files.py --set packages --documents FOLDER [--half choose]

`written`: `benchmarks/files` has twice forty documents, pages, tables, records, mails, tickets,
chats, transcripts, logs, German and Chinese, written by hand with a question each. They are loaded
as LangChain users do (the text of HTML, 800 characters with 100 in common), and of all chunks the
ten nearest by MiniLM are given to each way.

`packages`: documentation of fifty packages, which `packages.py` fetches into FOLDER, with 110
questions of `packages.jsonl`: 1,000 characters without overlap, the headings above a chunk of
Markdown as its title, and of all chunks of the project (for every second question with those of
two other projects) the 25 first by fusion of MiniLM and BM25. The lists are kept in FOLDER.

The questions were written before anything was measured. By those of `choose` defects were found and
weights were set, by those of `report` nothing was. Measured is whether the answer is left in what a
prompt shows, within the budget; lists without the answer are left out and named. Static vectors are
a way where `wordllama` is installed; `--alone` leaves the rivals out, which is fast. `--show`
prints what is kept at the second budget, to be looked at.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from langchain_text_splitters import MarkdownHeaderTextSplitter, RecursiveCharacterTextSplitter
from lxml.html import HTMLParser, fromstring
from packages import HALVES, projects
from worth_peers import Scores
from worth_rows import Vectors, titled

from fitrag_integrations import rerank
from fitrag_integrations.core.jsonl import dump, read_jsonl
from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.evaluation.ranking import reciprocal_rank
from fitrag_integrations.evaluation.table import Measured, Table
from fitrag_integrations.flow import run
from fitrag_integrations.methods import FitRag
from fitrag_integrations.models.bundled import BundledScorer
from fitrag_integrations.ports import Ports
from fitrag_integrations.retrieval import Encoder
from fitrag_integrations.text.bm25 import BM25
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.types import Excerpt, Passage
from fitrag_integrations.values.prompt import render_excerpts
from fitrag_integrations.values.windows import by_score, windows

HERE = Path(__file__).parent
OURS = "ours"
FUSION = 60  # the constant of reciprocal rank fusion (Cormack et al., 2009)
DEPTH = 25
Near: TypeAlias = Callable[[str, Sequence[str]], Any]


class Asked(NamedTuple):
    """A question with its list; an answer may be a list of strings that all have to be there."""

    row: dict[str, Any]
    passages: tuple[Passage, ...]

    def right(self, text: str) -> bool:
        """Return whether a text holds an answer."""
        return any(
            all(contains_answer(text, [part]) for part in ([one] if isinstance(one, str) else one))
            for one in self.row["answers"]
        )


def main() -> None:
    """Print how many answers each way keeps, by kind."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--set", choices=("written", "packages"), default="written")
    parser.add_argument("--documents", type=Path, help="what packages.py fetched")
    parser.add_argument("--half", choices=HALVES, default="report")
    parser.add_argument("--budgets", type=int, nargs="*", default=[100, 200, 400, 800])
    parser.add_argument("--show", type=int, default=0, help="excerpts to print")
    parser.add_argument("--alone", action="store_true", help="no rival but the order given")
    parser.add_argument("--dtype", default=None, help="of the scorer: int8 or float32")
    args = parser.parse_args()
    vectors, scorer = Vectors(Encoder.embedded()), Scores(BundledScorer(args.dtype))
    near = {} if args.alone else {"MiniLM": vectors.near, **static()}
    found = packages(args, vectors) if args.set == "packages" else written(args, vectors)
    kept, ranks = list[Measured](), list[Measured]()
    missed, unanswered, shown = [], 0, 0
    for asked in found:
        row = asked.row
        if not row["answers"]:
            unanswered += 1
            continue
        if not any(asked.right(titled(one)) for one in asked.passages):
            missed.append(f"{row['file']}: {row['question']}")
            continue
        name = f"{row['file']}: {row['question']}"
        for system, order in orders(asked, near, scorer).items():
            rank = reciprocal_rank([asked.right(titled(one)) for one in order])
            ranks.append(Measured(name, {"MRR": rank}, system))
        found_by: dict[str, dict[str, float]] = defaultdict(dict)
        for budget in args.budgets:
            for way, excerpts in ways(asked, budget, near, scorer).items():
                text = render_excerpts(excerpts)
                assert approximate_tokens(text) <= budget, (way, text)
                right = asked.right(text)
                found_by[way][f"kept at {budget} tokens"] = float(right)
                if way == OURS and budget == args.budgets[1] and shown < args.show:
                    shown += 1
                    mark = "kept" if right else "lost"
                    print(f"--- {row['file']}, {mark}: {row['question']}\n{text}\n")
        kept += [Measured(name, own, way, row["kind"]) for way, own in found_by.items()]
    for title, rows in (("Answers kept, by kind", kept), ("Order of the passages", ranks)):
        print(f"{Table(title, rows).text()}\n")
    print(f"{unanswered} questions have no answer.\nNot retrieved: {'; '.join(missed) or 'none'}")


def written(args: argparse.Namespace, vectors: Vectors) -> Iterator[Asked]:
    """Yield the questions on documents written by hand."""
    files = HERE / "files" / args.half
    split = RecursiveCharacterTextSplitter(chunk_size=800, chunk_overlap=100)
    chunks = [
        Passage(f"{path.name} {i}", text, source=path.name)
        for path in sorted(files.iterdir())
        if path.name != "questions.jsonl"
        for i, text in enumerate(split.split_text(read(path)))
    ]
    for row in read_jsonl(files / "questions.jsonl"):
        near = vectors.near(row["question"], [one.text for one in chunks])
        yield Asked(row, tuple(chunks[i] for i in (-near).argsort(kind="stable")[:10]))


def packages(args: argparse.Namespace, vectors: Vectors) -> Iterator[Asked]:
    """Yield the questions on documentation of packages, of one half, and keep their lists."""
    names = [one.name for one in projects(args.half)]
    rows = [row for row in read_jsonl(HERE / "packages.jsonl") if row["project"] in names]
    stored = args.documents / f".{args.half}.jsonl"
    if not stored.exists():
        found = lists(args.documents, names, rows, vectors)
        stored.write_bytes(
            b"".join(dump({"passages": [one.to_dict() for one in each]}) for each in found)
        )
    for row, kept in zip(rows, read_jsonl(stored), strict=True):
        yield Asked(row, tuple(map(Passage.from_dict, kept["passages"])))


def lists(
    folder: Path, names: Sequence[str], rows: Sequence[dict[str, Any]], vectors: Vectors
) -> Iterator[list[Passage]]:
    """Yield what a retriever finds for each question."""
    chunked = cache(lambda name: chunks_of(folder / name))
    for i, row in enumerate(rows):
        place = names.index(row["project"])
        around = (0, -1, 1) if i % 2 else (0,)
        chunks = [one for j in around for one in chunked(names[(place + j) % len(names)])]
        texts = [titled(one) for one in chunks]
        lexical = BM25(texts)
        scores = (
            vectors.near(row["question"], texts),
            np.array([lexical(row["question"], text) for text in texts]),
        )
        places = [(-each).argsort(kind="stable").argsort() for each in scores]
        fused = np.sum([1 / (FUSION + 1 + each) for each in places], axis=0)
        yield [chunks[j] for j in (-fused).argsort(kind="stable")[:DEPTH]]


def chunks_of(folder: Path) -> list[Passage]:
    """Cut the pages of a project as LangChain users do."""
    split = RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=0)
    headers = MarkdownHeaderTextSplitter([("#" * n, str(n)) for n in range(1, 5)])
    found: list[Passage] = []
    for path in sorted(one for one in folder.rglob("*") if one.is_file()):
        parts = headers.split_text(read(path)) if path.suffix == ".md" else [None]
        for part in parts:
            title = " > ".join(part.metadata.values()) if part else ""
            for text in split.split_text(part.page_content if part else read(path)):
                source = f"{folder.name}/{path.relative_to(folder)}"
                found.append(Passage(f"{source} {len(found)}", text, title=title, source=source))
    return found


def read(path: Path) -> str:
    """Return the text of a file as a loader gives it."""
    if path.suffix != ".html":
        return path.read_text(encoding="utf-8")
    page = fromstring(path.read_bytes(), parser=HTMLParser(encoding="utf-8"))
    parts = page.xpath("//text()[not(ancestor::style or ancestor::script)]")
    return "\n".join(part.strip() for part in parts if part.strip())


def static() -> dict[str, Near]:
    """Return the cosines of wordllama's static vectors, if it is installed."""
    if not find_spec("wordllama"):
        return {}
    import wordllama

    folder = Path(wordllama.__file__).parent  # its tokenizer is elsewhere than where it looks first
    model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)

    def near(question: str, texts: Sequence[str]) -> Any:
        found = model.embed([question, *texts], norm=True)
        return found[1:] @ found[0]

    return {"static vectors": near}


def orders(asked: Asked, near: dict[str, Near], scorer: Scores) -> dict[str, list[Passage]]:
    """Return the passages in the order of each system."""
    question, passages = asked.row["question"], list(asked.passages)
    texts = [titled(one) for one in passages]
    lexical = BM25(texts)
    by = {name: each(question, texts) for name, each in near.items()}
    if near:
        by["BM25 in the list"] = np.array([lexical(question, text) for text in texts])
    return {
        OURS: [e.passage for e in rerank(question, passages, scorer=scorer)],
        "ours, prior=0": [e.passage for e in rerank(question, passages, scorer=scorer, prior=0)],
        "as retrieved": passages,
        **{name: [passages[i] for i in (-s).argsort(kind="stable")] for name, s in by.items()},
    }


def ways(
    asked: Asked, budget: int, near: dict[str, Near], scorer: Scores
) -> dict[str, list[Excerpt]]:
    """Return what each way keeps within a budget, in the order of its prompt."""
    question, passages = asked.row["question"], list(asked.passages)
    context = run(
        FitRag(scorer, max_tokens=budget)(
            question, Ports(retrieve=lambda questions: [passages for _ in questions])
        )
    ).value
    sentences = [one for passage in passages for one in windows(passage, size=1)]
    bare = [one.text for one in sentences]
    headed = [f"{one.passage.title} {one.text}".strip() for one in sentences]
    lexical = BM25(bare)

    def best(scores: Any) -> list[Excerpt]:
        judged = [replace(e, score=float(s)) for e, s in zip(sentences, scores, strict=True)]
        return filled(by_score(judged), budget)

    found = {
        OURS: list(context.excerpts),
        "reranked by ours, cut": filled(rerank(question, passages, scorer=scorer), budget),
        "first passages": filled(list(map(Excerpt.whole, passages)), budget),
        **{f"{name} sentences": best(each(question, bare)) for name, each in near.items()},
    }
    if near:
        found["BM25 sentences"] = best([lexical(question, text) for text in bare])
    if "project" in asked.row:  # the others have no titles
        found |= {f"{name}, titled": best(each(question, headed)) for name, each in near.items()}
    return found


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


if __name__ == "__main__":
    main()
