"""What a model said is kept by content, and a stopped run continues."""

import pytest

from fitrag_integrations.commands.evaluate.options import answered, cache_of
from fitrag_integrations.errors import InputError

ROWS = [{"question": f"{i}?"} for i in range(40)]


def ask(path, rows=ROWS, setup="one", fail_at=None):
    """Give the answers, and how many were asked for in each call."""
    calls, moved = [], []

    def answer(some):
        if fail_at is not None and len(calls) == fail_at:
            raise RuntimeError("stopped")
        calls.append(len(some))
        return [row["question"].upper() for row in some]

    found = answered(rows, answer, setup={"model": setup}, path=path, advance=moved.append)
    assert sum(moved) == len(rows)
    return found, calls


def test_each_row_is_asked_once(tmp_path):
    path = tmp_path / "cache.jsonl"
    found, calls = ask(path)
    assert (found, calls) == ([row["question"] for row in ROWS], [16, 16, 8])
    assert ask(path, ROWS[::-1]) == (found[::-1], [])
    assert ask(path, setup="another")[1] == [16, 16, 8]
    assert ask(path, [*ROWS[:3], {"question": "new?"}])[1] == [1]
    assert ask(None)[1] == [16, 16, 8]
    assert ask(None, ROWS[:2] * 3) == (["0?", "1?"] * 3, [2])


def test_a_stopped_run_continues_after_a_cut_line(tmp_path):
    path = tmp_path / "cache.jsonl"
    with pytest.raises(RuntimeError, match="stopped"):
        ask(path, fail_at=2)
    whole = path.read_bytes()
    assert whole.count(b"\n") == 32
    path.write_bytes(whole[:-10])
    found, calls = ask(path)
    assert (found, calls) == ([row["question"] for row in ROWS], [9])
    assert path.read_bytes().count(b"\n") == 40


def test_another_file_is_refused(tmp_path):
    path = tmp_path / "cache.jsonl"
    path.write_text('{"question": "mine"}\n', encoding="utf-8")
    with pytest.raises(InputError, match="line 1.*a cache of fitrag evaluate"):
        ask(path)
    assert path.read_text(encoding="utf-8") == '{"question": "mine"}\n'


def test_the_cache_stands_beside_the_output(tmp_path):
    assert cache_of(None, None) is None
    assert cache_of(None, tmp_path / "out.json.gz") == tmp_path / "out.cache.jsonl"
    assert cache_of(tmp_path / "c.jsonl", tmp_path / "out.json") == tmp_path / "c.jsonl"
    with pytest.raises(InputError, match="--cache"):
        cache_of(tmp_path / "c.json", None)
