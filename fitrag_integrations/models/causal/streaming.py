"""Hand on what is being written, piece by piece, while the worker writes."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future

from fitrag_integrations.models.causal.decoding import Hear
from fitrag_integrations.models.causal.words import cut_at
from fitrag_integrations.models.runtime.worker import Steps, Worker


def stream_from(
    worker: Worker, write: Callable[[Hear], Steps[list[str]]], stop: Sequence[str]
) -> Iterator[str]:
    """Run `write` on the worker and yield what is new in the text it tells so far.

    What may still turn out to be a stop text, a blank at the end or half a character is held back.
    """
    heard: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    left = threading.Event()

    def hear(text: str) -> bool:
        heard.put(sure_part(text, stop))
        return left.is_set()

    future = worker.submit(lambda items: write(hear), [None])
    future.add_done_callback(lambda _: heard.put(None))
    return _pieces(heard, future, left)


def _pieces(
    heard: queue.SimpleQueue[str | None], future: Future[list[str]], left: threading.Event
) -> Iterator[str]:
    shown = ""
    try:
        while (text := heard.get()) is not None:
            if text.startswith(shown) and text != shown:
                yield text[len(shown) :]
                shown = text
        (whole,) = future.result()
        if whole != shown:
            yield whole[len(shown) :]
    finally:
        left.set()


def sure_part(text: str, stop: Sequence[str]) -> str:
    """Return the part of a text that nothing written after it can take back."""
    cut = cut_at(text, stop)
    if cut == text:
        cut = text.rstrip("\ufffd")  # half a character
        held = max((_overlap(cut, mark) for mark in stop), default=0)
        cut = cut[: len(cut) - held]
    return cut.strip()


def _overlap(text: str, mark: str) -> int:
    """Count the characters at the end of a text with which a stop text may begin."""
    longest = min(len(text), len(mark) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(mark[:n])), 0)
