"""Measure on a CPU what reranking costs here and elsewhere, side by side in one run, on one thread.

    python benchmarks/speed.py [PARTS ...] [--repeats 3] [--pairs 100] [--out benchmarks/results]
    python benchmarks/speed.py decisions --data DATA [--pairs 2000]

PARTS are rerank, outside, callers, evaluator, retriever, scaling and start; all but `decisions`
where none is named. Times are the process's own; peers take turns, and of each are told the median,
the least and the most. Texts are those of the demo, cut to 600 characters; weights are MiniLM's, of
the extra `offline`, and for the evaluator a T5-small's at random. `decisions` counts on retrieved
passages of DATA/odqa_retrieved how many labels are the same in bfloat16. What was measured goes to
OUT/speed-<processor>.json, beside what is there of other parts, and all of it to a .md next to it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch  # noqa: E402  # after the number of threads is set
from langchain_core.documents import Document  # noqa: E402
from langchain_core.runnables import RunnableLambda  # noqa: E402

from fitrag_integrations.models import BiLabelScorer, RetrievalEvaluator  # noqa: E402
from fitrag_integrations.models.encoder.half import rate  # noqa: E402
from fitrag_integrations.models.encoder.pairs import Pair  # noqa: E402
from fitrag_integrations.models.runtime.saved import embedded_folder  # noqa: E402
from fitrag_integrations.models.runtime.sources import offline_minilm  # noqa: E402
from fitrag_integrations.types import Passage  # noqa: E402

QUESTION = "who designed the bridge over the river and when was it opened"
CHARACTERS = 600
CALLERS, EACH = (1, 4, 16, 64), 20
SIZES = (10, 100, 1000, 10_000)
Row = dict[str, Any]


def main() -> None:
    """Measure the parts asked for, and write and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, "decisions", []])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    torch.set_num_threads(1)
    path = args.out / f"speed-{machine().lower().replace(' ', '-')}.json"
    found: Row = json.loads(path.read_text()) if path.is_file() else {}
    for name in args.parts or PARTS:
        measure = decisions if name == "decisions" else PARTS[name]
        found[name] = {"at": f"{datetime.now(UTC):%F}", "rows": measure(args)}
        print(markdown({name: found[name]}), flush=True)
        args.out.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, indent=1) + "\n")
        path.with_suffix(".md").write_text(f"# Speed, {machine()}\n\n{markdown(found)}")


def machine() -> str:
    """Name the processor, its cores in use, and whether it computes bfloat16."""
    lines = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    told = [line.split(":")[1] for line in lines.splitlines() if line.startswith("model name")]
    name = " ".join((told or [platform.processor()])[0].replace("(R)", "").split())
    has = [flag for flag in ("amx_bf16", "avx512_bf16") if flag in lines.split()]
    return " ".join([name.replace("Processor", "").strip(), f"{os.cpu_count()} cores", *has[:1]])


def pairs_of(args: argparse.Namespace, count: int, characters: int = CHARACTERS) -> list[Pair]:
    """Cut so many passages out of the demo's texts; no two are equal."""
    folder, chance = embedded_folder("demo"), random.Random(args.seed)
    texts = [
        p.read_text("utf-8") for p in sorted(folder.rglob("*")) if p.suffix in (".md", ".jsonl")
    ]
    words = " ".join(texts).split()
    starts = chance.choices(range(len(words) - characters), k=count)
    cut = (f"{i} " + " ".join(words[at : at + characters]) for i, at in enumerate(starts))
    return [(QUESTION, Passage(str(i), text[:characters])) for i, text in enumerate(cut)]


def in_turns(jobs: dict[str, Callable[[], object]], repeats: int, base: str) -> list[Row]:
    """Time jobs in turns; ratios are those of the medians, to that of `base`."""
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(repeats + 1):
        for name, job in jobs.items():
            began = time.process_time()
            job()
            times[name] += [time.process_time() - began] * (turn > 0)  # the first warms up
    whole = median(times[base])
    return [
        {"what": name, "times": whole / median(each)} | spread(each) for name, each in times.items()
    ]


