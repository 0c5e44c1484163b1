"""Ask scorer, gate and compressor at once from many threads and an event loop: is any answer wrong?

    python benchmarks/crowd.py [--requests 100000] [--threads 64] [--models tiny|embedded] [--out F]

Half of the askers are threads, the others tasks of one event loop; all take the next request from
one count. Expected is what each request gives alone, before. A score may differ by 1e-5, since the
batch it is in is another one; what a compressor keeps may not. Memory is looked at after a tenth of
the requests, which warms up, and at the end. Models are random ones of a few thousand weights, or
those that ship.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import json
import math
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fitrag_integrations.flow import arun, run
from fitrag_integrations.methods.fitrag.reducer import TokenReducer
from fitrag_integrations.models import BiLabelScorer, IKClassifier
from fitrag_integrations.types import Passage

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "models"))
WORDS = "a of the in who what river city king wrote score film rome danube ocean black sea"
os.environ["FITRAG_CPU_DTYPE"] = "float32"  # rounding to bfloat16 differs by batch, to a thousandth
DISTINCT, NEAR = 600, 1e-5
Request = tuple[str, str, list[Passage]]


class Asked:
    """Hold the models, and ask them one request, in either world."""

    def __init__(self, scorer: Any, gate: Any) -> None:
        self.scorer, self.gate = scorer, gate
        self.reducing = TokenReducer(scorer=scorer, max_tokens=60)

    def ask(self, request: Request) -> Any:
        """Ask from a thread."""
        kind, question, passages = request
        if kind == "score":
            return told(self.scorer.score([(question, passage) for passage in passages]))
        if kind == "gate":
            return self.gate.p_known([question], [passages[0].text[:40]])
        return kept(run(self.reducing.context(question, passages)).value)

    async def aask(self, request: Request) -> Any:
        """Ask from the event loop."""
        kind, question, passages = request
        if kind == "score":
            return told(await self.scorer.ascore([(question, passage) for passage in passages]))
        if kind == "gate":
            return await self.gate.ap_known([question], [passages[0].text[:40]])
        return kept((await arun(self.reducing.context(question, passages))).value)


def main() -> int:
    """Ask them all, and tell."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=64)
    parser.add_argument("--models", choices=("tiny", "embedded"), default="tiny")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        asked = Asked(*(tiny(Path(home)) if args.models == "tiny" else embedded()))
    requests = made(random.Random(args.seed))
    expected = [asked.ask(request) for request in requests]
    crowd = Crowd(asked, requests, expected, args.threads)
    crowd.answer(args.requests // 10)
    before, threads = resident(), threading.active_count()
    began = time.monotonic()
    crowd.answer(args.requests)
    seconds, after = time.monotonic() - began, resident()
    told = {
        "models": args.models,
        "requests": crowd.answered.total(),
        **{f"{kind} requests": count for kind, count in sorted(crowd.answered.items())},
        "wrong": dict(crowd.wrong),
        "memory after a tenth, MB": round(before / 1e6, 1),
        "memory at the end, MB": round(after / 1e6, 1),
        "growth": round(after / before - 1.0, 4),
        "threads left": threading.active_count() - threads,
        "requests a second": round(0.9 * args.requests / seconds, 1),
    }
    print(json.dumps(told))
    if args.out:
        args.out.write_text(json.dumps(told, indent=1) + "\n")
    return int(bool(crowd.wrong) or after > 1.05 * before or told["threads left"] > 0)


class Crowd:
    """Have threads and tasks answer requests until so many were."""

    def __init__(
        self, asked: Asked, requests: list[Request], expected: list[Any], threads: int
    ) -> None:
        self.asked, self.requests, self.expected, self.threads = asked, requests, expected, threads
        self.answered, self.wrong, self.left = Counter[str](), Counter[str](), iter(range(0))
        self._lock = threading.Lock()

    def answer(self, until: int) -> None:
        """Answer requests up to a count, half of the askers being threads."""
        self.left = iter(range(self.answered.total(), until))
        half = self.threads // 2
        threads = [threading.Thread(target=self._ask) for _ in range(half)]
        for thread in threads:
            thread.start()
        asyncio.run(self._tasks(self.threads - half))
        for thread in threads:
            thread.join()
        gc.collect()

    def _ask(self) -> None:
        for at in self._places():
            self._check(at, self.asked.ask(self.requests[at]), "thread")

    async def _tasks(self, count: int) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                group.create_task(self._aask())

    async def _aask(self) -> None:
        for at in self._places():
            self._check(at, await self.asked.aask(self.requests[at]), "loop")

    def _places(self) -> Iterator[int]:
        """Give the places of requests, until there are no more."""
        return (at * 7919 % len(self.requests) for at in self.left)

    def _check(self, at: int, answer: Any, where: str) -> None:
        with self._lock:
            self.answered[f"{where} {self.requests[at][0]}"] += 1
            if not same(answer, self.expected[at]):
                self.wrong[f"{where} {self.requests[at][0]}"] += 1
                if os.environ.get("SHOW"):
                    print(where, self.requests[at], answer, self.expected[at])


def same(one: Any, other: Any) -> bool:
    """Compare answers: numbers nearly, anything else wholly."""
    if isinstance(one, float):
        return isinstance(other, float) and math.isclose(one, other, rel_tol=0.0, abs_tol=NEAR)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def told(scores: list[Any]) -> list[tuple[float, float]]:
    """Give the labels of each pair."""
    return [(score.has_answer, score.llm_prefer) for score in scores]


def kept(context: Any) -> list[tuple[str, int, int]]:
    """Give where each excerpt stands."""
    return [(one.passage.id, one.start, one.end) for one in context.excerpts]


def made(chance: random.Random) -> list[Request]:
    """Make requests of each kind: short questions and passages of a few sentences."""

    def sentence(most: int) -> str:
        return " ".join(chance.choices(WORDS.split(), k=chance.randint(3, most)))

    kinds = itertools.cycle(("score", "gate", "compress"))
    return [
        (
            next(kinds),
            f"{sentence(7)} {at}?",
            [
                Passage(str(n), ". ".join(sentence(12) for _ in range(chance.randint(1, 4))) + ".")
                for n in range(chance.randint(1, 3))
            ],
        )
        for at in range(DISTINCT)
    ]


def tiny(home: Path) -> tuple[Any, Any]:
    """Make random models of a few thousand weights."""
    from tiny import make_scorer, write_bert
    from tiny_causal import write_ik, write_llama

    base = write_llama(home / "llama")
    gate = write_ik(home / "ik", base, variant="head")
    return make_scorer(write_bert(home / "bert")), IKClassifier.from_pretrained(gate, device="cpu")


def embedded() -> tuple[Any, Any]:
    """Load what ships."""
    return BiLabelScorer.embedded(device="cpu"), IKClassifier.embedded(device="cpu")


def resident() -> int:
    """Give the bytes of memory the process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    sys.exit(main())
