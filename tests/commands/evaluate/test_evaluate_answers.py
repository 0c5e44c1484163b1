"""`fitrag evaluate answers`: files of every shape, one system or two, what is written and told."""

import json
from functools import partial

import pytest
from closed_book import LLM
from command_fakes import write

from fitrag_integrations.evaluation.result import Result


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
    made = Result.read(tmp_path / "out.json")
    assert list(made.figures) == told["figures"]
    assert (made.kind, len(made.per_question)) == ("answers", 6)
    first = made.per_question[0]
    assert (first["prediction"], first["values"]["accuracy"]) == ("Ann 0", 1.0)
    settings = made.settings
    assert (settings["command"], settings["seed"], settings["resamples"]) == (
        "evaluate answers",
        0,
        50,
    )
    assert settings["data"]["rows"] == 6 and len(settings["data"]["hash"]) == 64
    assert "Python" in settings["machine"]
    again = json.loads(tell(source, "--json"))
    assert again == told


def test_two_files_are_paired(tmp_path, tell):
    one = write(tmp_path / "old.jsonl", rows({0}))
    two = write(tmp_path / "new.jsonl", rows({0, 1, 2, 3, 4, 5})[::-1])
    table = tell(one, two, "--plot", tmp_path / "two.svg")
    assert "old" in table and "McNemar's p" in table
    assert (tmp_path / "two.svg").stat().st_size > 1000
    told = json.loads(tell(one, two, "--json"))
    assert figure(told, "accuracy", system="new")["difference"] == pytest.approx(5 / 6)
    assert figure(told, "accuracy", system="new")["p"] == pytest.approx(2 / 2**5)


def test_other_questions_need_to_be_left_out_on_purpose(tmp_path, tell):
    one = write(tmp_path / "a.jsonl", rows({0}))
    two = write(tmp_path / "b.jsonl", rows({0})[2:])
    assert "--common" in tell(one, two, code=2)
    told = json.loads(tell(one, two, "--common", "--json"))
    assert (told["questions"], "2 answers" in told["notes"][0]) == (8, True)


def test_methods_in_one_file_are_systems(tmp_path, tell):
    both = [*rows({0}, method="direct"), *rows({0, 1}, method="crag")]
    told = json.loads(tell(write(tmp_path / "m.jsonl", both), "--json"))
    assert figure(told, "EM", system="crag")["difference"] == pytest.approx(1 / 6)


def test_a_published_run_and_its_gold(tmp_path, tell):
    run = {"preds": ["Ulm", "Elba"], "prompts": ["where?", "which island?"], "golds": []}
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run), encoding="utf-8")
    assert "answers" in tell(path, code=2)
    gold = write(
        tmp_path / "nq.jsonl",
        [
            {"question": "Which island", "answer": ["Mainau"]},
            {"question": "Where", "answer": ["Ulm"]},
        ],
    )
    told = json.loads(tell(path, "--gold", gold, "--json"))
    assert figure(told, "accuracy")["value"] == 0.5
    assert "selfrag" in tell(path, "--gold", gold, "--format", "nothing", code=2)


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


def test_facts_are_measured_and_written_for_others(tmp_path, evaluate):
    texts = [
        {"topic": "Ilse", "output": "Ilse is a painter. She sings.", "ctxs": [{"text": "Ilse."}]},
        {"topic": "Klara", "output": "", "ctxs": []},
    ]
    source = write(tmp_path / "bio.jsonl", texts)
    out, export = tmp_path / "out.jsonl", tmp_path / "export.jsonl"
    found = json.loads(
        evaluate("facts", source, "--out", out, "--export", export, "--judge", LLM, "--json")
    )
    assert found["texts"] == 2 and found["answered"] == 0.5
    exported = [json.loads(line) for line in export.read_text().splitlines()]
    assert exported[0] == {"topic": "Ilse", "output": "Ilse is a painter. She sings."}
    values = [json.loads(line)["values"] for line in out.read_text().splitlines()]
    assert values[1] == {"answered": 0.0} and 0 <= values[0]["supported"] <= 1
