"""Kill a process of `fitrag serve` every minute while many clients ask: is an answer wrong or lost?

    python benchmarks/served.py [--minutes 10] [--workers 4] [--clients 64] [--out FILE]

The service runs as a program on 127.0.0.1 over random models of a few thousand weights. Half of the
clients ask by plain HTTP and never ask again: each of their calls that ends without an answer has
to be one of those that the killed process held at that moment, as the system's table of connections
has them. The others are `RemoteScorer`s, which ask again by themselves, and may lose nothing.
Expected scores are those of the same model in this process. Needs psutil, which accelerate brings.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from fitrag_integrations.models import OnePassScorer
from fitrag_integrations.models.remote.scorer import RemoteScorer
from fitrag_integrations.models.scorer.spans import SpanHead
from fitrag_integrations.types import Passage
from fitrag_integrations.values.thresholds import ActionThresholds

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "models"))
os.environ["FITRAG_CPU_DTYPE"] = "float32"  # rounding to bfloat16 differs by batch
WORDS = "a of the in who what river city king wrote score film rome danube ocean black sea"
NEAR, PATIENCE = 1e-5, 900.0  # seconds for a worker to be there
Question = tuple[str, list[Passage]]


@dataclass
class Seen:
    """Count what the clients saw; `lost` are the ports of calls without an answer."""

    answers: Counter[str] = field(default_factory=Counter)
    wrong: int = 0
    unanswered: list[str] = field(default_factory=list)
    lost: int = 0
    unexplained: list[str] = field(default_factory=list)
    held: set[int] = field(default_factory=set)  # ports of calls that killed processes had
    kills: int = 0
    killed_at: float = 0.0


def main() -> int:
    """Serve, ask and kill."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--every", type=float, default=60.0, help="seconds between two kills")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--port", type=int, default=8765)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asked = prepared(Path(folder), random.Random(args.seed))
        words = ["serve", "--port", args.port, "--workers", args.workers, "--concurrency", 128]
        words += ["--model", f"{folder}/scorer", "--evaluator", f"{folder}/evaluator"]
        words += ["--gate", f"{folder}/ik"]
        command = [sys.executable, "-m", "fitrag_integrations.cli", *map(str, words)]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as service:
            try:
                seen = asyncio.run(crowded(args, asked, service.pid))
            finally:
                service.terminate()
                code = service.wait(timeout=PATIENCE)
    told = {
        "minutes": args.minutes,
        "workers": args.workers,
        "clients": args.clients,
        "kills": seen.kills,
        "answers": dict(seen.answers),
        "wrong": seen.wrong,
        "plain calls lost with a killed process": seen.lost,
        "plain calls lost otherwise": seen.unexplained[:20],
        "calls RemoteScorer lost": seen.unanswered[:20],
        "exit": code,
    }
    print(json.dumps(told))
    if args.out:
        args.out.write_text(json.dumps(told, indent=1) + "\n")
    return int(bool(seen.wrong or seen.unexplained or seen.unanswered))


def prepared(home: Path, chance: random.Random) -> list[tuple[Question, list[float]]]:
    """Save the models, and give questions with the relevance of each of their passages."""
    from tiny import make_evaluator, make_scorer, write_bert
    from tiny_causal import write_ik, write_llama

    bert = write_bert(home / "bert")
    inner = make_scorer(bert)
    head = SpanHead(inner._engine.trunk.width, hidden=5)
    scorer = OnePassScorer(inner, head, manifest={"temperatures": [1.0, 1.0]})
    scorer.save_pretrained(home / "scorer")
    evaluator = make_evaluator(bert, thresholds=ActionThresholds(0.3, -0.3))
    evaluator.save_pretrained(home / "evaluator")
    write_ik(home / "ik", write_llama(home / "llama"), variant="head")
    asked = []
    for _ in range(200):
        texts = [" ".join(chance.choices(WORDS.split(), k=chance.randint(3, 30))) for _ in range(4)]
        passages = [Passage(str(at), text) for at, text in enumerate(texts[1:])]
        scores = scorer.score([(texts[0], passage) for passage in passages])
        asked.append(((texts[0], passages), [score.combine() / 2.0 for score in scores]))
    return asked


