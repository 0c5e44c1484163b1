"""Ask a server that lies: do memory and time stay within their limits, and is each failure told?

    python benchmarks/lying_server.py [--deadline 5] [--out FILE] [--only NAME ...]

A socket server on 127.0.0.1 answers in forty ways: packed, endless, slow, broken, deep, huge, with
other indexes and numbers than it was asked for. `RemoteScorer` and `RemoteGenerator` ask it once
for each. For both it prints what came of it, seconds and the peak of memory above the start, which
needs Linux. It fails where memory grows by over 64 MB, the deadline passes by over a second, or
anything but a score, a text or an error of this package comes out.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import gzip
import json
import socket
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from fitrag_integrations.errors import FitRagError
from fitrag_integrations.models import RemoteGenerator, RemoteScorer
from fitrag_integrations.types import Passage

MOST, LATE = 64.0, 1.0  # MB above the start, seconds beyond the deadline
GOOD = {"results": [{"index": 0, "relevance_score": 0.5}]}
PAIR = ("Where does the Tirva rise?", Passage("p", "It rises below the Hohe Wand."))
Reply = Callable[[socket.socket], None]


def head(status: str = "200 OK", **fields: object) -> bytes:
    """Return a status line and header."""
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def whole(data: bytes, status: str = "200 OK", **fields: object) -> Reply:
    """Answer with these bytes."""
    fields.setdefault("Content_Length", len(data))
    return lambda connection: connection.sendall(head(status, **fields) + data)


def value(found: object, status: str = "200 OK", **fields: object) -> Reply:
    """Answer with a value as JSON."""
    return whole(json.dumps(found).encode(), status, **fields)


def endless(piece: bytes, pause: float = 0.0, begin: bytes = b"", **fields: object) -> Reply:
    """Answer with the same bytes until the client leaves."""

    def send(connection: socket.socket) -> None:
        connection.sendall(head(**fields) + begin)
        while True:
            connection.sendall(piece)
            time.sleep(pause)

    return send


def raw(data: bytes, pause: float = 0.0) -> Reply:
    """Send these bytes, wait, and close."""

    def send(connection: socket.socket) -> None:
        connection.sendall(data)
        time.sleep(pause)

    return send


def packed(size: int, times: int = 1) -> bytes:
    """Pack so many blanks, over and over."""
    data = b" " * size
    for _ in range(times):
        data = gzip.compress(data)
    return data


def slowly(data: bytes, pause: float) -> Reply:
    """Send a byte at a time."""

    def send(connection: socket.socket) -> None:
        for at in range(len(data)):
            connection.sendall(data[at : at + 1])
            time.sleep(pause)

    return send


def kinds() -> Iterator[tuple[str, Reply]]:
    """Yield the ways to answer."""
    text = json.dumps(GOOD).encode()
    bomb = packed(200_000_000)
    deflated = zlib.compress(b" " * 200_000_000)
    yield "gzip of 200 MB", whole(bomb, Content_Encoding="gzip")
    yield "gzip twice", whole(packed(200_000_000, 2), Content_Encoding="gzip, gzip")
    yield "gzip three times", whole(packed(200_000_000, 3), Content_Encoding="gzip, gzip, gzip")
    yield "deflate of 200 MB", whole(deflated, Content_Encoding="deflate")
    yield "gzip that is none", whole(text, Content_Encoding="gzip")
    yield "gzip that breaks off", whole(gzip.compress(text)[:-9], Content_Encoding="gzip")
    yield "gzip with an error status", whole(bomb, "500 No", Content_Encoding="gzip")
    for coding in ("zstd", "br", "compress", "identity, gzip, x"):
        yield f"Content-Encoding {coding}", whole(bomb[:20000], Content_Encoding=coding)
    yield "endless blanks", endless(b" " * 65536)
    yield "endless list", endless(b"[]," * 20000, begin=b"[")
    yield "endless error", raw(head("500 No") + b"a" * 30_000_000)
    yield "endless refusal", raw(head("400 No") + b'"sk-key" ' * 3_000_000)
    yield "endless header", endless(b"X: y\r\n" * 1000, begin=b"")
    yield "endless header, no status", raw(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200_000)
    yield "endless chunk sizes", endless(b"1" * 4096, Transfer_Encoding="chunked")
    yield "endless interim replies", raw(b"HTTP/1.1 100 Continue\r\n\r\n" * 200_000)
    yield "a byte a second", endless(b" ", pause=1.0)
    yield "a header a byte at a time", slowly(head() + text, 0.05)
    yield "silence", raw(b"", pause=30)
    yield "silence after the header", raw(head(Content_Length=100), pause=30)
    yield "closed at once", raw(b"")
    yield "closed within the body", raw(head(Content_Length=1000) + text)
    yield "more than its length", whole(text + b"x" * 1000, Content_Length=len(text))
    yield "a length of 10**18", raw(head(Content_Length=10**18) + text)
    yield "two lengths", raw(head(Content_Length=3)[:-2] + b"Content-Length: 9\r\n\r\n" + text)
    yield "not HTTP", raw(b"\0\xff" * 5000)
    yield "redirect to itself", value(GOOD, "302 Found", Location="/v1/rerank")
    yield "Retry-After of a year", value({}, "429 Wait", Retry_After=31_536_000)
    yield "always 500", value({}, "500 No")
    yield "always 413", value({}, "413 Large")
    yield "12 MB of empty lists", whole(b"[" + b"[]," * 4_000_000 + b"[]]")
    yield "12 MB of numbers", whole(b"[" + b"1," * 6_000_000 + b"1]")
    yield "12 MB of one text", value({"results": "a" * 12_000_000})
    yield "lists 100,000 deep", whole(b"[" * 100_000 + b"]" * 100_000)
    yield "an integer of 12 MB", whole(b'{"results": ' + b"9" * 12_000_000 + b"}")
    yield "another index", value({"results": [{"index": 7, "relevance_score": 0.5}]})
    yield "NaN", whole(b'{"results": [{"index": 0, "relevance_score": NaN}]}')


class Server:
    """Answer each connection in the way that is set."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._socket.getsockname()[1]
        self.reply: Reply = raw(b"")
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        reply = self.reply
        try:
            with connection:
                connection.settimeout(30)
                asked = b""
                while not asked.endswith(b"}"):  # unread bytes would reset the connection
                    asked += connection.recv(65536)
                reply(connection)
        except OSError:
            pass


