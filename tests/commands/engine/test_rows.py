"""Rows of JSON Lines: parsed, and named where they are wrong."""

import pytest
from command_fakes import passages, read, write

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
    ({"passages": ["Ann did.", " "]}, "passages[1]"),
    ({"passages": [["Ann did."]]}, "passages[0]"),
    ({"passages": passages("Ann did.", "")}, "passages[1].text"),
    ({"passages": passages("Ann did.", " \t\n")}, "passages[1].text"),
    ({"passages": [{"title": "no text"}]}, "passages[0].text"),
    ({"passages": [{"text": 3}]}, "passages[0].text"),
    ({"passages": [{"text": "Ann did.", "title": 0}]}, "passages[0].title"),
]
BLANK = ("passages[1]", "passages[1].text")
ODD = {
    "long": "Ann wrote this. " * 8192,
    "long without sentence ends": "word " * 26214,
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
    # blank passages are left out of compression
    bad = [(row, at) for row, at in BAD if verb != "compress" or at not in BLANK]
    given = [{**GOOD, **change} for change, _ in bad]
    del given[2]["question"]
    source = write(tmp_path / "in.jsonl", [GOOD, *given, GOOD])
    code, _, told = fitrag(verb, source, tmp_path / "out.jsonl")
    got = read(tmp_path / "out.jsonl")
    assert code == 1 and f"{len(bad)} error rows" in told
    assert "error" not in got[0] and got[0].keys() == got[-1].keys() > GOOD.keys()
    for row, wrong, (_, field) in zip(got[1:-1], given, bad, strict=True):
        error = row.pop("error")
        added = {name: row.pop(name) for name in row.keys() - wrong.keys()}
        assert row == wrong  # every field kept
        assert added.pop("offsets", "codepoints") == "codepoints"  # a unit, not a result
        assert not any(added.values()) and added.keys() <= got[0].keys()  # the verb's own, empty
        assert error["field"] == field
        assert set(error) == {"field", "given", "allowed", "message"}


@pytest.mark.parametrize("verb", VERBS)
def test_a_passage_may_be_a_text(tmp_path, scorer, fitrag, verb):
    texts = [{"text": "Ann did."}], ["Ann did."]
    same = [{**GOOD, "passages": given} for given in texts]
    assert fitrag(verb, write(tmp_path / "in.jsonl", same), tmp_path / "out.jsonl")[0] == 0
    got = [{**row, "passages": 0} for row in read(tmp_path / "out.jsonl")]
    assert "error" not in got[1] and got[0].keys() == got[1].keys()
    assert verb == "answer" or got[0] == got[1]  # whose trace has the seconds


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
        (b'{"question": "who ?", "passages": ["Ann."], "note": 1e400}', "got '1e400'"),
    ],
)
def test_a_line_that_is_no_row(tmp_path, scorer, fitrag, line, said):
    source = write(tmp_path / "in.jsonl", [b" ", GOOD, line, GOOD])
    assert fitrag("score", source, tmp_path / "out.jsonl")[0] == 1
    good, bad, last = read(tmp_path / "out.jsonl")
    assert "scores" in good and "scores" in last
    assert bad["line"] == 3
    assert bad["raw"] == line.decode(errors="replace")[:200]
    assert said in bad["error"]["message"]


@pytest.mark.parametrize("verb", VERBS)
def test_odd_texts_are_answered(tmp_path, scorer, fitrag, verb):
    given = [{"id": name, "question": "ann ?", "passages": passages(t)} for name, t in ODD.items()]
    source = write(tmp_path / "in.jsonl", given)
    assert fitrag(verb, source, tmp_path / "out.jsonl")[0] == 0
    got = read(tmp_path / "out.jsonl")
    assert [row["id"] for row in got] == list(ODD)
    assert [row["passages"] for row in got] == [row["passages"] for row in given]
