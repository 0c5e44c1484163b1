"""Draw a gate: the sweep, the histogram of its scores, and how much they mean what they say.

Every function draws on the axes it is given, or on a new figure, and returns the axes; save with
``axes.figure.savefig``. Needs Matplotlib; no window is opened and no global state is touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fitrag_integrations._checks import check_whole
from fitrag_integrations._extras import require_extra
from fitrag_integrations.evaluation.outcomes import Outcomes, Rows
from fitrag_integrations.evaluation.sweep import Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINES = {"never": ("no retrieval", "tab:red"), "always": ("always", "tab:orange")}


def plot_sweep(
    sweeps: Sweep | Mapping[str, Sweep], *, axes: Axes | None = None, title: str = ""
) -> Axes:
    """Draw accuracy against the share of retrieval (IK, Figure 1), one curve for each gate.

    Dotted lines are no retrieval, always and the oracle, of the first sweep; the upright one marks
    half of the questions.
    """
    named = {"gate": sweeps} if isinstance(sweeps, Sweep) else dict(sweeps)
    drawn = _axes(axes)
    for name, sweep in named.items():
        x, y = zip(*((100 * p.share, p.accuracy) for p in sweep.points), strict=True)
        drawn.plot(x, y, label=name, linewidth=1.5)
    first = next(iter(named.values()))
    for field, (label, colour) in {**LINES, "oracle": ("oracle", "tab:green")}.items():
        if (value := getattr(first, field)) is not None:
            drawn.axhline(value, linestyle=":", color=colour, label=label)
    drawn.axvline(50, linestyle=":", color="tab:blue", linewidth=0.8)
    return _labelled(drawn, "questions retrieved for (%)", "accuracy", title)


def plot_histogram(
    scores: Mapping[str, Sequence[float]] | Rows,
    *,
    bins: int = 20,
    axes: Axes | None = None,
    title: str = "",
) -> Axes:
    """Draw how a gate's scores are spread over a set of questions (IK, Figure 2).

    Takes scores by the name of their set, or labelled rows, which are split into known and unknown.
    """
    named = dict(scores) if isinstance(scores, Mapping) else _by_label(Outcomes.of(scores))
    drawn, edges = _axes(axes), [i / check_whole("bins", bins, low=1) for i in range(bins + 1)]
    for name, values in named.items():
        drawn.hist(values, bins=edges, alpha=0.5, label=f"{name} ({len(values)})")
    return _labelled(drawn, "p_known", "questions", title)


def plot_reliability(
    rows: Rows, *, bins: int = 10, axes: Axes | None = None, title: str = ""
) -> Axes:
    """Draw the share of known questions over the mean score of each bin, beside the diagonal.

    The area of a point grows with its number of questions.
    """
    outcomes = Outcomes.of(rows)
    number = check_whole("bins", bins, low=1)
    place = np.minimum((outcomes.p_known * number).astype(int), number - 1)
    counts = np.bincount(place, minlength=number)
    filled = counts > 0
    means = np.bincount(place, outcomes.p_known, number)[filled] / counts[filled]
    known = np.bincount(place, outcomes.known, number)[filled] / counts[filled]
    drawn = _axes(axes)
    drawn.plot([0, 1], [0, 1], linestyle=":", color="grey", label="p_known = share")
    drawn.scatter(means, known, s=20 + 300 * counts[filled] / len(outcomes), label="gate")
    return _labelled(drawn, "mean p_known", "share of known questions", title)


def _axes(axes: Axes | None) -> Axes:
    """Give a drawing of our own where none was given; pyplot would keep it alive for ever."""
    if axes is not None:
        return axes
    figure: Any = require_extra("matplotlib.figure", extra="plots", feature="plots")
    made: Axes = figure.Figure(figsize=(6, 4), layout="constrained").subplots()
    return made


def _by_label(outcomes: Outcomes) -> dict[str, Sequence[float]]:
    known = outcomes.known > 0
    return {
        "known": outcomes.p_known[known].tolist(),
        "unknown": outcomes.p_known[~known].tolist(),
    }


def _labelled(axes: Axes, x: str, y: str, title: str) -> Axes:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title)
    axes.legend(frameon=False)
    return axes