def spread(seconds: list[float]) -> Row:
    """Give the median of times, the least and the most, in milliseconds."""
    return {"ms": 1e3 * median(seconds), "least": 1e3 * min(seconds), "most": 1e3 * max(seconds)}


def peer() -> Any:
    """Load MiniLM as sentence-transformers' cross-encoder, with two labels."""
    from sentence_transformers import CrossEncoder

    return CrossEncoder(str(offline_minilm()), num_labels=2, device="cpu", max_length=384)


def rerank(args: argparse.Namespace) -> list[Row]:
    """Time the embedded scorer, sentence-transformers, and a LangChain loop, one pair a call."""
    pairs, cross = pairs_of(args, args.pairs), peer()
    plain = [(question, passage.text) for question, passage in pairs]
    how: list[Row] = [{}, {"dtype": "float32"}, {"dtype": "bfloat16"}]
    ours = {str(each): BiLabelScorer.embedded(device="cpu", **each) for each in how}
    one = RunnableLambda(lambda pair: cross.predict([pair], show_progress_bar=False))
    jobs: dict[str, Callable[[], object]] = {
        "CrossEncoder.predict float32": lambda: cross.predict(plain, show_progress_bar=False),
        "LangChain, a Runnable per document": lambda: [one.invoke(pair) for pair in plain],
    }
    for each, scorer in ours.items():
        called = f"embedded scorer {each} ({str(scorer._engine.dtype)[6:]})"
        jobs[called] = lambda scorer=scorer: scorer.score(pairs)  # type: ignore[misc]
    rows = in_turns(jobs, args.repeats, next(iter(jobs)))
    rates = {str(d)[6:]: rate(d) for d in (torch.float32, torch.bfloat16)}
    told = [{"what": f"GEMM {name}, GFLOP/s", "times": each} for name, each in rates.items()]
    return [*rows, *told, {"what": "padding factor", "times": padding(ours["{}"], pairs)}]


def padding(scorer: BiLabelScorer, pairs: list[Pair]) -> float:
    """Give the tokens of all batches over those that are there."""
    seen, states = [0, 0], scorer._engine.states

    def counted(ids: Any, types: Any, lengths: Any) -> Any:
        seen[0], seen[1] = seen[0] + ids.numel(), seen[1] + int(lengths.sum())
        return states(ids, types, lengths)

    scorer._engine.states = counted
    scorer.score(pairs)
    scorer._engine.states = states
    return seen[0] / seen[1]


def free(scorer: BiLabelScorer) -> BiLabelScorer:
    """Have a scorer whose encoder and token scores cost nothing, to see all else."""
    width: int = scorer._engine.trunk.width
    made = torch.randn(200_000, width)
    scorer._engine.states = lambda ids, types, lengths: made[: ids.numel()].view(*ids.shape, width)
    scorer._head.span.forward = lambda states: states[..., :2]  # type: ignore[union-attr,method-assign]
    return scorer


def forget(scorer: BiLabelScorer) -> None:
    """Have a scorer know no question and no passage any more."""
    tokenizer = scorer._engine.tokenizer
    tokenizer.__init__(tokenizer._tokenizer, max_length=tokenizer.max_length)  # type: ignore[misc]


def outside(args: argparse.Namespace) -> list[Row]:
    """Time what is not the model, with tokens kept from a call before and without."""
    pairs, scorer = pairs_of(args, args.pairs), free(BiLabelScorer.embedded(device="cpu"))
    tokenizer = scorer._engine.tokenizer

    def anew() -> None:
        forget(scorer)
        scorer.score(pairs)

    texts = [passage.text for _, passage in pairs]
    jobs: dict[str, Callable[[], object]] = {
        "all, passages known": lambda: scorer.score(pairs),
        "all, passages new": anew,
        "of it the tokenizer's own code": lambda: tokenizer._read(texts),
    }
    rows = in_turns(jobs, 5 * args.repeats, "all, passages known")
    scorer.unload()
    return rows


