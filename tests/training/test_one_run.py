"""One run at a time trains into a folder, however the folder is named."""

import os
from pathlib import Path

import pytest

from fitrag_integrations.core.files import lock
from fitrag_integrations.errors import InputError
from fitrag_integrations.training.bilabel.fit import fit_bilabel
from fitrag_integrations.training.causal.ik import fit_ik
from fitrag_integrations.training.causal.slimplm import fit_necessity, fit_rewriter
from fitrag_integrations.training.eligibility import fit_eligibility
from fitrag_integrations.training.evaluator.fit import fit_evaluator
from fitrag_integrations.training.reader import fit_reader
from fitrag_integrations.training.trainer import only_run

TRAINERS = [fit_bilabel, fit_evaluator, fit_eligibility, fit_ik, fit_necessity]
TRAINERS += [fit_reader, fit_rewriter]


@pytest.mark.parametrize("fit", TRAINERS, ids=lambda fit: fit.__name__)
def test_a_second_run_in_a_folder_is_refused_and_changes_nothing(tmp_path, fit):
    log = tmp_path / "model" / "run" / "log.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text('{"step": 1}\n')
    (tmp_path / "link").symlink_to(tmp_path / "model", target_is_directory=True)
    handle = os.open(tmp_path / "model", os.O_RDONLY)
    try:
        lock(handle, tmp_path / "model")  # as the first run does
        for out in (tmp_path / "model", tmp_path / "link"):
            with pytest.raises(InputError, match="no other run is writing"):
                fit([], out, None)
    finally:
        os.close(handle)
    assert log.read_text() == '{"step": 1}\n'


def test_a_folder_made_for_a_run_that_is_refused_goes_again(tmp_path):
    @only_run
    def fit(rows: list[str], out: Path) -> list[str]:
        if not rows:
            raise InputError("no rows")
        (out / "model.json").write_text("{}")
        return rows

    with pytest.raises(InputError):
        fit([], tmp_path / "new" / "model")
    assert not (tmp_path / "new" / "model").exists()
    assert fit(["row"], out=tmp_path / "model") == ["row"]
    with pytest.raises(InputError):
        fit([], tmp_path / "model")
    assert (tmp_path / "model" / "model.json").exists()


def test_of_several_processes_the_first_locks_and_the_others_join(tmp_path, monkeypatch):
    fit = only_run(lambda out: "trained")
    handle = os.open(tmp_path, os.O_RDONLY)
    try:
        lock(handle, tmp_path)
        monkeypatch.setenv("RANK", "1")
        assert fit(tmp_path) == "trained"
        monkeypatch.setenv("RANK", "0")
        with pytest.raises(InputError, match="no other run is writing"):
            fit(tmp_path)
    finally:
        os.close(handle)
