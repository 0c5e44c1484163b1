"""Compare what is seen in production with what was seen when everything was fitted.

Two samples of trace rows, a test for each figure: Fisher's exact test for shares, Kolmogorov and
Smirnov's two-sample test for numbers, and Holm's correction over all of them (1979), so that where
nothing has changed at all, anything is called changed with a probability of at most `level`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import methodcaller

from fitrag_integrations.core.checks import check_number
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.record import Record, Row
from fitrag_integrations.errors import refuse_if

LEVEL = 0.05
LEAST = 20  # rows of either side, fewer show only very large changes
SHARES: dict[str, Callable[[Row], float | None]] = {
    "retrieved": methodcaller("get", "retrieve"),
    "nothing kept": lambda row: row["tokens"] == 0 if row.get("retrieve", True) else None,
}
NUMBERS: dict[str, Callable[[Row], float | None]] = {
    name: methodcaller("get", name) for name in ("p_known", "score", "tokens")
}


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
    """Test every figure that both sides have.

    Args:
        fitted: Trace rows of the questions that everything was fitted on.
        now: Trace rows of production.
        level: Probability that anything is called changed where nothing is, in [0, 1].

    Raises:
        InputError: If a side has fewer than 20 rows.
        MissingExtraError: Without SciPy.
    """
    check_number("level", level, low=0.0, high=1.0)
    for name, rows in (("fitted", fitted), ("traces", now)):
        refuse_if(len(rows) < LEAST, name, len(rows), f"at least {LEAST} rows")
    stats = require_extra("scipy.stats", extra="evaluate", feature="fitrag evaluate drift")
    found = []
    for name, read in (SHARES | NUMBERS).items():
        one, other = sides = [
            [float(value) for row in rows if (value := read(row)) is not None]
            for rows in (fitted, now)
        ]
        if not one or not other:
            continue
        if name in SHARES:
            test = "Fisher"
            p = stats.fisher_exact([[sum(side), len(side) - sum(side)] for side in sides]).pvalue
        else:
            test, p = "Kolmogorov-Smirnov", stats.ks_2samp(one, other).pvalue
        means = sum(one) / len(one), sum(other) / len(other)
        found.append(Drift(name, *means, (len(one), len(other)), test, float(p)))
    changed = set()  # by Holm's steps, the smallest p first
    for at, drifted in enumerate(sorted(found, key=lambda each: each.p)):
        if drifted.p > level / (len(found) - at):
            break
        changed.add(drifted.figure)
    return [replace(each, changed=each.figure in changed) for each in found]
