"""Published shapes: what each becomes, how it is recognized, and what is said of another."""

import gzip
import json
import sys
import types
from pathlib import Path

import pytest

from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.loaders import FORMATS, convert, read_questions, read_records

# two rows of our own in each published shape, as files of those names hold them
ROWS = json.loads(Path(__file__).with_name("published.json").read_text(encoding="utf-8"))
published = types.SimpleNamespace(**ROWS)
SHAPES = {
    "nq": ("nq", published.NQ),
    "triviaqa": ("triviaqa", published.TRIVIA),
    "triviaqa, own": ("triviaqa", published.TRIVIA_OWN["Data"]),
    "popqa": ("popqa", published.POPQA),
    "hotpotqa": ("hotpotqa", published.HOTPOT),
    "hotpotqa, hub": ("hotpotqa", published.HOTPOT_HUB),
    "2wiki": ("2wiki", published.WIKI),
    "2wiki, texts": ("2wiki", published.WIKI_TEXTS),
    "2wiki, content": ("2wiki", published.WIKI_CONTENT),
    "musique": ("musique", published.MUSIQUE),
    "asqa": ("asqa", list(published.ASQA["dev"].values())),
    "pubhealth": ("pubhealth", published.PUBHEALTH),
    "arc": ("arc", published.ARC),
    "arc, own": ("arc", published.ARC_OWN),
    "selfrag": ("selfrag", published.SELFRAG),
    "selfrag, long": ("selfrag", published.SELFRAG_LONG["data"]),
    "bergen": ("bergen", published.BERGEN),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_is_recognized_and_becomes_questions_and_answers(name):
    shape, rows = SHAPES[name]
    before = json.dumps(rows)
    found = convert(rows)
    assert found.format == shape
    assert shape in FORMATS
    assert all(row["question"] and row["answers"] for row in found.rows)
    assert convert(rows, shape).rows == found.rows or "own" in name
    assert json.dumps(rows) == before


def test_answers_are_all_that_count_as_right():
    assert convert(published.NQ).rows[0]["answers"] == ["the Danube", "Danube"]
    trivia, other = convert(published.TRIVIA).rows
    assert trivia["answers"] == ["Iller", "River Iller", "iller", "river iller"]
    assert trivia["passages"] == [{"title": "Iller", "text": "".join(published.SPRING)}]
    assert (other["id"], other["answers"], len(other["passages"])) == (
        "t_2",
        ["Mainau", "mainau"],
        1,
    )
    own = convert(published.TRIVIA_OWN["Data"]).rows[0]
    assert (own["question"], own["answers"]) == (trivia["question"], trivia["answers"])
    assert convert(published.POPQA).rows[1]["answers"] == ["Lake Constance", "Bodensee"]
    listed = [{**published.POPQA[0], "possible_answers": ["Danube"]}]
    assert convert(listed).rows[0]["answers"] == ["Danube"]


def test_paragraphs_say_whether_they_are_evidence():
    for rows in (published.HOTPOT, published.HOTPOT_HUB, published.WIKI, published.WIKI_TEXTS):
        first, second = convert(rows).rows
        assert first["passages"] == [
            {
                "title": "Iller",
                "text": "The Iller rises in the Allgäu. It meets the Danube at Ulm.",
                "is_supporting": 1,
            },
            {
                "title": "Lake Constance",
                "text": "Lake Constance drains into the Rhine. Its island is Mainau.",
                "is_supporting": 0,
            },
        ]
        assert (first["id"], second["answers"]) == ("h1", ["no"])
    hops = convert(published.MUSIQUE).rows
    assert [p["is_supporting"] for row in hops for p in row["passages"]] == [1, 0, 0, 1]
    assert hops[0]["answers"] == ["Ulm", "Ulm on the Danube"]


def test_readings_and_choices_are_kept():
    river, island = convert(list(published.ASQA["dev"].values())).rows
    assert river["answer_groups"] == [["Ulm", "the Danube"], ["the Rhine"]]
    assert river["answers"] == ["Ulm", "the Danube", "the Rhine"]
    assert island["answer_groups"] == [["Mainau"]]
    assert river["long_answers"] == ["The Iller ends in the Danube."]
    written = [{"long_answer": "It ends at Ulm. "}, {"long_answer": ""}, {}]
    (again,) = convert([{**published.ASQA["dev"]["-101"], "annotations": written}]).rows
    assert again["long_answers"] == ["It ends at Ulm."]
    for rows in (published.ARC, published.ARC_OWN):
        first, second = convert(rows).rows
        assert (first["answers"], second["answers"]) == (["gravity"], ["solid water"])
        assert first["choices"][1] == {"label": "B", "text": "the moon"}
        assert first["question"] == "What moves a river?"


def test_a_claim_that_nobody_judged_is_left_out_and_told():
    found = convert(published.PUBHEALTH)
    assert [row["answers"] for row in found.rows] == [["unproven"], ["true"]]
    assert found.rows[0]["passages"] == [{"title": "", "text": "A pamphlet says so."}]
    assert found.notes == ("1 of 3 rows have no label and are left out",)
    with pytest.raises(InputError, match="labelled rows"):
        convert(published.PUBHEALTH[2:])


def test_runs_of_others_bring_predictions():
    right, wrong = convert(published.SELFRAG).rows
    assert (right["prediction"], wrong["prediction"]) == ("Ulm", "Elba")
    assert right["passages"][0]["title"] == "Iller"
    assert convert(published.BERGEN).rows[0] == {
        "id": "b1",
        "question": "Where does the Iller end?",
        "answers": ["Ulm"],
        "prediction": "It ends at Ulm.",
    }
    (long,) = convert(published.SELFRAG_LONG["data"]).rows
    assert long["answer_groups"] == [["Ulm", "the Danube"], ["the Rhine"]]
    (claim,) = convert([{"claim": "It is wet.", "answers": ["true"], "output": "SUPPORTS"}]).rows
    assert claim["prediction"] == "true"


def test_rows_of_ours_stay_as_they_are():
    row = {"question": "who?", "answers": ["Ann"], "answer": "Bob", "docs": 3, "passages": []}
    assert convert([row]).rows == [row]


def files(tmp_path):
    lines = "".join(f"{json.dumps(row)}\n" for row in published.NQ)
    head = list(published.POPQA[0])
    table = ["\t".join(head)] + ["\t".join(str(row[h]) for h in head) for row in published.POPQA]
    texts = {
        "nq.jsonl": (lines, 2),
        "nq.jsonl.gz": (lines, 2),
        "hotpot.json": (json.dumps(published.HOTPOT), 2),
        "asqa.json": (json.dumps(published.ASQA), 2),
        "trivia.json.gz": (json.dumps(published.TRIVIA_OWN), 2),
        "run.json": (json.dumps(published.SELFRAG_LISTS), 2),
        "long.json": (json.dumps(published.SELFRAG_LONG), 1),
        "pop.tsv": ("\n".join(table), 2),
        "bom.jsonl": ("\ufeff" + lines, 2),
    }
    for name, (text, count) in texts.items():
        data = text.encode()
        path = tmp_path / name
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        yield path, count


def test_files_are_read_as_they_are_published(tmp_path):
    for path, count in files(tmp_path):
        assert len(read_questions(str(path)).rows) == count, path
    assert read_questions(str(tmp_path / "asqa.json")).rows[0]["id"] == "-101"
    run = read_questions(str(tmp_path / "run.json")).rows
    assert [(row["question"], row["answers"], row["prediction"]) for row in run] == [
        ("Where does the Iller end?", ["Ulm"], "Ulm"),
        ("Which island?", ["Mainau"], "Elba"),
    ]


def test_a_split_is_chosen_by_name(tmp_path):
    path = tmp_path / "asqa.json"
    path.write_text(json.dumps({**published.ASQA, "train": {}}), encoding="utf-8")
    with pytest.raises(InputError, match="--split` must be .*one of dev, train"):
        read_records(str(path))
    assert len(read_records(str(path), split="dev")) == 2
    with pytest.raises(InputError, match="one of dev, train"):
        read_records(str(path), split="test")


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("a.jsonl", b'{"question": "who?"}\n', "fields question"),
        ("a.jsonl", b'{"q": "who?", "gold": "Ann"}\n', "fields q, gold, allowed"),
        ("a.jsonl", b'{"question": "a?", "answers": ["b"]}\n{"cut', "line 2"),
        ("a.jsonl", b"[1]\n", "line 1: `row`"),
        ("a.jsonl", b"", "at least one row"),
        ("a.jsonl.gz", b"no gzip", "whole gzip file"),
        ("a.json", b"{", "JSON"),
        ("a.json", b"[3]", "an object"),
        ("a.csv", b"a,b\n", ".jsonl, .json, .tsv"),
        ("a.jsonl", b'{"question": "\xff"}', "utf-8"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_file(tmp_path, name, data, told):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError) as raised:
        read_questions(str(tmp_path / name))
    assert told in str(raised.value) and name in str(raised.value)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([published.NQ[0], {"question": "b?", "answer": []}], "row 2: `answer`"),
        ([published.NQ[0], published.HOTPOT[0] | {"question": " "}], "row 2: `question`"),
        ([published.POPQA[0] | {"possible_answers": "[oops"}], "row 1: `possible_answers`"),
        ([published.ARC[0] | {"answerKey": "D"}], "row 1: `answerKey`.*one of A, B, C"),
        ([published.ARC[0] | {"choices": {"text": ["a"], "label": []}}], "lists of one length"),
        ([published.HOTPOT[0] | {"context": [["Iller"]]}], "a title and what goes with it"),
        ([published.PUBHEALTH[0] | {"label": "maybe"}], "false, mixture, true, unproven"),
        ([published.ASQA["dev"]["-102"] | {"qa_pairs": []}], "at least one reading"),
    ],
)
def test_a_row_that_is_not_as_published_is_told_by_its_number(rows, told):
    with pytest.raises(InputError, match=told):
        convert(rows)


