"""`fitrag evaluate answers --method`: one table, resumable, counted from traces."""

import json
from functools import partial

import pytest
from command_fakes import Trusted, passages, read, write

from fitrag_integrations.commands.engine import models

ANSWERING = {"answer", "correct", "f1", "retrieved", "notes"}


LLM = ("--llm", "w")


class Writer:
    """Answer with the last word of the prompt's question; fail on part 3."""

    def __init__(self):
        self.calls = []

    def generate(self, prompts):
        self.calls.append(len(prompts))
        return [self.one(prompt) for prompt in prompts]

    def one(self, prompt):
        if "part 3 " in prompt:
            raise RuntimeError("the writer is away")
        return "Ann"


@pytest.fixture
def world(monkeypatch):
    writer = Writer()
    monkeypatch.setattr(models, "load_reader", lambda options: Trusted())
    load = models.load_writer
    monkeypatch.setattr(
        models, "load_writer", lambda name, *how: writer if name == "w" else load(name, *how)
    )
    return writer


@pytest.fixture
def questions(tmp_path):
    rows = [
        {
            "id": i,
            "question": f"who wrote part {i} ?",
            "answers": ["Ann"] if i % 2 else ["Bob", "Rob"],
            "passages": passages(f"Ann wrote part {i} of it.", "Rain falls."),
        }
        for i in range(40)
    ]
    return write(tmp_path / "questions.jsonl", rows)


@pytest.fixture
def compete(tmp_path, world, evaluate):
    start = partial(evaluate, "answers", "--answers", tmp_path / "out.jsonl", "--quiet")

    def run(rows, *arguments, **how):
        return start(rows, "--resamples", 20, *arguments, **how)

    return run


def figures(told):
    """Give the values of each method by name."""
    found = {}
    for row in json.loads(told)["figures"]:
        found.setdefault(row["system"], {})[row["figure"]] = row
    return {name: {each: row["value"] for each, row in own.items()} for name, own in found.items()}


def test_rows_are_answered_judged_and_counted(tmp_path, world, questions, compete):
    told = compete(questions, "--method", "direct, vanilla,selfeval", "--json", *LLM)
    rows = read(tmp_path / "out.jsonl")
    assert [row["method"] for row in rows] == ["direct"] * 40 + ["vanilla"] * 40 + ["selfeval"] * 40
    first, vanilla = rows[0], rows[41]
    assert {k: first[k] for k in ANSWERING} == {
        "answer": "Ann",
        "correct": False,
        "f1": 0.0,
        "retrieved": True,
        "notes": [],
    }
    counted = ("retriever_calls", "llm_calls", "tokens_in", "tokens_out")
    assert [first[k] for k in counted] == [1, 1, 45, 1]
    assert (vanilla["correct"], vanilla["f1"], vanilla["retrieved"]) == (True, 1.0, False)
    assert [vanilla[k] for k in counted] == [0, 1, 9, 1]
    direct, plain, asking = figures(told).values()
    assert json.loads(told)["questions"] == 40
    assert (direct["accuracy"], plain["accuracy"]) == (19 / 40, 19 / 40)
    assert (plain["errors"], plain["noted"], plain["retrieved"]) == (1 / 40, 0.0, 0.0)
    assert (plain["empty"], asking["retrieved"], asking["llm_calls"]) == (1 / 40, 1.0, 2.0)
    assert rows[43]["error"]["message"] == "RuntimeError: the writer is away"


def test_questions_go_through_in_lock_step(world, questions, compete):
    compete(questions, "--method", "genread", *LLM)
    assert world.calls[:2] == [1, 1]  # the question that warms up
    assert world.calls[2] == 32
    assert world.calls.count(8) == 2


def test_a_stopped_run_continues(tmp_path, world, questions, compete):
    compete(questions, "--method", "direct,vanilla", *LLM)
    whole = (tmp_path / "out.jsonl").read_bytes()
    lines = whole.splitlines(keepends=True)
    (tmp_path / "out.jsonl").write_bytes(b"".join(lines[:50]) + lines[50][:20])
    world.calls.clear()
    compete(questions, "--method", "direct,vanilla", *LLM)
    assert world.calls == [1, 30]
    again = (tmp_path / "out.jsonl").read_bytes().splitlines(keepends=True)
    assert again[:50] == lines[:50]
    assert [untimed(line) for line in again] == [untimed(line) for line in lines]
    world.calls.clear()
    told = compete(questions, "--method", "direct,vanilla", "--method", "cot", "--json", *LLM)
    assert list(figures(told)) == ["direct", "vanilla", "cot"]
    assert world.calls[:2] == [1, 32]


def untimed(line):
    return {name: value for name, value in json.loads(line).items() if name != "seconds"}


@pytest.mark.parametrize("arguments", [("--k", 3), ("--method", "fitrag"), ("--limit", 7)])
def test_other_settings_do_not_continue_a_run(questions, compete, arguments):
    compete(questions, "--method", "direct")
    given = arguments if arguments[0] == "--method" else ("--method", "direct", *arguments)
    told = compete(questions, *given, code=2)
    assert "output" in told and "--limit, --method or another option was different" in told
    compete(questions, *given, "--overwrite")


def test_an_index_serves_rows_without_passages(tmp_path, index, questions, compete):
    bare = write(tmp_path / "bare.jsonl", [{"question": "who wrote it ?", "answers": ["Ann"]}])
    assert "passages" in compete(bare, "--method", "direct", code=2)
    told = compete(bare, "--method", "direct", "--index", index.folder, "--json")
    assert figures(told)["direct"]["accuracy"] == 1.0


def test_a_local_model_answers_and_writes(tmp_path, questions, compete):
    from tiny_causal import write_llama

    base = write_llama(tmp_path / "base")
    arguments = ("--method", "direct,itrg", "--limit", 1, "--llm", base, "--json")
    direct, itrg = figures(compete(questions, *arguments)).values()
    assert direct["llm_calls"] == 1.0 and itrg["llm_calls"] > 1.0
    assert (direct["errors"], itrg["errors"]) == (0, 0)
    missing = compete(
        questions, "--method", "direct", "--overwrite", "--llm", str(tmp_path / "none"), code=2
    )
    assert "--llm" in missing or "config.json is missing" in missing


def test_a_worse_retriever_is_made_of_the_rows(world, questions, compete):
    def found(*arguments):
        how = ("--method", "direct", "--json", "--overwrite", *arguments)
        return figures(compete(questions, *how))["direct"]["accuracy"]

    worse = found("--drop-right", 0.5, "--seed", 1)
    assert worse == found("--drop-right", 0.5, "--seed", 1) < found()


def test_a_row_may_lose_its_last_passage(tmp_path, world, compete):
    row = {"question": "who?", "answers": ["Ann"], "passages": passages("Ann wrote it.")}
    compete(write(tmp_path / "one.jsonl", [row]), "--method", "direct", "--drop-right", 1.0)
    (told,) = read(tmp_path / "out.jsonl")
    assert told["answer"] == "" and "error" not in told


def test_answers_that_are_all_errors_end_in_a_failure(
    tmp_path, fitrag, monkeypatch, questions, compete
):
    class Away:
        def read(self, pairs):
            raise RuntimeError("the reader is away")

    monkeypatch.setattr(models, "load_reader", lambda options: Away())
    told = compete(questions, "--method", "direct", "--limit", 3, code=1)
    assert "every answer is an error; 3 x RuntimeError: the reader is away" in told
    code, _, err = fitrag("evaluate", "answers", tmp_path / "out.jsonl")
    assert code == 1 and "the reader is away" in err
