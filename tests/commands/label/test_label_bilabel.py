"""`fitrag label bilabel` over a server that answers from a table: bad rows, budgets, and kills."""

import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest
from chat_server import serving
from command_fakes import FirstWord, read, write

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.label import llms
from fitrag_integrations.values.prompt import check_shots


@pytest.fixture
def server():
    """Answer with the passage's second word; count what was asked, and fail where told to."""
    asked, replies, lock = Counter(), {}, threading.Lock()

    def reply(body, headers):
        prompt = body["messages"][0]["content"]
        passage = prompt.partition("Passage: ")[2].partition("\n\nQuestion")[0]
        with lock:
            asked[prompt] += 1
        time.sleep(made.pause)
        told = next((t for mark, t in replies.items() if mark in passage), None)
        status, message = (200, passage.split()[1]) if told is None else told
        choice = {"message": {"role": "assistant", "content": message}}
        usage = {"prompt_tokens": 10, "completion_tokens": 1}
        return status, {"choices": [choice], "usage": usage}

    with serving(reply) as made:
        made.asked, made.replies, made.pause = asked, replies, 0.0
        yield made


def row(i, count=4):
    passages = [{"title": "", "text": f"In Rome{i if j % 2 else j} part {j}"} for j in range(count)]
    return {
        "id": i,
        "question": f"where is part {i}?",
        "answers": [f"Rome{i}"],
        "passages": passages,
    }


@pytest.fixture
def label(fitrag, server, tmp_path):
    """Run the verb on rows; gives the exit code, standard error and the rows written."""

    def run(rows, *more, out="out.jsonl"):
        asking = ("--llm", "table", "--url", server.url, "--retries", 0)
        source, target = write(tmp_path / "rows.jsonl", rows), tmp_path / out
        code, _, err = fitrag("label", "bilabel", source, "--out", target, *asking, *more)
        return code, err, read(target) if target.exists() else None

    return run


def test_labels_stand_in_the_passages(label, server):
    code, err, (found,) = label([row(1)])
    assert code == 0 and found["id"] == 1 and found["llm"] == "table"
    assert found["passages"][1] == {
        **{"title": "", "text": "In Rome1 part 1"},
        **{"has_answer": 1, "llm_prefer": 1, "answer": "Rome1"},
    }
    assert [p["llm_prefer"] for p in found["passages"]] == [0, 1, 0, 1]
    assert "1 questions, 4 pairs: has_answer=1 llm_prefer=1: 2 (50.0%)" in err
    assert "4 asked, 0 failed, 40 tokens read, 4 written" in err
    assert set(server.asked.values()) == {1}


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ((500, "broken"), "error"),
        ((200, ""), "empty"),
        ((200, None), "empty"),
        ((200, "I'm sorry, but I cannot assist with that."), "refusal"),
    ],
)
def test_no_answer_is_never_a_zero(label, server, tmp_path, reply, kind):
    server.replies["Rome1 part 3"] = reply
    code, err, (found,) = label([row(1)])
    assert [p["llm_prefer"] for p in found["passages"]] == [0, 1, 0, None]
    assert found["passages"][3]["llm_error"].startswith(f"{kind}: ")
    assert code == 0 and f"not answered: {kind} 1" in err and "1 failed" in err
    server.replies.clear()
    (tmp_path / "out.jsonl").unlink()
    _, err, (found,) = label([row(1)])
    assert [p["llm_prefer"] for p in found["passages"]] == [0, 1, 0, 1]
    assert "1 asked, 0 failed" in err  # the others were in the journal


def test_bad_rows_are_told_and_the_others_go_on(label):
    bad = [
        {**row(0), "answers": []},
        {**row(0), "answers": ["Rome", "x"]},
        {**row(0), "answers": [""]},
        {**row(0), "passages": []},
        {"answers": ["Rome"], "passages": row(0)["passages"]},
    ]
    code, err, found = label([*bad, row(1)])
    assert code == 1 and "5 error rows" in err
    fields = [one["error"]["field"] for one in found[:5]]
    assert fields == ["answers", "answers[1]", "answers[0]", "passages", "question"]
    assert "error" not in found[5]


def test_regular_expressions(label):
    given = {**row(1), "answers": [r"rome\d"]}
    _, _, (found,) = label([given], "--patterns")
    assert [p["has_answer"] for p in found["passages"]] == [1, 1, 1, 1]
    code, err, _ = label([given])
    assert code == 2 and "--patterns" in err and "out.jsonl was begun" in err


def test_rows_without_answers_but_with_the_passage(label, server):
    given = {**row(1), "answers": [], "passage": row(1)["passages"][2]}
    _, _, (found,) = label([given], "--unanswered")
    assert [p["has_answer"] for p in found["passages"]] == [0, 0, 1, 0]
    assert {p["llm_prefer"] for p in found["passages"]} == {None}
    assert not server.asked and "passage" not in found


