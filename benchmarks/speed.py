"""Measure on a CPU what reranking costs here and elsewhere, side by side in one run, on one thread.

    python benchmarks/speed.py [PARTS ...] [--peers PYTHON ...] [--before CHECKOUT]
    python benchmarks/speed.py decisions --data DATA [--pairs 900]
    python benchmarks/speed.py page

PARTS are those of the table below; all but `decisions` where none is named. Times are the process's
own; what is compared takes turns, and of each are told the median, the least and the most. Texts
are those of the demo, cut to 600 characters; weights are MiniLM's, of the extra `offline`, and of
the papers' sizes at random. Other libraries run in processes of their own, by this interpreter or
those of `--peers`: environments made of benchmarks/peers.txt and peers-onnx.txt. What is in none of
them is left out with a line. `--before` is an older checkout, for the retriever.

What was measured goes to OUT/speed-<processor>.json, beside what is there of other parts, and all
of it as tables to a .md next to it; `page` puts tables and plots into docs/speed.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import contenders
import shapes
import torch
from langchain_core.documents import Document
from speed_page import markdown, write_page
from turns import CHARACTERS, QUESTION, Apart, Job, Row, Started, cross_encoder, in_turns, pairs_of

from fitrag_integrations.models import BiLabelScorer, ExtractiveReader, RetrievalEvaluator
from fitrag_integrations.models.bundled import (
    DTYPES,
    BundledEvaluator,
    BundledReader,
    BundledScorer,
)
from fitrag_integrations.models.encoder.encoders import load_base
from fitrag_integrations.models.encoder.heads import BiLabelHead
from fitrag_integrations.models.encoder.pair_model import Engine
from fitrag_integrations.models.encoder.pairs import Pair, PairTokenizer
from fitrag_integrations.models.runtime.engine import Options
from fitrag_integrations.models.runtime.sources import MINILM
from fitrag_integrations.text.sentences import split_sentences
from fitrag_integrations.types import Passage

WAYS: list[dict[str, str]] = [{}, {"dtype": "float32"}, {"dtype": "bfloat16"}, {"backend": "onnx"}]
WAYS += [{"backend": "openvino", "dtype": dtype} for dtype in ("float32", "bfloat16")]
BASE, *PEERS = [name for name in contenders.CONTENDERS if "FitRag" not in name]
WHOLE = [name for name in contenders.CONTENDERS if name not in (BASE, *PEERS)]
SIZES = (10, 100, 1000, 10_000)  # passages of a request
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def main() -> None:
    """Measure the parts asked for, and write and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, "page", []])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--peers", nargs="+", default=[], help="interpreters")
    parser.add_argument("--before", type=Path, help="an older checkout")
    parser.add_argument("--only", nargs="+", default=[""], help="words of names, of rerank")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    path = args.out / f"speed-{machine().lower().replace(' ', '-')}.json"
    for name in args.parts or [name for name in PARTS if name != "decisions"]:
        if name == "page":
            write_page(json.loads(path.read_text()))
            continue
        part = {name: {"at": f"{datetime.now(UTC):%F}", "rows": PARTS[name](args)}}
        print(markdown(part), flush=True)
        args.out.mkdir(parents=True, exist_ok=True)
        found = (json.loads(path.read_text()) if path.is_file() else {}) | part
        found = {name: found[name] for name in PARTS if name in found}
        path.write_text(json.dumps(found, indent=1) + "\n")
        path.with_suffix(".md").write_text(f"# Speed, {machine()}\n\n{markdown(found)}")


def machine() -> str:
    """Name the processor, its cores in use, and whether it computes bfloat16."""
    lines = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    told = [line.split(":")[1] for line in lines.splitlines() if line.startswith("model name")]
    name = " ".join((told or [platform.processor()])[0].replace("(R)", "").split())
    has = [flag for flag in ("amx_bf16", "avx512_bf16") if flag in lines.split()]
    return " ".join([name.replace("Processor", "").strip(), f"{os.cpu_count()} cores", *has[:1]])