def test_an_unknown_format_names_the_known_ones():
    with pytest.raises(InputError, match="auto, bergen, biography, kilt, dpr, selfrag"):
        convert(published.NQ, "squad")
    with pytest.raises(InputError, match=r"a file that is there, or hf:NAME:SPLIT"):
        read_records("nq_open")


def test_the_hub_is_asked_for_name_config_and_split(monkeypatch):
    asked = []

    def load_dataset(*names, split):
        asked.append((*names, split))
        if split == "lost":
            raise ValueError('Unknown split "lost"')
        return published.NQ

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    assert len(read_questions("hf:nq_open:validation").rows) == 2
    read_questions("hf:mandarjoshi/trivia_qa:rc:validation", "nq")
    assert asked == [("nq_open", "validation"), ("mandarjoshi/trivia_qa", "rc", "validation")]
    with pytest.raises(InputError, match="Unknown split"):
        read_records("hf:nq_open:lost")
    for name in ("hf:nq_open", "hf::x", "hf:a:b:c:d", "hf:a:"):
        with pytest.raises(InputError, match="hf:NAME:SPLIT"):
            read_records(name)


def test_one_wikipedia_is_asked_in_three_shapes():
    found = convert(published.KILT)
    river, verdict = found.rows
    assert (found.format, river["answers"]) == ("kilt", ["Danube", "the Danube"])
    assert river["title"] == ["Iller", "Danube"] and "title" not in verdict
    assert verdict["answers"] == ["REFUTES"]
    with pytest.raises(InputError, match=r"row 1: `output` .*at least one answer"):
        convert([{"id": "t", "input": "where", "output": []}])
    found = convert(published.DPR)
    assert found.format == "dpr"
    labels = [(each["title"], each["is_supporting"]) for each in found.rows[0]["passages"]]
    assert labels == [("Iller", 1), ("Lake Constance", 0)]


def test_a_biography_has_a_topic_and_no_gold_answer():
    painter, other = convert(published.BIOGRAPHY).rows
    assert (painter["topic"], painter["answers"]) == ("Ilse Marbach", [])
    assert painter["passages"][0]["title"] == "Ilse Marbach"
    assert painter["prediction"].startswith("Ilse Marbach is")
    assert (other["question"], other["prediction"]) == ("Tell me a bio of Klara Marbach.", "")
