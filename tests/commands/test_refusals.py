"""What a command cannot do, and a row it cannot use, is told in one line, before any work."""

import gzip
import re
import shlex

import pytest
from command_fakes import passages, write

ROW = {
    "question": "who wrote it ?",
    "answers": ["Ann"],
    "passages": [{"title": "Ann", "text": "Ann wrote it.", "has_answer": 1, "llm_prefer": 1}],
    "passage": {"title": "Ann", "text": "Ann wrote it."},
    "title": "Ann",
    "prediction": "Ann",
    "excerpts": [{"passage": 0, "start": 0, "end": 3, "score": 0.5}],
    "scores": [{"has_answer": 0.9, "llm_prefer": 0.5}],
}
WRONG = [
    # what is read and written
    ("score missing.jsonl out.jsonl", "Input file not found"),
    ("score in.jsonl in.jsonl", "another file"),
    ("score in.jsonl out.txt", r"\.jsonl"),
    ("score in.jsonl in.jsonl/out.jsonl", "a place that can be written"),
    ("score in.jsonl folder.jsonl", "fitrag: "),
    ("try corpus --out folder.jsonl", "--out"),
    ("try corpus --out in.jsonl/page.html", "--out"),
    ("score broken.jsonl.gz out.jsonl", "damaged"),
    ("score cut.jsonl.gz out.jsonl", "damaged"),
    ("answer in.jsonl", "output"),
    ("retrieve in.jsonl out.jsonl", "one of --index and --corpus"),
    ("retrieve in.jsonl out.jsonl --index x --corpus y", "one of --index and --corpus"),
    ("retrieve in.jsonl out.jsonl --index missing", "File or folder of --index not found"),
    ("retrieve in.jsonl out.jsonl --index missing --dense", "an index is dense"),
    ("evaluate answers missing.jsonl --method direct", r"missing\.jsonl"),
    ("evaluate answers empty.jsonl --method direct", "at least one row"),
    ("evaluate rerank empty.jsonl", "at least one row"),
    ("evaluate answers in.jsonl --out x.txt", r"\.json, \.json\.gz"),
    ("evaluate answers in.jsonl --gold away.jsonl", r"away\.jsonl"),
    ("evaluate rerank in.jsonl --plot out.txt", "--plot"),
    ("serve --index .", "with --mcp"),
    # options that are none or do not go together
    ("score in.jsonl out.jsonl --nothing", "--nothing"),
    ("score in.jsonl out.jsonl --engine spark", "must be local or ray"),
    ("compress in.jsonl out.jsonl --window 0", "window"),
    ("answer who?", "`--index` must be"),
    ("answer in.jsonl out.jsonl --llm gpt", "PROVIDER:MODEL"),
    ("answer in.jsonl out.jsonl --llm together:some", "langchain-together"),
    ("answer in.jsonl out.jsonl --llm nobody:some", "nobody"),
    ("answer in.jsonl out.jsonl --llm a:b --reader c", "--reader"),
    ("answer in.jsonl out.jsonl --method cragg", "did you mean crag?"),
    ("answer in.jsonl out.jsonl --method away.toml", "method` must be"),
    ("answer in.jsonl out.jsonl --method crag --model x", "--model"),
    ("answer in.jsonl out.jsonl --method skrknn", "bank"),
    ("evaluate answers in.jsonl --method direct --method direct", "each name once"),
    ("evaluate answers in.jsonl --method ' , '", "at least one method"),
    ("evaluate answers in.jsonl --method cragg", "method` must be"),
    ("evaluate answers in.jsonl --method direct --llm a:b --reader x", "--reader"),
    ("evaluate answers in.jsonl --method direct --drop-right 0.5 --index .", "0 with --index"),
    ("evaluate rerank in.jsonl --k 1,x", "--k` must be"),
    ("evaluate rerank in.jsonl --read-k 0", "--read-k` must be"),
    ("evaluate rerank in.jsonl --scale logit", "--scale"),
    ("evaluate rerank in.jsonl --model mine --reranker other", "--reranker"),
    ("label ik in.jsonl --out out.jsonl --llm m --teacher oracle", "one of match, recall, judge"),
    ("label evaluator in.jsonl --out out.jsonl --signal luck", "--signal"),
    ("train bilabel in.jsonl --out out --tune some", "tune` must be one of head, lora, full"),
    ("train bilabel in.jsonl --out out --validation nowhere.jsonl", "validation` must be"),
    ("train bilabel in.jsonl --out out --validation 1.5", "validation` must be"),
    ("train bilabel in.jsonl --out out --imbalance some", "imbalance"),
]


