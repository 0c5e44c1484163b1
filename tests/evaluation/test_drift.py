"""Drift: found where it is, and seldom where it is not."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from fitrag_integrations.cli import app
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.drift import drift
from fitrag_integrations.methods.compose.fitted import Fitted

pytest.importorskip("scipy")


def rows(rng, count, skip=0.2, score=1.0, tokens=100):
    """Draw trace rows of a gated method."""
    made = []
    for _ in range(count):
        known = float(rng.random())
        retrieve = known <= 1 - skip
        made.append(
            {
                "retrieve": retrieve,
                "p_known": known,
                "score": float(rng.normal(score, 0.3)) if retrieve else None,
                "tokens": int(rng.integers(tokens // 2, tokens)) if retrieve else 0,
            }
        )
    return made


def changed(found):
    return {one.figure for one in found if one.changed}


def test_what_has_changed_is_named():
    rng = np.random.default_rng(0)
    before = rows(rng, 100)
    assert "retrieved" in changed(drift(before, rows(rng, 200, skip=0.7)))
    assert changed(drift(before, rows(rng, 200, score=0.5))) == {"score"}
    assert "tokens" in changed(drift(before, rows(rng, 200, tokens=300)))


def test_false_alarms_are_as_rare_as_said():
    rng = np.random.default_rng(1)
    alarms = sum(bool(changed(drift(rows(rng, 80), rows(rng, 80)))) for _ in range(200))
    assert alarms <= 0.05 * 200 + 6


def test_too_few_rows_are_refused():
    some = rows(np.random.default_rng(2), 30)
    with pytest.raises(InputError, match="traces: given 19 .int., allowed at least 20"):
        drift(some, some[:19])


def test_figures_that_one_side_lacks_are_left_out():
    some = rows(np.random.default_rng(3), 30)
    plain = [{"retrieve": True, "p_known": None, "score": None, "tokens": 9} for _ in some]
    assert {one.figure for one in drift(some, plain)} == {"retrieved", "nothing kept", "tokens"}


def test_the_command_tells_and_exits(tmp_path):
    rng = np.random.default_rng(4)
    Fitted("llm", {"method": "direct", "k": 3}, folder=str(tmp_path)).write()
    for name, made in (("traces.jsonl", rows(rng, 90)), ("now.jsonl", rows(rng, 90, tokens=900))):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in made))
    given = ["evaluate", "drift", str(tmp_path), str(tmp_path / "now.jsonl")]
    done = CliRunner().invoke(app, [*given, "--strict"])
    assert done.exit_code == 1 and "changed: tokens" in done.output
    same = CliRunner().invoke(app, [*given[:3], str(tmp_path / "traces.jsonl"), "--json"])
    assert same.exit_code == 0 and json.loads(same.output)["changed"] == []