async def crowded(args: Any, asked: list[Any], service: int) -> Seen:
    """Ask from all clients while processes are killed, and let what is asked end."""
    url, seen, places = f"http://127.0.0.1:{args.port}", Seen(), itertools.count()
    await there(url, service, args.workers)
    end = time.monotonic() + 60.0 * args.minutes
    remote = RemoteScorer(url, dialect="jina", model="m", concurrency=args.clients, max_retries=8)
    async with asyncio.TaskGroup() as group:
        for at in range(args.clients):
            if at % 2:
                group.create_task(patient(remote, asked, seen, places, end))
            else:
                group.create_task(plain(url, asked, seen, places, end))
        chance = random.Random(args.seed)
        while time.monotonic() + args.every < end:
            await asyncio.sleep(args.every)
            kill(chance.choice(workers(service)), seen)
    return seen


async def plain(url: str, asked: list[Any], seen: Seen, places: Any, end: float) -> None:
    """Ask by HTTP, a connection a call, and remember which calls had no answer."""
    while time.monotonic() < end:
        (question, passages), expected = asked[next(places) * 7919 % len(asked)]
        body = {"query": question, "texts": [passage.text for passage in passages]}
        port: list[int] = []
        steps: dict[str, float] = {}

        async def trace(
            name: str, info: Any, port: list[int] = port, steps: dict[str, float] = steps
        ) -> None:
            steps[name.partition(".")[2]] = time.monotonic()
            if name == "connection.connect_tcp.complete":
                port.append(info["return_value"].get_extra_info("client_addr")[1])

        try:
            async with httpx.AsyncClient(timeout=120.0) as client:
                reply = await client.post(f"{url}/rerank", json=body, extensions={"trace": trace})
        except httpx.TransportError as error:
            if port and port[0] in seen.held:
                seen.lost += 1
            else:
                now = time.monotonic()
                ages = {step: round(now - at, 2) for step, at in steps.items()}
                said = f"{type(error).__name__}: {error}; {now - seen.killed_at:.2f} s after a kill"
                seen.unexplained.append(f"{said}; seconds since each step: {ages}")
            continue
        seen.answers["plain"] += 1
        found = {row["index"]: row["score"] for row in reply.json()} if reply.is_success else {}
        seen.wrong += any(abs(found.get(i, 9.0) - one) > NEAR for i, one in enumerate(expected))


async def patient(
    remote: RemoteScorer, asked: list[Any], seen: Seen, places: Any, end: float
) -> None:
    """Ask by `RemoteScorer`, which may not lose a call."""
    while time.monotonic() < end:
        (question, passages), expected = asked[next(places) * 7919 % len(asked)]
        scores = await remote.ascore([(question, passage) for passage in passages])
        seen.answers["RemoteScorer"] += 1
        for score, one in zip(scores, expected, strict=True):
            if isinstance(score, Exception):
                seen.unanswered.append(str(score))
            else:
                seen.wrong += abs(score.has_answer - one) > NEAR


def workers(service: int) -> list[psutil.Process]:
    """Give the processes that answer: those that listen."""
    children = psutil.Process(service).children()
    return [one for one in children if any(c.status == "LISTEN" for c in connections(one))]


def connections(process: psutil.Process) -> list[Any]:
    """Give a process's TCP connections."""
    try:
        return list(process.net_connections("tcp"))
    except psutil.Error:
        return []


def kill(process: psutil.Process, seen: Seen) -> None:
    """Kill a process, and keep the ports of the calls it held."""
    process.suspend()  # it takes no further call while we look
    while process.status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE):
        time.sleep(0.001)
    for _ in range(3):  # the system's table of connections may change while it is read
        seen.held |= {each.raddr.port for each in connections(process) if each.raddr}
    process.kill()
    seen.kills, seen.killed_at = seen.kills + 1, time.monotonic()


async def there(url: str, service: int, count: int) -> None:
    """Wait until so many workers take calls."""
    until = time.monotonic() + PATIENCE
    async with httpx.AsyncClient() as client:
        while time.monotonic() < until:
            if len(workers(service)) >= count:
                try:
                    await client.get(f"{url}/health")
                    return
                except httpx.TransportError:
                    pass
            await asyncio.sleep(0.5)
    raise TimeoutError("the service did not start")


if __name__ == "__main__":
    sys.exit(main())
