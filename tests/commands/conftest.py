"""The command in this process, over fakes."""

import pytest
from command_fakes import FirstWord, Fixed, Words, passages

from fitrag_integrations.cli import main
from fitrag_integrations.commands.engine import models


@pytest.fixture
def scorer(monkeypatch):
    made = Words()
    monkeypatch.setattr(models, "load_scorer", lambda options: made)
    monkeypatch.setattr(models, "load_reader", lambda options: FirstWord())
    return made


@pytest.fixture
def index(tmp_path, monkeypatch):
    """Find one passage wherever an index is asked for; the folder is in `folder`."""
    made = Fixed()
    made.folder = tmp_path / "index"
    made.folder.mkdir()
    monkeypatch.setattr(models, "load_retriever", lambda folder, options, k: made)
    return made


@pytest.fixture
def fitrag(capfdbinary):
    """Run the command in this process; gives its exit code, standard output and error."""

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = capfdbinary.readouterr()
        return ended.value.code or 0, out.decode(), err.decode()

    return run


@pytest.fixture
def rows():
    return [
        {
            "id": i,
            "question": f"who wrote part {i} ?",
            "note": {"kept": [i, None, "é\u2028"]},
            "passages": passages(f"Ann wrote part {i} .", "Rain falls.", f"Part {i} is. It is."),
        }
        for i in range(40)
    ]