def callers(args: argparse.Namespace) -> list[Row]:
    """Time concurrent callers of 20 passages against one batch of all; shorter passages here."""
    scorer, rows = BiLabelScorer.embedded(device="cpu"), []
    for count in CALLERS:
        pairs = pairs_of(args, count * EACH, CHARACTERS // 4)
        scorer.score(pairs)
        waits: list[float] = []

        async def ask(at: int, some: list[Pair], waits: list[float]) -> None:
            began = time.perf_counter()
            await scorer.ascore(some[at : at + EACH])
            waits.append(time.perf_counter() - began)

        async def every(some: list[Pair], waits: list[float]) -> None:
            await asyncio.gather(*(ask(at, some, waits) for at in range(0, len(some), EACH)))

        jobs: dict[str, Callable[[], object]] = {
            f"{count} callers of {EACH}, as one batch": lambda some=pairs: scorer.score(some),  # type: ignore[misc]
            f"{count} callers of {EACH}": lambda some=pairs, w=waits: asyncio.run(every(some, w)),  # type: ignore[misc]
        }
        made = in_turns(jobs, args.repeats, next(iter(jobs)))
        made[1]["p99 ms"] = 1e3 * sorted(waits)[int(0.99 * (len(waits) - 1))]
        rows += made
    scorer.unload()
    return rows


def evaluator(args: argparse.Namespace) -> list[Row]:
    """Time a T5 classifier against the published loop, each pair padded to 512 tokens."""
    import tempfile

    sys.path.insert(0, str(Path(__file__).parent))
    from evaluator import _loop, _random_t5

    pairs = pairs_of(args, max(4, args.pairs // 4))
    with tempfile.TemporaryDirectory() as made:
        folder = _random_t5(Path(made), [f"{q} [SEP] {p.text}" for q, p in pairs])
        graded = RetrievalEvaluator.from_pretrained(str(folder), dtype="float32")
        loop, ours = _loop(graded, pairs, 512), graded.evaluate(pairs)
        jobs: dict[str, Callable[[], object]] = {
            "loop, padded to 512": lambda: _loop(graded, pairs, 512),
            "ours": lambda: graded.evaluate(pairs),
        }
        rows = in_turns(jobs, max(1, args.repeats - 1), "loop, padded to 512")
    apart = max(abs(a - b) for a, b in zip(loop, ours, strict=True))
    return [*rows, {"what": "furthest apart", "times": apart}]


def retriever(args: argparse.Namespace) -> list[Row]:
    """Time the whole FIT-RAG retriever of LangChain against the cross-encoder alone."""
    from fitrag_integrations.langchain import BiLabelReranker, FitRagRetriever

    pairs, cross = pairs_of(args, args.pairs), peer()
    plain = [(question, passage.text) for question, passage in pairs]
    found = [Document(p.text, id=p.id, metadata={"title": ""}) for _, p in pairs]
    whole = FitRagRetriever(base=RunnableLambda(lambda _: found))
    jobs: dict[str, Callable[[], object]] = {
        "CrossEncoder.predict float32": lambda: cross.predict(plain, show_progress_bar=False),
        "FitRagRetriever, 100 passages": lambda: whole.invoke(QUESTION),
    }
    rows = in_turns(jobs, args.repeats, next(iter(jobs)))

    class Free:
        def score(self, pairs: Any) -> Any:
            return [label] * len(pairs)

    label = BiLabelScorer.embedded(device="cpu").score(pairs[:1])[0]
    reranker, bare = BiLabelReranker(scorer=Free()), Free()
    adapter: dict[str, Callable[[], object]] = {
        "a free scorer": lambda: bare.score(pairs),
        "BiLabelReranker over it, 100 documents": lambda: reranker.compress_documents(
            found, QUESTION
        ),
    }
    return [*rows, *in_turns(adapter, 20, "a free scorer")]


def scaling(args: argparse.Namespace) -> list[Row]:
    """Time requests of many sizes with a free encoder, and the memory they take beside theirs."""
    scorer, rows = free(BiLabelScorer.embedded(device="cpu")), []
    for count in SIZES:
        pairs = pairs_of(args, count)

        def anew(some: list[Pair] = pairs) -> None:
            forget(scorer)
            scorer.score(some)

        (row,) = in_turns({"": anew}, 2, "")
        tracemalloc.start()
        anew()
        row["peak MB"] = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
        rows.append(row | {"what": f"{count} passages, all new", "times": row["ms"] / count})
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


def start(args: argparse.Namespace) -> list[Row]:
    """Time imports, and a process up to its first score, less an empty interpreter."""
    base = "from langchain_core.retrievers import BaseRetriever"
    scripts = {
        "nothing": "pass",
        "import torch": "import torch",
        "import fitrag_integrations": "import fitrag_integrations",
        "langchain_core's BaseRetriever": base,
        "FitRagRetriever": "from fitrag_integrations.langchain import FitRagRetriever",
        "up to the first score": FIRST,
        "up to FitRagRetriever's first passage": DROP_IN,
        "up to the first score in torch": IN_TORCH,
    }
    rows = in_turns_apart(scripts, args.repeats)
    empty, torchs = rows[0]["ms"], rows[1]["ms"] - rows[0]["ms"]
    return [
        row | {"ms": row["ms"] - empty, "times": (row["ms"] - empty) / torchs} for row in rows[1:]
    ]


def in_turns_apart(scripts: dict[str, str], repeats: int) -> list[Row]:
    """Do what `in_turns` does, each in a process of its own, with bytecode as installed."""
    times: dict[str, list[float]] = {name: [] for name in scripts}
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as kept["PYTHONPYCACHEPREFIX"]:
        for turn, (name, script) in product(range(repeats + 1), scripts.items()):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [sys.executable, "-c", script]
            subprocess.run(command, check=True, capture_output=True, env=kept)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            times[name] += [took] * (turn > 0)
    return [{"what": name} | spread(each) for name, each in times.items()]


def decisions(args: argparse.Namespace) -> list[Row]:
    """Count the labels that fall on the same side of one half in bfloat16 as in float32."""
    from fitrag_integrations.training.rows import passage_row, read_jsonl

    rows = []
    for name in ("nq", "popqa", "triviaqa"):
        path = args.data / "odqa_retrieved" / f"{name}_top5.jsonl.gz"
        every = [(r["question"], passage_row(p)) for r in read_jsonl(path) for p in r["passages"]]
        pairs = random.Random(args.seed).sample(every, args.pairs // 3)
        labels = []
        for dtype in ("float32", "bfloat16"):
            scorer = BiLabelScorer.embedded(device="cpu", dtype=dtype)
            labels.append([(s.has_answer, s.llm_prefer or 0.0) for s in scorer.score(pairs)])
            scorer.unload()
        both = [
            (a, b) for one, two in zip(*labels, strict=True) for a, b in zip(one, two, strict=True)
        ]
        same = sum((a >= 0.5) == (b >= 0.5) for a, b in both) / len(both)
        apart = max(abs(a - b) for a, b in both)
        rows.append({"what": f"{name}, {len(pairs)} pairs", "times": same, "furthest": apart})
    return rows


PARTS: dict[str, Callable[[argparse.Namespace], list[Row]]] = {
    "rerank": rerank,
    "outside": outside,
    "callers": callers,
    "evaluator": evaluator,
    "retriever": retriever,
    "scaling": scaling,
    "start": start,
}


def markdown(found: Row) -> str:
    """Write all parts as tables."""
    lines = []
    for name, part in found.items():
        columns = list(dict.fromkeys(column for row in part["rows"] for column in row))
        lines += [f"## {name}, {part['at']}", "", f"| {' | '.join(columns)} |"]
        lines.append(f"| {' | '.join(['---'] * len(columns))} |")
        for row in part["rows"]:
            cells = (row.get(column, "") for column in columns)
            told = (f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in cells)
            lines.append(f"| {' | '.join(told)} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