@contextmanager
def beside(names: list[str], pairs: list[Pair], args: argparse.Namespace) -> Iterator[Any]:
    """Start other libraries over one cross-encoder; gives its folder, and those that are there."""
    with tempfile.TemporaryDirectory() as made:
        folder = cross_encoder(Path(made), args.seed)
        pythons = [sys.executable, *args.peers]
        every = {name: Apart(name, pairs, folder=folder, pythons=pythons) for name in names}
        for name, one in every.items():
            print(f"{name}: {one.about}", flush=True)
        try:
            yield folder, {name: one for name, one in every.items() if "with" in one.about}
        finally:
            for one in every.values():
                one.end()


def rerank(args: argparse.Namespace) -> list[Row]:
    """Time the same weights here and elsewhere, and the embedded scorer, by each backend.

    "from_reranker" has the cross-encoder's own head, "plain" an untrained one of two labels.
    What computes in bfloat16 is left out where this machine multiplies float32 faster.
    """
    pairs = pairs_of(args.pairs)
    rates = {dtype: rate(dtype) for dtype in ("float32", "bfloat16")}

    def wanted_too(name: str) -> bool:
        slow = "bfloat16" in name and rates["bfloat16"] < rates["float32"]
        return any(word in name for word in args.only) and not slow

    with beside([BASE, *filter(wanted_too, PEERS)], pairs, args) as (folder, others):
        made: dict[str, Callable[[], Any]] = {}
        for way in WAYS:
            called = " ".join(way.values()) or "as it is"
            how: Any = {"device": "cpu", **way}
            made[f"from_reranker, {called}"] = partial(BiLabelScorer.from_reranker, folder, **how)
            if way in (WAYS[0], WAYS[-1]):
                made[f"plain scorer, {called}"] = partial(plain, folder / "plain", **how)
            made[f"embedded scorer, {called}"] = partial(BiLabelScorer.embedded, **how)
        for dtype in DTYPES:
            made[f"bundled scorer, {dtype}"] = partial(BundledScorer, dtype)
        ours = {name: make() for name, make in made.items() if wanted_too(name)}
        scored: dict[str, Any] = {}
        rounds = itertools.count()

        def new() -> list[Pair]:  # the bundled scorer keeps the states of passages that it knows
            mark = f" {next(rounds)}"
            return [(q, Passage(p.id, p.text + mark, p.title)) for q, p in pairs]

        jobs = others | {
            name: lambda name=name, one=one: scored.update(
                {name: one.score(new() if "bundled" in name else pairs)}
            )
            for name, one in ours.items()
        }
        rows = in_turns(jobs, args.repeats, BASE)
        wanted = others[BASE].scores
    for row in rows:
        if (other := others.get(row["what"])) is not None:
            found, row["with"] = other.scores, other.about["with"]
        else:
            scorer = ours[row["what"]]
            found = [score.has_answer for score in scored[row["what"]]]
            row["share of GEMM"] = work(scorer, pairs) / row["ms"] / 1e6 / rates[precision(scorer)]
        if "scorer" not in row["what"]:
            row["furthest"] = max(abs(a - b) for a, b in zip(found, wanted, strict=True))
    told = [{"what": f"GEMM {d}, GFLOP/s", "value": each} for d, each in rates.items()]
    padded = [each for name, each in ours.items() if name == "embedded scorer, float32"]
    told += [{"what": "padding factor", "value": padding(each, pairs)} for each in padded]
    return [*rows, *told]


def plain(folder: Path, **options: Any) -> BiLabelScorer:
    """Save a scorer of two labels over MiniLM, its head untrained, and load it."""
    trunk, tokenizer = load_base(MINILM)
    engine = Engine(trunk, PairTokenizer(tokenizer), Options("cpu", "float32")).retain()
    manifest = {"base": MINILM, "head": {"hidden": 0}}
    made = BiLabelScorer(engine, BiLabelHead(trunk.width), manifest=manifest)
    made.save_pretrained(folder)
    made.unload()
    return BiLabelScorer.from_pretrained(folder, **options)


def precision(scorer: Any) -> str:
    """Give what a scorer computes in, of the types whose products are timed here."""
    dtype = getattr(scorer._engine, "dtype", torch.float32)
    return "bfloat16" if dtype == torch.bfloat16 else "float32"


