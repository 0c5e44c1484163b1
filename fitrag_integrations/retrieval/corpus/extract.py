"""Extract the text of PDF and HTML files in a separate process with bounded memory.

`Extractor` runs this file as that process: a broken or hostile file can crash it or slow it down
without harming the caller. The process imports nothing of the package.
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import threading
from typing import IO

SECONDS = 60.0
"""Longest time for one file."""
MEMORY = 2 << 30
"""Bytes of memory that the process may have."""
CHARACTERS = 64 << 20
"""Longest text of one file."""


class Extractor:
    """Process that extracts texts, started at the first file and again after a file that crashed
    it.

    Example:
        >>> with contextlib.closing(Extractor()) as extractor:
        ...     text = extractor.text("pdf", data)
    """

    def __init__(self, seconds: float = SECONDS, memory: int = MEMORY) -> None:
        self._seconds, self._memory = seconds, memory
        self._process: subprocess.Popen[bytes] | None = None

    def text(self, kind: str, data: bytes) -> str:
        """Return the text of a file of the kind "pdf" or "html".

        Raises:
            ValueError: If no text can be extracted; the message is the reason.
        """
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(self._memory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        process, late = self._process, threading.Event()

        def stop() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(self._seconds, stop)
        timer.start()
        try:
            assert process.stdin is not None and process.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps([kind, len(data)]).encode() + b"\n" + data)
                process.stdin.flush()
            line = process.stdout.readline()
        finally:
            timer.cancel()
        if not line.endswith(b"\n"):
            self.close()
            why = f"took more than {self._seconds:g} s" if late.is_set() else "ended the reader"
            raise ValueError(f"reading it {why}")
        reply = json.loads(line)
        if "error" in reply:
            raise ValueError(reply["error"])
        return str(reply["text"])

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _pdf(data: bytes) -> str:
    import pypdf

    reader = pypdf.PdfReader(io.BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise ValueError("encrypted PDF; save a copy without its password")
    parts, length = [], 0
    for page in reader.pages:
        parts.append(page.extract_text())
        length += len(parts[-1])
        if length > CHARACTERS:
            raise ValueError(f"more than {CHARACTERS:,} characters")
    return "\n\n".join(parts)


def _html(data: bytes) -> str:
    import trafilatura

    return str(trafilatura.extract(data, include_comments=False) or "")


def _serve(given: IO[bytes], replies: IO[bytes]) -> None:
    """Answer requests of a line of JSON and the file's bytes by a line of JSON each."""
    for line in iter(given.readline, b""):
        kind, size = json.loads(line)
        data = given.read(size)
        try:
            reply = {"text": {"pdf": _pdf, "html": _html}[kind](data)}
        except MemoryError:
            reply = {"error": "takes too much memory to read"}
        except RecursionError:
            reply = {"error": "damaged: nested too deeply"}
        except Exception as error:  # noqa: BLE001 - each library raises its own on damaged files
            message = " ".join(str(error).split())[:200]
            reply = {
                "error": message if type(error) is ValueError else f"damaged {kind}: {message}"
            }
        replies.write(json.dumps(reply).encode("ascii") + b"\n")
        replies.flush()


if __name__ == "__main__":
    with contextlib.suppress(ImportError, ValueError, OSError):  # not on every system
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]), int(sys.argv[1])))
    out = sys.stdout.buffer
    sys.stdout = sys.stderr  # what a library prints is no reply
    _serve(sys.stdin.buffer, out)
