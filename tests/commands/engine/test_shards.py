"""Rows in parts, and rows that failed asked again."""

import json

import pytest
from command_fakes import read, write

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.rows import Shard
from fitrag_integrations.errors import InputError


def test_the_parts_are_the_rows_in_their_order(tmp_path, scorer, fitrag, rows):
    no_id = {"question": "no id", "passages": rows[0]["passages"]}
    mixed = [*rows[:20], b'{"bad', no_id, *rows[20:]]
    given, whole = write(tmp_path / "in.jsonl", mixed), tmp_path / "whole.jsonl"
    fitrag("score", given, whole)
    lines = whole.read_bytes().splitlines()
    parts = []
    for part in range(3):
        out = tmp_path / f"out{part}.jsonl"
        assert fitrag("score", given, out, "--shard", f"{part}/3")[0] == 0
        parts.append(out.read_bytes().splitlines())
        places = [lines.index(line) for line in parts[-1]]
        assert places and places == sorted(places)
    assert sorted(line for part in parts for line in part) == sorted(lines)


def test_the_part_of_an_id_never_changes():
    parts = {"a": 47, "b": 53, "é\ud800": 63, 7: 2, "7": 2}
    assert all(Shard(part, 64).has(name, 0) for name, part in parts.items())
    shard = Shard(0, 2)
    assert [shard.has(None, line) for line in (1, 2, 3)] == [False, True, False]
    assert shard.has(True, 2) and shard.has(["a"], 2)


def test_an_output_belongs_to_its_part(tmp_path, scorer, fitrag, rows):
    given, out = write(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    fitrag("score", given, out, "--shard", "0/2")
    before = out.read_bytes()
    code, _, err = fitrag("score", given, out, "--shard", "1/2")
    assert code == 2 and "--shard: given '1/2'" in err and "0/2, with which" in err
    out.write_bytes(before[:-30])
    assert fitrag("score", given, out, "--shard", "0/2")[0] == 0
    assert out.read_bytes() == before


@pytest.mark.parametrize("given", ["2/2", "1", "-1/2", "0/0", "a/b", "1/2/3", " 0/2", ""])
def test_what_is_no_part_is_refused(tmp_path, fitrag, rows, given):
    with pytest.raises(InputError, match="i/n"):
        Shard.read(given)
    source = write(tmp_path / "in.jsonl", rows)
    code, _, err = fitrag("score", source, tmp_path / "out.jsonl", f"--shard={given}")
    assert code == 2 and "--shard" in err


class Moody:
    """Fail over some texts, as a server does that is out of memory."""

    def __init__(self, scorer):
        self.scorer, self.fails, self.asked = scorer, True, []

    def score(self, pairs):
        self.asked += [question for question, _ in pairs]
        if self.fails and any("part 3" in question for question, _ in pairs):
            raise RuntimeError("out of memory")
        return self.scorer.score(pairs)


@pytest.fixture
def moody(scorer, monkeypatch):
    made = Moody(scorer)
    monkeypatch.setattr(models, "load_scorer", lambda options: made)
    return made


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz"])
def test_failed_rows_are_asked_again_and_no_others(tmp_path, moody, fitrag, rows, name):
    given, out = write(tmp_path / "in.jsonl", [*rows, b"no row"]), tmp_path / name
    said = json.loads(fitrag("score", given, out, "--json")[1])
    assert said["errors"] == 12  # parts 3 and 30 to 39
    moody.fails, moody.asked = False, []
    assert fitrag("score", given, out)[0] == 0 and not moody.asked  # only on request
    said = json.loads(fitrag("score", given, out, "--retry-failed", "--json")[1])
    assert said["errors"] == 1 and said["output"] == str(out)
    assert {question.split()[3] for question in moody.asked} == {"3", *map(str, range(30, 40))}
    fitrag("score", given, tmp_path / "anew.jsonl")
    assert read(out) == read(tmp_path / "anew.jsonl")
    assert not list(tmp_path.glob("retried.*"))


def test_asking_again_goes_on_where_it_was_stopped(tmp_path, moody, fitrag, rows):
    given, out = write(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    fitrag("score", given, out)
    first, beside = out.read_bytes(), tmp_path / "retried.out.jsonl"
    moody.fails = False
    fitrag("score", given, out, "--retry-failed")
    whole = out.read_bytes()
    out.write_bytes(first)
    beside.write_bytes(whole[: whole.index(b'"id": 33') - 1])
    moody.asked = []
    assert fitrag("score", given, out, "--retry-failed")[0] == 0
    assert out.read_bytes() == whole and not beside.exists()
    assert {question.split()[3] for question in moody.asked} == set(map(str, range(33, 40)))


def test_another_output_is_not_taken_over(tmp_path, moody, fitrag, rows):
    given, out = write(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    fitrag("score", given, out)
    write(given, [{**row, "note": "another"} for row in rows])
    before = out.read_bytes()
    code, _, err = fitrag("score", given, out, "--retry-failed")
    assert code == 2 and "row 1 is not that of the input" in err
    assert out.read_bytes() == before


def test_overwriting_forgets_what_was_asked_again(tmp_path, moody, fitrag, rows):
    given, out = write(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    beside = write(tmp_path / "retried.out.jsonl", rows[:3])
    moody.fails = False
    assert fitrag("score", given, out, "--overwrite", "--retry-failed")[0] == 0
    assert len(read(out)) == 40 and not beside.exists()