def rate(dtype: str) -> float:
    """Measure this machine's matrix product, in GFLOP/s: the best of some tries."""
    kind, seconds = getattr(torch, dtype), []
    left, right = torch.ones(256, 384, dtype=kind), torch.ones(384, 1536, dtype=kind)
    for _ in range(200):
        began = time.thread_time()  # what else the machine does is not counted
        left @ right
        seconds.append(max(1e-4, time.thread_time() - began))  # where a clock is too coarse
    return 2e-9 * 256 * 384 * 1536 / min(seconds)


def work(scorer: Any, pairs: list[Pair]) -> float:
    """Count the floating-point operations of MiniLM's layers on these pairs, unpadded."""
    wide, layers = 384, 6
    lengths = [len(chunk) for group in scorer._engine.tokenizer.encode(pairs) for chunk in group]
    return sum(layers * (24 * wide**2 * n + 4 * wide * n**2) for n in lengths)


def padding(scorer: BiLabelScorer, pairs: list[Pair]) -> float:
    """Give the tokens of all batches over those that are there."""
    seen = [0, 0]

    def counted(ids: Any, mask: Any, types: Any) -> None:
        seen[0], seen[1] = seen[0] + ids.numel(), seen[1] + int(mask.sum())

    with watched(scorer, counted):
        scorer.score(pairs)
    return seen[0] / seen[1]


@contextmanager
def watched(scorer: BiLabelScorer, told: Callable[[Any, Any, Any], object]) -> Iterator[None]:
    """Tell of each batch of a scorer's encoder before it runs."""
    compute = scorer._engine.compute
    scorer._engine.compute = lambda *given: (told(*given), compute(*given))[1]  # type: ignore[func-returns-value]
    yield
    scorer._engine.compute = compute


def retriever(args: argparse.Namespace) -> list[Row]:
    """Time the whole FIT-RAG retriever of LangChain, and an older one, against a cross-encoder."""
    from fitrag_integrations.langchain import BiLabelReranker

    pairs = pairs_of(args.pairs)
    found = [Document(p.text, id=p.id, metadata={"title": ""}) for _, p in pairs]
    with beside([BASE, *WHOLE], pairs, args) as (folder, others):
        if args.before:
            how: Any = {"folder": folder, "pythons": [sys.executable], "path": args.before}
            others |= {f"{WHOLE[0]}, before": Apart(WHOLE[0], pairs, **how)}
        rows = in_turns(others, args.repeats, BASE)

    class Free:
        def score(self, pairs: Any) -> Any:
            return [label] * len(pairs)

    label = BiLabelScorer.embedded(device="cpu").score(pairs[:1])[0]
    reranker, bare = BiLabelReranker(scorer=Free()), Free()
    adapter: dict[str, Job] = {
        "a free scorer": lambda: bare.score(pairs),
        "BiLabelReranker over it": lambda: reranker.compress_documents(found, QUESTION),
    }
    return [*rows, *in_turns(adapter, 20, "a free scorer")]


def memory(field: str) -> float:
    """Read a field of this process's memory, in MB."""
    (line,) = (each for each in STATUS.read_text().splitlines() if each.startswith(field))
    return int(line.split()[1]) / 1024