def refused(fitrag, words):
    """Run a command that exits with 2, and give the one line that it says."""
    code, _, err = fitrag(*shlex.split(words))
    assert code == 2 and "Traceback" not in err, err
    return err


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole = write(tmp_path / "cut.jsonl.gz", [ROW]).read_bytes()
    (tmp_path / "cut.jsonl.gz").write_bytes(whole[:-20])
    (tmp_path / "broken.jsonl.gz").write_bytes(b"no gzip")
    (tmp_path / "folder.jsonl").mkdir()
    write(tmp_path / "empty.jsonl", [])
    write(tmp_path / "in.jsonl", [ROW])
    return tmp_path


@pytest.mark.parametrize(("words", "said"), WRONG)
def test_a_command_that_cannot_be_run_says_why(here, scorer, fitrag, words, said):
    assert re.search(said, refused(fitrag, words))
    assert not [each for each in here.iterdir() if each.stem == "out"]
    assert scorer.calls == []


METHODS = "answers --method direct"
SIGNAL = "label evaluator bad.jsonl --out out.jsonl --signal"
RECOGNIZER = "train recognizer bad.jsonl --out out"
BILABEL = "train bilabel bad.jsonl --out out"


@pytest.mark.parametrize(
    ("words", "change", "field"),
    [
        ("answers", {"prediction": None}, "prediction"),
        ("answers", {"question": " "}, "question"),
        ("compress", {"excerpts": None}, "as fitrag compress adds it"),
        ("compress", {"excerpts": [3]}, "excerpts[0]"),
        ("compress", {"offsets": "utf16"}, "offsets"),
        ("compress", {"excerpts": [{"passage": 2, "start": 0, "end": 1}]}, "excerpts[0].passage"),
        ("compress", {"excerpts": [{"passage": 0, "start": 0, "end": 99}]}, "excerpts[0].end"),
        ("compress", {"answers": []}, "answers"),
        (METHODS, {"question": " "}, "question"),
        (METHODS, {"answers": None}, "answers"),
        (METHODS, {"answers": [3]}, "answers"),
        (METHODS, {"passages": []}, "passages"),
        ("rerank", {"question": " "}, "question"),
        ("rerank", {"answers": ["", " "], "passages": passages("x")}, "answers"),
        ("rerank", {"answers": "Ann", "passages": passages("x")}, "answers"),
        ("rerank", {"passages": []}, "passages"),
        ("rerank", {"scores": [{"has_answer": 0.5}] * 2}, "scores"),
        ("rerank", {"passages": [{"text": "x", "has_answer": 3}]}, "passages[0].has_answer"),
        ("train reader bad.jsonl --out out", {"question": None}, "question"),
        ("train reader bad.jsonl --out out", {"answers": 3}, "answers"),
        ("train evaluator bad.jsonl --out out", {"passages": None}, "passages"),
        (RECOGNIZER, {}, "known"),
        (BILABEL, {"passages": [{"text": "x", "llm_prefer": 0}]}, "passages[0].has_answer"),
        (BILABEL, {"passages": [{"text": "x", "has_answer": 1}]}, "passages[0].llm_prefer"),
        (BILABEL, {"passages": [{"text": "x", "has_answer": 2, "llm_prefer": 0}]}, "0 or 1"),
        (f"{SIGNAL} title", {"title": None}, "title"),
        (f"{SIGNAL} answer", {"answers": None}, "answers"),
        (f"{SIGNAL} passage", {"passage": None}, "passage"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(here, scorer, fitrag, words, change, field):
    good = ROW | ({"known": True} if words == RECOGNIZER else {})
    bad = {name: value for name, value in (ROW | change).items() if value is not None}
    write(here / "bad.jsonl", [good, bad])
    verb, _, more = words.partition(" ")
    told = refused(fitrag, words if "bad.jsonl" in words else f"evaluate {verb} bad.jsonl {more}")
    assert re.search(r"bad\.jsonl(,|:) row 2", told) and field in told
    assert not [each for each in here.iterdir() if each.stem == "out"]


@pytest.mark.parametrize("words", ["evaluate answers", "evaluate rerank", "evaluate compress"])
def test_a_line_that_is_no_json_is_told_by_its_number(here, fitrag, words):
    (here / "bad.jsonl.gz").write_bytes(gzip.compress(b"{}\nno\n"))
    assert "line 2" in refused(fitrag, f"{words} bad.jsonl.gz")
