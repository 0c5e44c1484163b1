"""Plots of a training run: its losses, w, and the calibration of its probabilities.

Every function draws on the axes passed, or on a new figure, and returns the axes. Requires
Matplotlib; no window is opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from fitrag_integrations.evaluation.plots import labelled, new_axes
from fitrag_integrations.training.loop.checkpoints import read_log
from fitrag_integrations.training.rows import LABELS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOSSES = {
    "point": "cross-entropy",
    "matched": "matched pairs",
    "mismatched": "mismatched pairs",
    "unpaired": "pairs with an unknown label",
    "rank": "listwise",
    "held_out": "held out",
}
Log = Sequence[Mapping[str, Any]]


def plot_losses(log: Log, *, axes: Axes | None = None, title: str = "") -> Axes:
    """Plot the losses of a log by step; those of both groups before weighting.

    Args:
        log: Rows of a run's log.
        axes: Axes to draw on; new ones by default.
        title: Title of the plot.
    """
    drawn = new_axes() if axes is None else axes
    for name, label in LOSSES.items():
        rows = [row for row in log if row.get(name) is not None]
        if rows and any(row[name] for row in rows):
            marker = "o" if name == "held_out" or len(rows) == 1 else ""
            steps, values = [row["step"] for row in rows], [row[name] for row in rows]
            drawn.plot(steps, values, label=label, marker=marker, markersize=4)
    return labelled(drawn, "step", "loss", title)


def plot_weight(log: Log, *, axes: Axes | None = None, title: str = "") -> Axes:
    """Plot w, the weight of matched pairs (FIT-RAG, equation 3), by step.

    Args:
        log: Rows of a run's log.
        axes: Axes to draw on; new ones by default.
        title: Title of the plot.
    """
    drawn = new_axes() if axes is None else axes
    rows = [row for row in log if "w" in row]
    marker = "o" if len(rows) == 1 else ""
    drawn.plot([row["step"] for row in rows], [row["w"] for row in rows], label="w", marker=marker)
    drawn.set_ylim(0, 1)
    return labelled(drawn, "step", "w", title)


def plot_labels(
    probabilities: Tensor,
    labels: Tensor,
    *,
    bins: int = 10,
    axes: Axes | None = None,
    title: str = "",
) -> Axes:
    """Plot the fraction of right pairs by the mean probability of each bin, beside the diagonal.

    Args:
        probabilities: Columns has_answer and llm_prefer. Shape: (pairs, 2).
        labels: Labels; a NaN is left out. Shape: (pairs, 2).
        bins: Number of bins; a point's area grows with its number of pairs.
        axes: Axes to draw on; new ones by default.
        title: Title of the plot.
    """
    drawn = new_axes() if axes is None else axes
    drawn.plot([0, 1], [0, 1], linestyle=":", color="grey", label="as said")
    for column, name in enumerate(LABELS):
        known = ~labels[:, column].isnan()
        if not known.any():
            continue
        chance, gold = probabilities[known, column].double(), labels[known, column].double()
        place = (chance * bins).long().clamp(max=bins - 1)
        counts = place.bincount(minlength=bins)
        filled = counts > 0
        means = place.bincount(chance, bins)[filled] / counts[filled]
        shares = place.bincount(gold, bins)[filled] / counts[filled]
        sizes = 20 + 300 * counts[filled] / len(chance)
        drawn.scatter(means.tolist(), shares.tolist(), s=sizes.tolist(), label=name, alpha=0.7)
    return labelled(drawn, "mean probability", "share of pairs", title)


def draw_run(log: Path, probabilities: Tensor, labels: Tensor, folder: Path) -> None:
    """Draw a run into `losses.png`, `weight.png` if it has a w, and `reliability.png`.

    Args:
        log: Log file of the run.
        probabilities: Held-out probabilities. Shape: (pairs, 2).
        labels: Their labels. Shape: (pairs, 2).
        folder: Folder to write.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows = read_log(log)
    drawn = {"losses": plot_losses(rows), "reliability": plot_labels(probabilities, labels)}
    if any("w" in row for row in rows):
        drawn["weight"] = plot_weight(rows)
    for name, axes in drawn.items():
        figure: Any = axes.figure
        figure.savefig(folder / f"{name}.png")
