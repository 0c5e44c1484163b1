"""What is drawn is what was measured."""

import numpy as np
import pytest
from gate_rows import calibrated, draw, rows_of

from fitrag_integrations.evaluation.outcomes import Sweep
from fitrag_integrations.evaluation.plots import plot_histogram, plot_sweep

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def outcomes():
    return draw(calibrated, np.random.default_rng(6), 300)


def names(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_the_sweep_with_its_three_lines(outcomes, tmp_path):
    sweep = Sweep.of(outcomes)
    axes = plot_sweep({"IK": sweep, "again": sweep}, title="Figure 1")
    assert names(axes) == ["IK", "again", "no retrieval", "always", "oracle"]
    x, y = axes.lines[0].get_data()
    assert list(x) == [100 * p.share for p in sweep.points]
    assert list(y) == [p.accuracy for p in sweep.points]
    heights = [line.get_ydata()[0] for line in axes.lines[2:5]]
    assert heights == [sweep.never, sweep.always, sweep.oracle]
    axes.figure.savefig(tmp_path / "sweep.png")
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")


def test_the_histogram_counts_every_question(outcomes):
    axes = plot_histogram(outcomes)
    assert sum(bar.get_height() for bar in axes.patches) == 300
    known = int(outcomes.known.sum())
    assert names(axes) == [f"known ({known})", f"unknown ({300 - known})"]
    sets = plot_histogram({"NQ": [0.1, 0.9, 1.0]}, bins=2, axes=axes)
    assert sets is axes
    assert [bar.get_height() for bar in axes.patches[-2:]] == [1, 2]


def test_rows_will_do(outcomes):
    rows = rows_of(outcomes)
    assert plot_histogram(rows).get_xlabel() == "p_known"
