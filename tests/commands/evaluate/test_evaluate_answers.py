"""`fitrag evaluate answers`: files of every shape, one system or two, what is written and told."""

import json
from functools import partial

import pytest
from closed_book import LLM
from command_fakes import write


def rows(right, **others):
    return [
        {
            "question": f"who wrote part {i}?",
            "answers": [f"Ann {i}"],
            "prediction": f"Ann {i}" if i in right else "Bob",
            **others,
        }
        for i in range(6)
    ]


@pytest.fixture
def tell(evaluate):
    return partial(evaluate, "answers", "--resamples", 50)


def figure(told, name, **labels):
    (found,) = [r for r in told["figures"] if {"figure": name, **labels}.items() <= r.items()]
    return found


def test_one_file_gives_a_table_and_everything_in_json(tmp_path, tell):
    source = write(tmp_path / "run.jsonl.gz", rows({0, 1, 2}))
    table = tell(source)
    assert "6 answers" in table and "accuracy" in table and "0.500" in table
    assert "to the first" not in table
    told = json.loads(tell(source, "--json", "--out", tmp_path / "out.json"))
    assert (told["questions"], figure(told, "EM")["value"]) == (6, 0.5)
    made = json.loads((tmp_path / "out.json").read_text())
    assert made["figures"] == told["figures"] and len(made["questions"]) == 6
    first = made["questions"][0]
    assert (first["shown"]["prediction"], first["values"]["accuracy"]) == ("Ann 0", 1.0)
    assert len(made["settings"]["data"]["hash"]) == 64
    assert json.loads(tell(source, "--json"))["figures"] == told["figures"]


def test_two_files_are_paired(tmp_path, tell):
    one = write(tmp_path / "old.jsonl", rows({0}))
    two = write(tmp_path / "new.jsonl", rows({0, 1, 2, 3, 4, 5})[::-1])
    table = tell(one, two, "--out", tmp_path / "two.html")
    assert "old" in table and "McNemar's p" in table
    assert "who wrote part 5?" in (tmp_path / "two.html").read_text()
    told = json.loads(tell(one, two, "--json"))
    assert figure(told, "accuracy", system="new")["difference"] == pytest.approx(5 / 6)
    assert figure(told, "accuracy", system="new")["p"] == pytest.approx(2 / 2**5)


def test_other_questions_need_to_be_left_out_on_purpose(tmp_path, tell):
    one = write(tmp_path / "a.jsonl", rows({0}))
    two = write(tmp_path / "b.jsonl", rows({0})[2:])
    assert "--common" in tell(one, two, code=2)
    told = json.loads(tell(one, two, "--common", "--json"))
    assert (told["questions"], "2 answers" in told["notes"][0]) == (4, True)


def test_methods_in_one_file_are_systems(tmp_path, tell):
    both = [*rows({0}, method="direct"), *rows({0, 1}, method="crag")]
    told = json.loads(tell(write(tmp_path / "m.jsonl", both), "--json"))
    assert figure(told, "EM", system="crag")["difference"] == pytest.approx(1 / 6)


def test_gold_of_another_file_and_published(tmp_path, tell):
    said = [{"question": "where?", "answer": "Ulm"}, {"question": "which island?", "answer": ""}]
    path = write(tmp_path / "run.jsonl", said)
    assert "answers" in tell(path, code=2)
    golden = [("Which island", ["Mainau"]), ("Where", ["Ulm"])]
    gold = [{"question": question, "answer": answers} for question, answers in golden]
    gold = write(tmp_path / "nq.jsonl", gold)
    told = json.loads(tell(path, "--gold", gold, "--json"))
    assert (figure(told, "accuracy")["value"], figure(told, "empty")["value"]) == (0.5, 0.5)
    assert "hotpotqa" in tell(path, "--gold", gold, "--format", "nothing", code=2)


def test_prices_add_what_a_thousand_questions_cost(tmp_path, tell):
    source = write(tmp_path / "run.jsonl", rows({0}, tokens_in=1000, tokens_out=100))
    told = json.loads(tell(source, "--price-in", 0.5, "--price-out", 2, "--json"))
    assert figure(told, "cost of a thousand questions")["value"] == pytest.approx(0.5 + 0.2)
    bare = write(tmp_path / "bare.jsonl", rows({0}))
    assert "tokens_in" in tell(bare, "--price-in", 1, code=2)


def test_a_judge_reads_the_answers(tmp_path, tell):
    source = write(
        tmp_path / "run.jsonl", [{"question": "?", "answers": ["a b"], "prediction": " "}]
    )
    told = json.loads(tell(source, "--judge", LLM, "--apart", "--json"))
    assert figure(told, "LLM judge")["value"] == 0.0 and figure(told, "STR-EM")["value"] == 0.0
    said = write(tmp_path / "said.jsonl", rows({0, 1}))
    judged = figure(json.loads(tell(said, "--judge", LLM, "--json")), "LLM judge")
    assert 0 < judged["value"] < 1 and judged["questions"] == 6
