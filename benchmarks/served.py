"""Kill a process of `fitrag serve` every 30 s while many clients ask: is an answer wrong or lost?

    python benchmarks/served.py [--minutes 10] [--every 30] [--workers 4] [--clients 64]

The service runs as a program on 127.0.0.1 over the models that ship. Half of the clients ask by
plain HTTP and never ask again: each of their calls that ends without an answer has to be one of
those that the killed process held at that moment, as the system's table of connections has them.
The others are `RemoteScorer`s, which ask again by themselves, and may lose nothing. At the end
SIGTERM comes while every client has a call open: all have to be answered, and every process has to
end within the grace. Expected scores are those of the same model in this process. Needs psutil,
which accelerate brings.
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
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.options import ModelOptions
from fitrag_integrations.models.remote.scorer import RemoteScorer
from fitrag_integrations.types import Passage

os.environ["FITRAG_CPU_DTYPE"] = "float32"  # rounding to bfloat16 differs by batch
WORDS = "a of the in who what river city king wrote score film rome danube ocean black sea"
NEAR, PATIENCE = 1e-4, 900.0  # seconds for a worker to be there
TLS = httpx.create_ssl_context()  # made once: a client that makes its own asks much less
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
    cut: list[str] = field(default_factory=list)  # calls that SIGTERM left without an answer
    ending: float = 0.0  # seconds from SIGTERM to the end
    left: list[str] = field(default_factory=list)  # processes that outlived it


def main() -> int:
    """Serve, ask and kill."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--every", type=float, default=30.0, help="seconds between two kills")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--port", type=int, default=8765)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    asked = prepared(random.Random(args.seed))
    words = ["serve", "--port", args.port, "--workers", args.workers, "--concurrency", 128]
    command = [sys.executable, "-m", "fitrag_integrations.cli", *map(str, words)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as service:
        try:
            seen = asyncio.run(crowded(args, asked, service))
        finally:
            service.kill()
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
        "plain calls open at SIGTERM": args.clients,
        "of them lost": seen.cut,
        "seconds from SIGTERM to the end": round(seen.ending, 2),
        "processes left": seen.left,
        "exit": service.returncode,
    }
    print(json.dumps(told))
    if args.out:
        args.out.write_text(json.dumps(told, indent=1) + "\n")
    lost = seen.wrong or seen.unexplained or seen.unanswered or seen.cut or seen.left
    return int(bool(lost or service.returncode))


def prepared(chance: random.Random) -> list[tuple[Question, list[float]]]:
    """Return questions with the relevance of each of their passages."""
    scorer, asked = models.load_scorer(ModelOptions()), []
    for _ in range(60):
        texts = [" ".join(chance.choices(WORDS.split(), k=chance.randint(3, 30))) for _ in range(4)]
        passages = [Passage(str(at), text) for at, text in enumerate(texts[1:])]
        scores = scorer.score([(texts[0], passage) for passage in passages])
        asked.append(((texts[0], passages), [score.combine() / 2.0 for score in scores]))
    return asked


async def crowded(args: Any, asked: list[Any], process: subprocess.Popen[bytes]) -> Seen:
    """Ask from all clients while processes are killed, then end the service under calls."""
    url, seen, places = f"http://127.0.0.1:{args.port}", Seen(), itertools.count()
    service = process.pid
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
            if serving := workers(service):  # on a busy machine all may still be loading
                kill(chance.choice(serving), seen)
    inside = psutil.Process(service).children(recursive=True)
    before = len(seen.unexplained)
    async with asyncio.TaskGroup() as group:
        for (question, passages), expected in (asked * 2)[: args.clients]:
            row = ((question, passages * 5), expected * 5)  # which takes longer
            group.create_task(plain_call(url, row, seen))
        await asyncio.sleep(2.0)
        process.terminate()
        began = time.monotonic()
    seen.cut = seen.unexplained[before:]
    del seen.unexplained[before:]
    await asyncio.to_thread(process.wait, PATIENCE)
    seen.ending = time.monotonic() - began
    seen.left = [str(each) for each in psutil.wait_procs(inside, timeout=5.0)[1]]
    return seen


async def plain(url: str, asked: list[Any], seen: Seen, places: Any, end: float) -> None:
    """Ask by HTTP, a connection a call."""
    while time.monotonic() < end:
        await plain_call(url, asked[next(places) % len(asked)], seen)


async def plain_call(url: str, asked: tuple[Question, list[float]], seen: Seen) -> None:
    """Ask once, and remember a call without an answer."""
    (question, passages), expected = asked
    body = {"query": question, "texts": [passage.text for passage in passages]}
    port: list[int] = []
    steps: dict[str, float] = {}

    async def trace(name: str, info: Any) -> None:
        steps[name.partition(".")[2]] = time.monotonic()
        if name == "connection.connect_tcp.complete":
            port.append(info["return_value"].get_extra_info("client_addr")[1])

    try:
        async with httpx.AsyncClient(timeout=120.0, verify=TLS) as client:
            reply = await client.post(f"{url}/rerank", json=body, extensions={"trace": trace})
    except httpx.TransportError as error:
        if port and port[0] in seen.held:
            seen.lost += 1
        else:
            now = time.monotonic()
            ages = {step: round(now - at, 2) for step, at in steps.items()}
            said = f"{type(error).__name__}: {error}; {now - seen.killed_at:.2f} s after a kill"
            seen.unexplained.append(f"{said}; seconds since each step: {ages}")
        return
    seen.answers["plain"] += 1
    found = {row["index"]: row["score"] for row in reply.json()} if reply.is_success else {}
    seen.wrong += any(abs(found.get(i, 9.0) - one) > NEAR for i, one in enumerate(expected))


async def patient(
    remote: RemoteScorer, asked: list[Any], seen: Seen, places: Any, end: float
) -> None:
    """Ask by `RemoteScorer`, which may not lose a call."""
    while time.monotonic() < end:
        (question, passages), expected = asked[next(places) % len(asked)]
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
