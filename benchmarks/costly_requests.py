"""Send costly requests to a started `fitrag serve`: what does each cost, and who else waits?

    python benchmarks/costly_requests.py [--out FILE] [--only NAME ...]

The service runs as a program on 127.0.0.1 with the bundled models and its default limits. For each
shape it prints the status of the reply, seconds until it came, processor seconds and peak memory of
the service, and the longest time that GET /health took meanwhile, asked every 50 ms. Reading peak
memory needs Linux; needs psutil, which accelerate brings.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

MEGABYTE = 1_000_000
PATIENCE = 180.0  # seconds for a reply, and for the models to load
SENTENCE = "The river Tirva rises below the Hohe Wand and reaches the sea at Corran. "
QUESTION = "Where does the river Tirva rise?"


def text(size: int) -> str:
    """Return prose of so many characters."""
    return (SENTENCE * (size // len(SENTENCE) + 1))[:size]


def rerank(**fields: Any) -> tuple[str, bytes]:
    """Return a request for spans or relevance."""
    return "/v2/rerank", json.dumps({"query": QUESTION, "model": "m", **fields}).encode()


def raw(inside: bytes) -> tuple[str, bytes]:
    """Return a request whose documents are written out."""
    return "/rerank", b'{"query": "q", "documents": ' + inside + b"}"


def row(path: str, **fields: Any) -> tuple[str, bytes]:
    """Return the row of a verb."""
    return path, json.dumps({"question": QUESTION, **fields}).encode()


def passages(count: int, size: int) -> list[dict[str, str]]:
    """Return passages of so many characters."""
    return [{"id": str(at), "text": text(size)} for at in range(count)]


SHAPES: dict[str, Callable[[], tuple[str, bytes]]] = {
    "1 MB of numbers as documents": lambda: raw(b"[" + b"1," * (MEGABYTE // 2) + b"1]"),
    "8 MB of numbers as documents": lambda: raw(b"[" + b"1," * (4 * MEGABYTE - 50) + b"1]"),
    "99,000 numbers as documents": lambda: raw(b"[" + b"1," * 98_999 + b"1]"),
    "lists 100,000 deep": lambda: raw(b"[" * 100_000 + b"]" * 100_000),
    "99,000 unknown fields": lambda: rerank(**{f"field{i}": i for i in range(99_000)}),
    "a body of 9 MB": lambda: raw(b'["' + b"a" * 9 * MEGABYTE + b'"]'),
    "a document of 7.9 MB": lambda: raw(b'["' + b"a" * (7_900_000) + b'"]'),
    "spans of a document of 350 kB": lambda: rerank(documents=[text(350_000)], relevant_spans={}),
    "spans of a document of 2 MB": lambda: rerank(documents=[text(2_000_000)], relevant_spans={}),
    "spans of 2 MB of sentences of one letter": lambda: rerank(
        documents=["A. " * 660_000], relevant_spans={}
    ),
    "a query of 50 kB, 1,000 documents": lambda: rerank(
        query=text(50_000), documents=[SENTENCE] * 1000
    ),
    "1,000 documents of 5 kB": lambda: rerank(documents=[text(5000)] * 1000),
    "compression of a passage of 2 MB": lambda: row("/compress", passages=passages(1, 2_000_000)),
    "gate with a draft of 0.5 MB": lambda: row("/gate", draft=text(500_000)),
    "gate with a draft of 7.9 MB": lambda: row("/gate", draft=text(7_900_000)),
    "gate with a draft of 20 kB": lambda: row("/gate", draft=text(20_000)),
    "gate with a question of 50 kB": lambda: row("/gate", question=text(50_000)),
    "route with a title of 1 MB": lambda: row(
        "/route", passages=[{"title": text(MEGABYTE), "text": "a"}]
    ),
    "compression of 1,000 passages with titles of 2 kB": lambda: row(
        "/compress", passages=[{"title": text(2000), "text": text(2000)}] * 1000
    ),
    "route with 1,000 passages of 5 kB": lambda: row("/route", passages=passages(1000, 5000)),
}


def main() -> int:
    """Serve, send one shape after the other and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="*", default=[], help="parts of the names to send")
    args = parser.parse_args()
    found = []
    print("| request | status | seconds | processor seconds | peak MB | /health, at most |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, make in SHAPES.items():
        if args.only and not any(part in name for part in args.only):
            continue
        with served() as (
            service,
            port,
        ):  # a fresh one each time: what a former left is not counted
            figures = measured(service, port, *make())
        found.append({"request": name, **figures})
        print(
            f"| {name} | {figures['status']} | {figures['seconds']:.1f} "
            f"| {figures['processor seconds']:.1f} | {figures['peak MB']:.0f} "
            f"| {figures['health seconds']:.2f} s |",
            flush=True,
        )
    if args.out:
        args.out.write_text(json.dumps(found, indent=1) + "\n")
    return int(any(one["health seconds"] >= 1 for one in found))


@contextmanager
def served() -> Iterator[tuple[psutil.Process, int]]:
    """Start the service and wait until it answers a request with its models."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    command = [sys.executable, "-m", "fitrag_integrations.cli", "serve", "--port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, env=dict(os.environ)) as process:
        try:
            until = time.monotonic() + PATIENCE
            while True:
                try:
                    for path in ("/gate", "/route", "/compress"):
                        send(port, *row(path, passages=passages(2, 200)))
                    break
                except OSError:
                    if time.monotonic() > until or process.poll() is not None:
                        raise
                    time.sleep(0.2)
            yield psutil.Process(process.pid), port
        finally:
            process.kill()


def send(port: int, path: str, body: bytes) -> int:
    """Send a request and return the reply's status; 0 if there was none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        reply.read()
        return reply.status
    except (BrokenPipeError, ConnectionResetError):  # refused before all of it was read
        return connection.getresponse().status
    except TimeoutError:
        return 0
    finally:
        connection.close()


def measured(service: psutil.Process, port: int, path: str, body: bytes) -> dict[str, Any]:
    """Send one request while /health is asked."""
    Path(f"/proc/{service.pid}/clear_refs").write_text("5")  # forget the peak so far
    before, began = service.cpu_times(), time.monotonic()
    ended, slowest = threading.Event(), [0.0]

    def ask() -> None:
        while not ended.wait(0.05):
            asked = time.monotonic()
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
            with contextlib.suppress(TimeoutError):  # which counts as the whole of PATIENCE
                connection.request("GET", "/health")
                connection.getresponse().read()
            connection.close()
            slowest[0] = max(slowest[0], time.monotonic() - asked)

    asking = threading.Thread(target=ask)
    asking.start()
    status = send(port, path, body)
    seconds = time.monotonic() - began
    time.sleep(1)  # what goes on after the reply belongs to it
    ended.set()
    asking.join()
    after = service.cpu_times()
    lines = Path(f"/proc/{service.pid}/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    return {
        "status": status,
        "seconds": seconds,
        "processor seconds": after.user + after.system - before.user - before.system,
        "peak MB": peak / 1000,
        "health seconds": slowest[0],
    }


if __name__ == "__main__":
    sys.exit(main())