def test_another_plan_or_input_is_refused_by_name(label, tmp_path):
    label([row(1)])
    before = (tmp_path / "out.jsonl").read_bytes()
    code, err, _ = label([row(1)], "--depth", 3)
    assert code == 2 and "--depth` must be 50, with which" in err
    code, err, _ = label([row(2)])
    assert code == 2 and "row 1 is not that of the input" in err
    assert (tmp_path / "out.jsonl").read_bytes() == before
    (tmp_path / "out.jsonl.asked").unlink()
    code, err, _ = label([row(1)])
    assert code == 2 and "with out.jsonl.asked beside it" in err
    assert label([row(2)], "--overwrite", "--depth", 3)[2][0]["id"] == 2


def test_a_plan_that_came_to_nothing_binds_nobody(label, tmp_path):
    prompt = tmp_path / "prompt.txt"
    code, err, _ = label([row(1)], "--prompt", prompt)
    assert code == 2 and "File of --prompt not found" in err
    prompt.write_text("Only {question}?")
    code, err, found = label([row(1)], "--prompt", prompt)
    assert code == 2 and "a text with {question} and {passage}" in err and found is None
    prompt.write_text("Passage: {passage}\n\nQuestion: {question}")
    assert label([row(1)], "--prompt", prompt)[2][0]["passages"][1]["llm_prefer"] == 1


def test_a_budget_stops_and_more_of_it_goes_on(label, server):
    rows = [row(i) for i in range(6)]
    prices = ("--price-in", 1e5, "--price-out", 0, "--concurrency", 1)  # a prompt costs 1
    code, err, found = label(rows, *prices, "--max-cost", 10)
    assert code == 1 and "stopped: another prompt could exceed" in err
    assert len(found) < 3 and sum(server.asked.values()) <= 10
    _, _, found = label(rows, *prices, "--max-cost", 100)
    assert len(found) == 6 and set(server.asked.values()) == {1}
    code, err, _ = label(rows, "--max-cost", 5)
    assert code == 2 and "--price-in" in err


def test_so_many_questions_and_then_more(label, server):
    rows = [row(i) for i in range(6)]
    assert len(label(rows, "--limit", 2)[2]) == 2
    assert len(label(rows, "--limit", 5)[2]) == 5
    assert set(server.asked.values()) == {1}


def test_a_dead_model_stops_the_run(label, server, tmp_path):
    server.replies["Rome"] = (401, "no")
    rows = [row(i) for i in range(40)]
    _, err, found = label(rows, "--max-failures", 10, "--concurrency", 2)
    assert "stopped: 10 failures in a row" in err and sum(server.asked.values()) < 20
    server.replies.clear()
    (tmp_path / "out.jsonl").unlink()
    found = label(rows)[2]
    assert len(found) == 40 and all(
        p["llm_prefer"] is not None for r in found for p in r["passages"]
    )


def test_candidates_come_from_a_pool(label, tmp_path):
    pytest.importorskip("bm25s")
    passages = [{"title": "", "text": f"In Rome{i} stands bridge {name}"} for i, name in NAMES]
    pool = write(tmp_path / "pool.jsonl", passages)
    rows = [{"question": f"bridge {name}", "answers": [f"Rome{i}"]} for i, name in NAMES]
    _, _, found = label(rows, "--pool", pool, "--depth", 2)
    assert [len(one["passages"]) for one in found] == [2, 2, 2]
    assert [one["passages"][0]["has_answer"] for one in found] == [1, 1, 1]


NAMES = list(enumerate(["alpha", "beta", "gamma"]))


def test_the_embedded_reader_is_the_default(fitrag, monkeypatch, tmp_path):
    monkeypatch.setattr(models, "load_reader", lambda given: FirstWord())
    source, out = write(tmp_path / "rows.jsonl", [row(1)]), tmp_path / "out.jsonl"
    code, told, _ = fitrag("label", "bilabel", source, "--out", out, "--json")
    (found,) = read(out)
    assert code == 0 and [p["llm_prefer"] for p in found["passages"]] == [0, 0, 0, 0]
    assert json.loads(told)["groups"]["1,0"] == 2 and found["passages"][0]["reader_score"]


class Mute:
    """A local model, which writes nothing about part 1."""

    name, is_greedy = "mute", True
    calls = 0

    def generate(self, prompts):
        self.calls += len(prompts)
        return ["" if "part 1\n" in prompt else "Rome1" for prompt in prompts]


def test_an_empty_reply_of_a_local_model_is_a_wrong_answer(fitrag, monkeypatch, tmp_path):
    llm = Mute()
    monkeypatch.setattr(llms.models, "load_llm", lambda *given, **options: llm)
    source, out = write(tmp_path / "rows.jsonl", [row(1)]), tmp_path / "out.jsonl"
    code, _, err = fitrag("label", "bilabel", source, "--out", out, "--llm", "mute")
    (found,) = read(out)
    assert [p["llm_prefer"] for p in found["passages"]] == [1, 0, 1, 1]
    assert found["passages"][1]["answer"] == "" and code == 0 and llm.calls == 4
    assert "4 asked, 0 failed" in err


