"""Draw with Matplotlib: a gate's sweep and scores, rankings, and the `Plot`s of a `Result`.

A function that takes axes draws on those it is given, or on a new figure, and returns them; save by
``axes.figure.savefig``. Needs Matplotlib; no window is opened and no global state is touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fitrag_integrations.core.checks import check_whole
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.outcomes import Outcomes, Rows, Sweep
from fitrag_integrations.evaluation.result import Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fitrag_integrations.evaluation.figures.figure import Figure


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
    lines = (first.never, "no retrieval", "red"), (first.always, "always", "orange")
    for value, label, colour in (*lines, (first.oracle, "oracle", "green")):
        if value is not None:
            drawn.axhline(value, linestyle=":", color=f"tab:{colour}", label=label)
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


def plot_ranking(curves: Mapping[str, Sequence[float]], figures: Sequence[Figure] = ()) -> Any:
    """Draw R@k over k for each order of passages (FIT-RAG, Figures 7 to 9); gives the figure.

    ``curves`` hold R@1, R@2 and so on by order. Where ``figures`` hold accuracies, they stand in a
    second drawing (Figure 10); a bar's whisker is the interval of its difference to the retriever.
    """
    answers = [figure for figure in figures if figure.name.startswith("accuracy@")]
    home: Any = require_extra("matplotlib.figure", extra="plots", feature="plots")
    drawing = home.Figure(figsize=(11 if answers else 6, 4), layout="constrained")
    parts = drawing.subplots(1, 2 if answers else 1, squeeze=False)[0]
    for name, curve in curves.items():
        ks = range(1, len(curve) + 1)
        parts[0].plot(ks, curve, label=name, marker="o" if len(curve) <= 20 else "", markersize=4)
    parts[0].xaxis.get_major_locator().set_params(integer=True)
    _labelled(parts[0], "k", "R@k: an answer in the first k", "")
    if answers:
        _answer_bars(parts[1], answers)
    return drawing


def draw_plots(plots: Sequence[Plot]) -> Any:
    """Draw them beside each other; gives the figure. Raises `InputError` where there is none."""
    if not plots:
        raise InputError.of("plots", given=0, allowed="at least one plot")
    home: Any = require_extra("matplotlib.figure", extra="plots", feature="plots")
    figure = home.Figure(figsize=(6 * len(plots), 4), layout="constrained")
    for axes, plot in zip(figure.subplots(1, len(plots), squeeze=False)[0], plots, strict=True):
        draw_plot(plot, axes)
    return figure


def draw_plot(plot: Plot, axes: Axes) -> Axes:
    """Draw one plot on the axes, and give them back."""
    draw = {"bar": _bars, "histogram": _histogram}.get(plot.kind, _lines)
    draw(plot, axes)
    for name, height in plot.levels.items():
        axes.axhline(height, linestyle=":", color="grey", label=f"{name} ({height:.3f})")
    for name, (x, y) in plot.marks.items():
        axes.plot([x], [y], linestyle="", marker="D", color="black", label=name)
    axes.set_xlabel(plot.x)
    axes.set_ylabel(plot.y)
    axes.set_title(plot.name)
    if plot.series or plot.levels:
        axes.legend(frameon=False, fontsize="small")
    return axes


def _answer_bars(axes: Axes, answers: Sequence[Figure]) -> None:
    """Draw a group of bars for each number of passages read, a bar for each order."""
    depths = list(dict.fromkeys(figure.name for figure in answers))
    orders = list(dict.fromkeys(figure.who for figure in answers))
    found = {(figure.who, figure.name): figure for figure in answers}
    base = {depth: found[orders[0], depth].value or 0.0 for depth in depths}
    width = 0.8 / len(orders)
    for i, order in enumerate(orders):
        chosen = [found[order, depth] for depth in depths]
        places = [j + (i - (len(orders) - 1) / 2) * width for j in range(len(depths))]
        values = [figure.value or 0.0 for figure in chosen]
        axes.bar(places, values, width, label=order)
        for x, depth, figure in zip(places, depths, chosen, strict=True):
            if figure.change is not None and figure.change.bounds is not None:
                ends = [base[depth] + end for end in figure.change.bounds]
                axes.plot([x, x], ends, color="black", linewidth=1)
    axes.set_xticks(range(len(depths)), [depth.partition("@")[2] for depth in depths])
    axes.set_xlabel("passages read")  # the colours are those of the curves beside it
    axes.set_ylabel("right answers")


def _axes(axes: Axes | None) -> Axes:
    """Return the axes, or new ones; pyplot would never release its figure."""
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


def _lines(plot: Plot, axes: Axes) -> None:
    for name, points in plot.series.items():
        x, y = [point[0] for point in points], [point[1] for point in points]
        apart = plot.kind == "points" or len(points) < 2
        axes.plot(x, y, label=name, marker="o" if apart else "", linestyle="" if apart else "-")


def _bars(plot: Plot, axes: Axes) -> None:
    heads = list(dict.fromkeys(str(x) for points in plot.series.values() for x, _ in points))
    width = 0.8 / max(1, len(plot.series))
    for i, (name, points) in enumerate(plot.series.items()):
        left = (i - (len(plot.series) - 1) / 2) * width
        places = [heads.index(str(x)) + left for x, _ in points]
        axes.bar(places, [y for _, y in points], width, label=name)
    axes.set_xticks(range(len(heads)), heads)


def _histogram(plot: Plot, axes: Axes) -> None:
    edges = sorted({float(x) for points in plot.series.values() for x, _ in points})
    width = min((b - a for a, b in zip(edges, edges[1:], strict=False)), default=1.0)
    for name, points in plot.series.items():
        heights = [y for _, y in points]
        places = [x for x, _ in points]
        axes.bar(places, heights, width, align="edge", alpha=0.5, label=name)
