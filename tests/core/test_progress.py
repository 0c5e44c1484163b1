"""Bars: at once where asked for, never where silenced, and late where nobody asked."""

import sys

import pytest

from fitrag_integrations.core import progress as _progress
from fitrag_integrations.core.progress import tracked
from fitrag_integrations.evaluation.table import bootstrap
from fitrag_integrations.evaluation.thresholds.risk import choose_threshold


def test_a_bar_that_is_asked_for_is_drawn_on_standard_error(capsys):
    assert list(tracked(range(3), "Counting", show=True)) == [0, 1, 2]
    captured = capsys.readouterr()
    assert "Counting" in captured.err
    assert "3/3" in captured.err
    assert captured.out == ""


@pytest.mark.parametrize("show", [False, None])
def test_no_bar_where_it_is_silenced_or_nobody_watches(capsys, monkeypatch, show):
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)  # which another test imports
    given = range(3)
    assert tracked(given, "Counting", show=show) is given
    assert capsys.readouterr() == ("", "")


class Terminal:
    """Be standard error at a terminal."""

    def __init__(self):
        self.written = ""

    def isatty(self):
        return True

    def write(self, text):
        self.written += text

    def flush(self):
        pass


@pytest.mark.parametrize(("delay", "drawn"), [(60.0, False), (0.0, True)])
def test_at_a_terminal_a_bar_comes_once_it_takes_long(monkeypatch, delay, drawn):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(_progress, "DELAY", delay)
    assert list(tracked(range(3), "Counting", show=None)) == [0, 1, 2]
    assert ("Counting" in terminal.written) is drawn


def test_the_functions_of_evaluation_are_silent_unless_asked(capsys):
    rows = [{"p_known": i / 10, "known": i > 4} for i in range(10)]
    quiet = choose_threshold(rows, resamples=5)
    assert capsys.readouterr().err == ""
    assert choose_threshold(rows, resamples=5, show_progress=True) == quiet
    assert "Resampling" in capsys.readouterr().err
    assert bootstrap(lambda places: 1.0, 5, resamples=5) == (1.0, 1.0)
    assert capsys.readouterr().err == ""