def test_examples_stand_before_each_question(fitrag, monkeypatch, tmp_path):
    llm = Mute()
    shown = {"title": "Tirva", "text": "Ilse Marbach built it."}
    llm.shots = check_shots(
        "shots", [{"question": "Who built it?", "answer": "Ilse Marbach", "passages": [shown]}]
    )
    llm.prompts, reply = [], llm.generate
    llm.generate = lambda prompts: llm.prompts.extend(prompts) or reply(prompts)
    monkeypatch.setattr(llms.models, "load_llm", lambda *given, **options: llm)
    source, out = write(tmp_path / "rows.jsonl", [row(1, 1)]), tmp_path / "out.jsonl"
    assert fitrag("label", "bilabel", source, "--out", out, "--llm", "mute")[0] == 0
    (prompt,) = llm.prompts
    task, *blocks = prompt.split("Passage: ")
    assert task == "Refer to the passage below and answer the question in a few words.\n\n"
    assert blocks == [
        "Tirva\nIlse Marbach built it.\n\nQuestion: Who built it?\nAnswer: Ilse Marbach\n\n",
        "In Rome0 part 0\n\nQuestion: where is part 1?\nAnswer:",
    ]


LAUNCH = """
import json, os, random, signal, sys, time
import httpx, tenacity
from fitrag_integrations.cli import main
import fitrag_integrations.commands.label.passages

arguments, files, total, seed = json.loads(sys.argv[1])
chance = random.Random(seed)

def size():
    return sum(os.path.getsize(name) for name in files if os.path.exists(name))

killed = done = 0
while not done:
    child = os.fork()
    if not child:
        main(arguments)
    until = size() + chance.uniform(0, total / 20) if killed < 8 else float("inf")
    moment = chance.choice([0, 0, 0.001, 0.003])
    while not (done := os.waitpid(child, os.WNOHANG)[0]) and size() < until:
        time.sleep(0.0005)
    time.sleep(moment)
    if not done:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        killed += 1
print(killed)
"""


def test_killed_eight_times_the_file_is_that_of_an_undisturbed_run(server, tmp_path, fitrag):
    chance = random.Random(7)
    rows = [row(i, chance.randint(1, 6)) for i in range(30)]
    rows[9]["answers"] = []
    server.replies["Rome3 part"] = (200, "")
    source = write(tmp_path / "rows.jsonl", rows)

    def arguments(out):
        asking = ["--llm", "table", "--url", server.url, "--retries", "0", "--quiet"]
        return ["label", "bilabel", str(source), "--out", str(out), "--concurrency", "4", *asking]

    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    assert fitrag(*arguments(whole))[0] == 1  # a row without answers
    asked = Counter(server.asked)
    files = [str(out), f"{out}.asked"]
    total = whole.stat().st_size + (tmp_path / "whole.jsonl.asked").stat().st_size
    given = json.dumps([arguments(out), files, total, 11])
    done = subprocess.run([sys.executable, "-c", LAUNCH, given], capture_output=True, text=True)
    assert done.stdout.strip() == "8", (done.stdout, done.stderr)
    assert out.read_bytes() == whole.read_bytes() and len(read(out)) == 30
    answers = read(tmp_path / "out.jsonl.asked")[1:]
    prompts = Counter(entry["prompt"] for entry in answers if "prompt" in entry)
    assert prompts and set(prompts.values()) == {1}  # what was answered was not asked again
    again = server.asked - asked - asked
    assert sum(again.values()) <= 8 * 8  # what was under way as it was killed


def test_a_run_that_is_asked_to_stop_sends_no_more_and_says_what_is_kept(server, tmp_path, fitrag):
    server.pause = 0.1
    source, out = (
        write(tmp_path / "rows.jsonl", [row(i, 40) for i in range(3)]),
        tmp_path / "o.jsonl",
    )
    asking = ["--llm", "table", "--url", server.url, "--concurrency", "2"]
    arguments = ["label", "bilabel", str(source), "--out", str(out), *asking]
    run = "import sys; from fitrag_integrations.cli import main; main(sys.argv[1:])"
    child = subprocess.Popen([sys.executable, "-c", run, *arguments], stderr=-1, text=True)
    while server.asked.total() < 6 and child.poll() is None:
        time.sleep(0.01)
    child.terminate()
    _, err = child.communicate(timeout=60)
    kept = sum("prompt" in entry for entry in read(tmp_path / "o.jsonl.asked"))
    assert child.returncode == 143 and 5 <= kept == server.asked.total() < 20
    assert f"stopped: asked to stop; 0 rows and {kept} answers are kept" in err
    at_once, _, _ = err.partition("stopped:")
    assert "waits for the batch under way; 0 rows and " in at_once and "written" in at_once
    server.pause = 0.0
    assert fitrag(*arguments)[0] == 0
    assert len(read(out)) == 3 and set(server.asked.values()) == {1}
