"""Compare what is seen in production with what was seen when everything was fitted.

Two samples of trace rows, a test for each figure: Fisher's exact test for shares, Kolmogorov and
Smirnov's two-sample test for numbers, and Holm's correction over all of them (1979), so that where
nothing has changed at all, anything is called changed with a probability of at most `level`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fitrag_integrations.core.checks import check_number
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.record import Record, Row
from fitrag_integrations.errors import InputError

LEVEL = 0.05
LEAST = 20  # rows of either side, fewer show only very large changes
SHARES: dict[str, Callable[[Row], bool | None]] = {
    "retrieved": lambda row: row.get("retrieve"),
    "nothing kept": lambda row: row["tokens"] == 0 if row.get("retrieve", True) else None,
}
NUMBERS = ("p_known", "score", "tokens")


@dataclass(frozen=True, slots=True)
class Drift(Record):
    """Test of one figure: its mean on either side, the test's p, and whether it changed.

    `p` is as it came, `changed` after the correction.
    """

    figure: str
    fitted: float
    now: float
    rows: tuple[int, int]
    test: str
    p: float
    changed: bool = False


def drift(fitted: Sequence[Row], now: Sequence[Row], *, level: float = LEVEL) -> list[Drift]:
    """Test every figure that both sides have, at a `level` in [0, 1] over all of them together.

    Raises `InputError` where a side has fewer than 20 rows.
    """
    check_number("level", level, low=0.0, high=1.0)
    for name, rows in (("fitted", fitted), ("traces", now)):
        if len(rows) < LEAST:
            raise InputError.of(name, given=len(rows), allowed=f"at least {LEAST} rows")
    found = []
    for name, read in SHARES.items():
        found += _tested(name, _column(fitted, read), _column(now, read), _fisher, "Fisher")
    for name in NUMBERS:
        one, other = (_column(rows, partial(_of, name)) for rows in (fitted, now))
        found += _tested(name, one, other, _smirnov, "Kolmogorov-Smirnov")
    return _corrected(found, level)


def _of(name: str, row: Row) -> Any:
    return row.get(name)


def _column(rows: Sequence[Row], read: Callable[[Any], Any]) -> list[float]:
    return [float(value) for row in rows if (value := read(row)) is not None]


def _tested(
    name: str,
    one: Sequence[float],
    other: Sequence[float],
    test: Callable[[Sequence[float], Sequence[float]], float],
    said: str,
) -> list[Drift]:
    if not one or not other:
        return []
    means = sum(one) / len(one), sum(other) / len(other)
    return [Drift(name, *means, (len(one), len(other)), said, test(one, other))]


def _fisher(one: Sequence[float], other: Sequence[float]) -> float:
    table = [[sum(side), len(side) - sum(side)] for side in (one, other)]
    return float(_stats().fisher_exact(table).pvalue)


def _smirnov(one: Sequence[float], other: Sequence[float]) -> float:
    return float(_stats().ks_2samp(one, other).pvalue)


def _stats() -> Any:
    return require_extra("scipy.stats", extra="evaluate", feature="fitrag evaluate drift")


def _corrected(found: Sequence[Drift], level: float) -> list[Drift]:
    """Call changed what passes Holm's steps, the smallest p first."""
    ordered = sorted(found, key=lambda one: one.p)
    changed = set()
    for at, one in enumerate(ordered):
        if one.p > level / (len(found) - at):
            break
        changed.add(one.figure)
    return [Drift.from_dict({**one.to_dict(), "changed": one.figure in changed}) for one in found]