def status(field: str) -> float:
    """Return a field of the process's status in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1000


def measured(ask: Callable[[], Any]) -> dict[str, Any]:
    """Call and measure; replies were made before, so that their memory is not counted."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before, began = status("VmRSS"), time.monotonic()
    try:
        (found,) = ask()
    except FitRagError as error:
        found = error
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        found = error
    return {
        "came": str(found)[:100],
        "seconds": time.monotonic() - began,
        "MB": status("VmHWM") - before,
        "raw": isinstance(found, Exception) and not isinstance(found, FitRagError),
    }


def main() -> int:
    """Ask once for each kind of reply."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--deadline", type=float, default=5.0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="*", default=[], help="parts of the names to ask for")
    args = parser.parse_args()
    server, rows, bad = Server(), [], 0
    url = f"http://127.0.0.1:{server.port}/v1"
    for name, reply in kinds():
        if args.only and not any(part in name for part in args.only):
            continue
        for client in ("RemoteScorer", "RemoteGenerator"):
            server.reply = reply
            options: dict[str, Any] = {"timeout": 2.0, "deadline": args.deadline, "model": "m"}
            call: Callable[[], Any]
            if client == "RemoteScorer":
                call = partial(RemoteScorer(url, dialect="jina", **options).score, [PAIR])
            else:
                call = partial(RemoteGenerator(url, **options).generate, ["The Tirva rises"])
            found = measured(call)
            wrong = found["raw"] or found["MB"] > MOST or found["seconds"] > args.deadline + LATE
            bad += wrong
            rows.append({"reply": name, "client": client, **found})
            mark = "WRONG " if wrong else ""
            print(f"{mark}{name} | {client} | {found['seconds']:.1f} s | {found['MB']:.0f} MB "
                  f"| {found['came']}", flush=True)  # fmt: skip
    most, slowest = max(row["MB"] for row in rows), max(row["seconds"] for row in rows)
    print(f"{len(rows)} calls, {bad} wrong, at most {most:.0f} MB and {slowest:.1f} s")
    if args.out:
        args.out.write_text(json.dumps(rows, indent=1) + "\n")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