def passages(args: argparse.Namespace) -> list[Row]:
    """Score requests of many sizes, of shorter passages, and take the most memory beside each.

    The largest is scored by each engine.
    """
    made: dict[str, Callable[[], Any]] = {
        f", {engine}": partial(BiLabelScorer.embedded, device="cpu", backend=engine, dtype=dtype)
        for engine, dtype in (("torch", "float32"), ("onnx", "auto"), ("openvino", "auto"))
    }
    made = {"": partial(BiLabelScorer.embedded, device="cpu"), **made, ", bundled": BundledScorer}
    rows = []
    for name, make in made.items():
        scorer = make()
        scorer.score(pairs_of(100, CHARACTERS // 4, seed=1))
        for count in SIZES if not name else SIZES[-1:]:
            pairs = pairs_of(count, CHARACTERS // 4)
            before = 0.0
            if CLEAR.exists():
                CLEAR.write_text("5")  # the highest use so far is forgotten
                before = memory("VmRSS")
            job = {"": lambda one=scorer, some=pairs: one.score(some)}
            (row,) = in_turns(job, 1, "", warm=False)  # type: ignore[arg-type]
            row = {"what": f"{count:,} passages{name}", "passages": count, "ms": row["ms"]}
            row["ms each"] = row["ms"] / count
            peak = max(0.0, memory("VmHWM") - before)  # an earlier engine may have left more
            rows.append(row | ({"peak MB": peak} if before else {}))
            print(rows[-1], flush=True)
        if hasattr(scorer, "unload"):
            scorer.unload()
    return rows


FIRST = """
from fitrag_integrations import Passage
from fitrag_integrations.methods.defaults import EMBEDDED_SCORER
EMBEDDED_SCORER.score([("who", Passage("1", "a text"))])
"""
IN_TORCH = """
from fitrag_integrations import Passage
from fitrag_integrations.models import BiLabelScorer
BiLabelScorer.embedded(device="cpu").score([("who", Passage("1", "a text"))])
"""
DROP_IN = """
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from fitrag_integrations.langchain import FitRagRetriever
base = RunnableLambda(lambda _: [Document("The Danube ends in the Black Sea.")])
assert FitRagRetriever(base=base).invoke("Where does the Danube end?")
"""


SEARCH = """
from fitrag_integrations import Passage
from fitrag_integrations.retrieval import FaissIndex
FaissIndex.build([Passage("1", "Anna built it.")]).search(["Who built it?"], 1)
"""
SERVED = """
from fastapi.testclient import TestClient
from fitrag_integrations.commands.serve import create_app
with TestClient(create_app()) as client:
    asked = {"query": "Who built it?", "texts": ["Anna built it."]}
    assert client.post("/rerank", json=asked).is_success
"""


def start(args: argparse.Namespace) -> list[Row]:
    """Time imports, and a process up to its first score, less an empty interpreter."""
    scripts = {
        "nothing": "pass",
        "import torch": "import torch",
        "import fitrag_integrations": "import fitrag_integrations",
        "langchain_core's BaseRetriever": "from langchain_core.retrievers import BaseRetriever",
        "FitRagRetriever": "from fitrag_integrations.langchain import FitRagRetriever",
        "up to the first score": FIRST,
        "up to FitRagRetriever's first passage": DROP_IN,
        "up to the first search of an index": SEARCH,
        "up to the first answer of fitrag serve": SERVED,
        "up to the first score in torch": IN_TORCH,
    }
    with tempfile.TemporaryDirectory() as kept:  # bytecode, as where it is installed
        jobs: dict[str, Job] = {name: Started(script, kept) for name, script in scripts.items()}
        rows = in_turns(jobs, args.repeats, "nothing")
    times = ("ms", "least", "most")
    empty = {each: rows[0]["ms"] for each in times}
    less = [{"what": row["what"]} | {e: row[e] - empty[e] for e in times} for row in rows[1:]]
    return [row | {"of import torch": row["ms"] / less[0]["ms"]} for row in less]


def decisions(args: argparse.Namespace) -> list[Row]:
    """Count where each way decides as float32 does, over lists of five passages really retrieved.

    Decided are the labels of a pair at one half, the order of a list, CRAG's action on it, and the
    place of the reader's answer in a passage.
    """
    from fitrag_integrations.training.rows import passage_row, read_jsonl

    lists = []
    for name in ("nq", "popqa", "triviaqa"):
        rows = list(read_jsonl(args.data / "odqa_retrieved" / f"{name}_top5.jsonl.gz"))
        some = random.Random(args.seed).sample(rows, args.pairs // 15)
        lists += [[(row["question"], passage_row(p)) for p in row["passages"]] for row in some]
    ways: dict[str, Any] = {f"bundled models, {each}": each for each in DTYPES[::-1]}
    ways |= {"torch, as it is": {}, "OpenVINO, bfloat16": WAYS[-1]}
    found = {name: decided(way, lists) for name, way in ways.items()}
    wanted, *others = found
    rows = []
    for name in others:
        row: Row = {"what": name, "pairs": sum(map(len, lists)), "lists": len(lists)}
        for what, values in found[wanted].items():
            both = list(zip(values, found[name][what], strict=True))
            if what == "furthest":
                row[what] = max(abs(a - b) for a, b in both)
            else:
                row[f"other {what}"] = sum(a != b for a, b in both)
        rows.append(row)
        print(row, flush=True)
    return rows


def decided(way: str | dict[str, str], lists: list[list[Pair]]) -> dict[str, list[Any]]:
    """Give what is decided of each pair or list; a name is the bundled models' precision."""
    models: list[Any] = []
    if isinstance(way, str):
        models = [
            kind(way.split()[-1]) for kind in (BundledScorer, BundledEvaluator, BundledReader)
        ]
    else:
        kinds: list[Any] = [BiLabelScorer, RetrievalEvaluator, ExtractiveReader]
        models = [kind.embedded(**{"device": "cpu", **way}) for kind in kinds]
    scorer, evaluator, reader = models
    cuts, found = evaluator.thresholds, list[Any]()
    for at in range(0, len(lists), 40):  # states of so many are kept for the next model
        pairs = [pair for each in lists[at : at + 40] for pair in each]
        found += zip(
            scorer.score(pairs), evaluator.evaluate(pairs), reader.read(pairs), strict=True
        )
    scores, grades, answers = zip(*found, strict=True)
    rows = range(0, len(scores), len(lists[0]))
    cut = [slice(at, at + len(lists[0])) for at in rows]
    best = [max(grades[each]) for each in cut]
    return {
        "labels": [(score.has_answer >= 0.5, score.llm_prefer >= 0.5) for score in scores],
        "orders": [
            sorted(range(len(scores[each])), key=lambda i: -scores[each][i].combine(0.5))  # noqa: B023
            for each in cut
        ],
        "actions": [(grade > cuts.upper, grade < cuts.lower) for grade in best],
        "answers": [(answer.start, answer.end) for answer in answers],
        "furthest": [score.has_answer for score in scores],
    }


def together(args: argparse.Namespace) -> list[Row]:
    """Rerank, grade, compress and read 100 passages without torch: how often each is gone through.

    Once for all four; once for each, as models of their own would; and each sentence by itself.
    """
    pairs = pairs_of(100)
    scorer, evaluator, reader = BundledScorer(), BundledEvaluator(), BundledReader()
    items = [(*pair, split_sentences(pair[1].text)) for pair in pairs]
    single = [(q, Passage(p.id, p.text[a:b], p.title)) for q, p, spans in items for a, b in spans]
    others: list[Callable[[], object]] = [
        lambda: evaluator.evaluate(pairs),
        lambda: reader.read(pairs),
    ]
    one_by_one: list[Callable[[], object]] = [
        lambda: scorer.score(pairs),
        lambda: scorer.score(single),
    ]

    def forget() -> None:
        for engine in {one._engine for one in (scorer, evaluator, reader)}:
            engine._kept.clear()
            engine._tokens = 0
            if "nearness" in vars(engine):
                engine.nearness._kept.clear()
                engine.nearness._count = 0

    def ask(jobs: list[Callable[[], object]], again: bool) -> None:
        for job in jobs:
            job()
            if again:
                forget()
        forget()

    in_one: list[Callable[[], object]] = [lambda: scorer.score_sentences(items), *others]
    jobs: dict[str, Job] = {
        "a pass for each of the four, each sentence by itself": lambda: ask(
            [*one_by_one, *others], True
        ),
        "a pass for each of three, sentences in the first": lambda: ask(in_one, True),
        "one pass for all four": lambda: ask(in_one, False),
    }
    return in_turns(jobs, args.repeats, next(iter(jobs)))


PARTS: dict[str, Callable[[argparse.Namespace], list[Row]]] = {
    "rerank": rerank,
    "retriever": retriever,
    "evaluator": shapes.evaluator,
    "passages": passages,
    "start": start,
    "decisions": decisions,
    "together": together,
}


if __name__ == "__main__":
    main()
