"""Rows of JSON Lines: parsed, named where they are wrong, and cut into parts."""

import json

import pytest
from command_fakes import passages, read, write

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.rows import Shard, read_rows
from fitrag_integrations.errors import InputError

GOOD = {"id": "g", "question": "who ?", "passages": passages("Ann did.")}
BAD = [
    ({"question": ""}, "question"),
    ({"question": " \n"}, "question"),
    ({"question": None}, "question"),
    ({"question": 7}, "question"),
    ({"question": ["who"]}, "question"),
    ({"passages": []}, "passages"),
    ({"passages": None}, "passages"),
    ({"passages": "Ann did."}, "passages"),
    ({"passages": {"text": "Ann did."}}, "passages"),
    ({"passages": ["Ann did."]}, "passages[0]"),
    ({"passages": passages("Ann did.", "")}, "passages[1].text"),
    ({"passages": passages("Ann did.", " \t\n")}, "passages[1].text"),
    ({"passages": [{"title": "no text"}]}, "passages[0].text"),
    ({"passages": [{"text": 3}]}, "passages[0].text"),
    ({"passages": [{"text": "Ann did.", "title": 0}]}, "passages[0].title"),
]
ODD = {
    "a megabyte": "Ann wrote this. " * 65536,
    "a megabyte without sentence ends": "word " * 209715,
    "NUL bytes": "Ann\0 did\0.",
    "right to left and emoji": "כתבה אותו 👩‍🚀 آن كتبت. שלום.",
    "no sentence ends": "ann did it and then she did it again",
    "lone surrogate": "Ann \ud800 did.",
    "line separators": "Ann\u2028did\u2029it\x85.\x0b",
    "one character": ".",
}
VERBS = ["score", "compress", "read", "answer"]


@pytest.mark.parametrize("verb", VERBS)
def test_each_bad_row_is_told_and_the_others_go_on(tmp_path, scorer, fitrag, verb):
    given = [{**GOOD, **change} for change, _ in BAD]
    del given[2]["question"]
    source = write(tmp_path / "in.jsonl", [GOOD, *given, GOOD])
    code, _, told = fitrag(verb, source, tmp_path / "out.jsonl")
    got = read(tmp_path / "out.jsonl")
    assert code == 0 and f"{len(BAD)} error rows" in told
    assert "error" not in got[0] and got[0].keys() == got[-1].keys() > GOOD.keys()
    for row, wrong, (_, field) in zip(got[1:-1], given, BAD, strict=True):
        error = row.pop("error")
        added = {name: row.pop(name) for name in row.keys() - wrong.keys()}
        assert row == wrong  # every field kept
        assert added.pop("offsets", "codepoints") == "codepoints"  # a unit, not a result
        assert not any(added.values()) and added.keys() <= got[0].keys()  # the verb's own, empty
        assert error["field"] == field
        assert set(error) == {"field", "given", "allowed", "message"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"question": "cut', "Unterminated string"),
        (b"nonsense", "Expecting value"),
        (b"[1, 2]", "a JSON object"),
        (b'"text"', "a JSON object"),
        (b"null", "a JSON object"),
        (b"\xff\xfe{}", "utf-8"),
        (b"[" * 100_000, "RecursionError"),
        (b'{"id": ' + b"9" * 5000 + b"}", "digits"),
    ],
)
def test_a_line_that_is_no_row(tmp_path, scorer, fitrag, line, said):
    source = write(tmp_path / "in.jsonl", [GOOD, line, GOOD])
    assert fitrag("score", source, tmp_path / "out.jsonl")[0] == 0
    good, bad, last = read(tmp_path / "out.jsonl")
    assert "scores" in good and "scores" in last
    assert bad["line"] == 2
    assert bad["raw"] == line.decode(errors="replace")[:200]
    assert said in bad["error"]["message"]


@pytest.mark.parametrize("verb", VERBS)
def test_odd_texts_are_answered(tmp_path, scorer, fitrag, verb):
    given = [{"id": name, "question": "ann ?", "passages": passages(t)} for name, t in ODD.items()]
    source = write(tmp_path / "in.jsonl", given)
    assert fitrag(verb, source, tmp_path / "out.jsonl", "--strict")[0] == 0
    got = read(tmp_path / "out.jsonl")
    assert [row["id"] for row in got] == list(ODD)
    assert [row["passages"] for row in got] == [row["passages"] for row in given]


def test_line_numbers_count_blank_lines():
    rows = list(read_rows([b"\n", b"  \n", b"{}\n", b"nonsense\n"]))
    assert rows[0].given == {} and rows[0].problem is None
    assert rows[1].given["line"] == 4
    assert isinstance(rows[1].problem, ValueError)


def test_the_parts_of_an_error_survive_its_own_words(tmp_path, scorer, fitrag):
    question = {"given": 1, "text": ": given this, allowed that"}
    source = write(tmp_path / "in.jsonl", [{**GOOD, "question": question}])
    fitrag("score", source, tmp_path / "out.jsonl")
    error = read(tmp_path / "out.jsonl")[0]["error"]
    assert error["field"] == "question"
    assert error["allowed"] == "a string that is not blank"
    assert json.dumps(question).split('"')[1] in error["given"]
    assert error["message"].startswith(str(InputError.of("question", given="", allowed=""))[:16])


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
