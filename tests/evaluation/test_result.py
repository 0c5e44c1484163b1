"""What an evaluation leaves behind can be read again, and nothing else can."""

import json

import pytest

from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.plots import draw_plots
from fitrag_integrations.evaluation.result import (
    Plot,
    Result,
    content_id,
    question_id,
)

PLOTS = (
    Plot("curve", "x", "y", {"a": [[0.0, 0.5], [1.0, 1.0]]}, levels={"all": 0.7}),
    Plot("dots", "x", "y", {"a": [[3.0, 0.5]]}, kind="points"),
    Plot("bars", "x", "y", {"a": [["EM", 0.5], ["F1", 1.0]], "b": [["EM", 0.1]]}, kind="bar"),
    Plot("counts", "x", "y", {"a": [[0.0, 2], [0.5, 1]], "b": [[0.0, 1]]}, kind="histogram"),
)


def result(**others):
    fields = {
        "kind": "answers",
        "figures": [{"figure": "EM", "value": 0.5}],
        "per_question": [{"id": "a", "question": "who?", "values": {"EM": 1.0}}],
        "settings": {"seed": 3},
        "plots": PLOTS,
        "notes": ["one row is left out"],
    }
    return Result(**{**fields, **others})


@pytest.mark.parametrize("name", ["out.json", "deep/out.json.gz"])
def test_it_is_written_whole_and_read_again(tmp_path, name):
    rows = [{"figure": "EM", "value": float("nan")}]
    made = result(figures=rows, settings={"seed": 3})
    rows[0]["value"] = 1  # it holds plain values and never the caller's
    assert made.figures == ({"figure": "EM", "value": "nan"},)
    assert json.loads(result(settings={"k": (1, 2)}).to_json())["settings"] == {"k": [1, 2]}
    made.write(tmp_path / name)
    assert Result.read(tmp_path / name) == made
    assert [path.name for path in (tmp_path / name).parent.iterdir()] == [name.split("/")[-1]]
    assert Result.from_json(made.to_json()) == made


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"{", "the JSON of a fitrag evaluation"),
        (b"{}", "Result.kind"),
        (b'{"kind": "guess", "figures": []}', "answers, rerank, gate"),
        (b'{"kind": "gate", "figures": [], "schema": 2}', "Result.schema"),
        (b'{"kind": "gate", "figures": [3]}', "Result.figures"),
        (b'{"kind": "gate", "figures": [], "plots": [{"name": "a"}]}', "Plot.x"),
        (b"\xff", "utf-8"),
    ],
)
def test_another_file_is_refused_by_its_name(tmp_path, data, told):
    path = tmp_path / "other.json"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"other\.json") as raised:
        Result.read(path)
    assert told in str(raised.value)


def test_damaged_files_and_unknown_plots_are_refused(tmp_path):
    (tmp_path / "cut.json.gz").write_bytes(b"no gzip")
    with pytest.raises(InputError, match=r"cut\.json\.gz"):
        Result.read(tmp_path / "cut.json.gz")
    with pytest.raises(InputError, match="line, points, bar, histogram"):
        Plot("a", "x", "y", {}, kind="pie")


def test_plots_are_drawn_beside_each_other(tmp_path):
    figure = draw_plots(PLOTS)
    assert [axes.get_title() for axes in figure.axes] == ["curve", "dots", "bars", "counts"]
    curve, dots, bars, counts = figure.axes
    assert curve.lines[0].get_ydata().tolist() == [0.5, 1.0]
    assert (dots.lines[0].get_marker(), len(bars.patches), len(counts.patches)) == ("o", 3, 3)
    assert [patch.get_width() for patch in counts.patches] == [0.5, 0.5, 0.5]
    figure.savefig(tmp_path / "all.svg")
    with pytest.raises(InputError, match="at least one plot"):
        draw_plots([])


def test_a_question_is_known_by_its_content():
    assert question_id("who?", ["a", "b"]) == question_id("who?", ["b", "a"])
    assert question_id("who?", ["a"]) != question_id("who?", ["a", "b"])
    assert content_id({"a": 1, "b": 2}) == content_id({"b": 2, "a": 1})
    assert content_id([{"a": 1}, {"a": 2}]) != content_id([{"a": 2}, {"a": 1}])
