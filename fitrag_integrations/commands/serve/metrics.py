"""Counts and times of a service, as Prometheus reads them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ROUTES = {"/rerank", "/v1/rerank", "/v2/rerank", "/compress", "/route", "/gate"}
ROUTES |= {"/health", "/info", "/metrics"}


class Metrics:
    """Keep one service's figures; each service has a registry of its own."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self.registry = kept = CollectorRegistry()
        self._count = Counter("fitrag_requests", "Requests.", ["route", "status"], registry=kept)
        self._seconds = Histogram(
            "fitrag_seconds", "Seconds a request took.", ["route"], registry=kept
        )
        self.pairs = Counter("fitrag_pairs", "Pairs scored.", registry=kept)
        self.open = Gauge("fitrag_open_requests", "Requests being answered.", registry=kept)

    @contextmanager
    def timed(self, path: str) -> Iterator[Callable[[int], None]]:
        """Time a request; the caller passes its status before it ends."""
        route = path if path in ROUTES else "other"  # a path of one's own making is no label
        begun = time.perf_counter()
        yield lambda status: self._count.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(time.perf_counter() - begun)
