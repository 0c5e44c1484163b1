"""`fitrag answer --method`: any method, by name or from a file."""

import pytest
from command_fakes import Trusted, passages, read, write

from fitrag_integrations.commands.engine import models

ROW = {
    "id": 7,
    "question": "who wrote it ?",
    "passages": passages("Ann wrote it in spring.", "Rain falls.", "Bob read it."),
}


FAR = {"title": "Tirva", "text": "Mould grows on cheese in cool cellars."}
LLM = ("--llm", "a-writer")


class Writer:
    def generate(self, prompts):
        return [f"Written for {len(prompt.split())} words." for prompt in prompts]


@pytest.fixture
def one(tmp_path, monkeypatch, fitrag):
    monkeypatch.setattr(models, "load_reader", lambda options: Trusted())
    monkeypatch.setattr(models, "load_writer", lambda *how: Writer())

    def run(*arguments, row=ROW, code=0):
        source = write(tmp_path / "in.jsonl", [row])
        done = fitrag("answer", source, tmp_path / "out.jsonl", "--overwrite", *arguments)
        assert done[0] == code, done
        return done[2] if code == 2 else read(tmp_path / "out.jsonl")[0]

    return run


def test_a_method_by_name(one):
    got = one("--method", "direct")
    assert {name: got[name] for name in ROW} == ROW
    assert [excerpt["passage"] for excerpt in got["context"]] == [0, 1, 2]
    assert got["answer"] == "Ann"
    assert "Question: who wrote it ?" in got["prompt"]
    trace = got["trace"]
    assert trace["method"] == "direct"
    assert [step["port"] for step in trace["steps"]] == ["retrieve", "read"]
    assert trace["source"]["passage"] == 0


def test_a_method_that_writes_its_own_answer_keeps_it(one):
    got = one("--method", "genread", *LLM)
    assert got["answer"].startswith("Written for ")
    assert [step["port"] for step in got["trace"]["steps"]] == ["generate", "generate"]
    assert got["trace"]["draft"] == got["answer"]
    assert got["context"][0]["passage"] is None


def test_a_method_that_never_retrieves_needs_no_passages(one, fitrag):
    got = one("--method", "vanilla", *LLM, row={"question": "who wrote it ?"})
    assert got["answer"].startswith("Written for ") and got["context"] == []
    code, told, _ = fitrag("answer", "who wrote it ?", "--method", "CoT", *LLM)
    assert code == 0 and "nothing was retrieved" in told
    code, _, told = fitrag("answer", "who wrote it ?", "--method", "direct", *LLM)
    assert code == 2 and "`--index` must be an index" in told


def test_options_that_were_given_are_the_methods_fields(one):
    assert one("--method", "itrg", *LLM)["trace"]["details"]["mode"] == "refine"
    told = one("--method", "direct", "--top-n", 1, code=2)
    assert "top_n` must be k" in told
    told = one("--method", "itrg", *LLM, "--tokenizer", "approximate")
    assert told["trace"]["method"] == "itrg"


@pytest.mark.parametrize("method", ["genread", "itrg", "iknow", "slimplm"])
def test_a_method_that_writes_says_that_it_needs_the_llm(one, method):
    assert "`--llm`" in one("--method", method, code=1)["error"]["message"]


def test_crag_searches_what_stands_for_the_web(one, tmp_path):
    pages = [{"title": "Corran", "text": "The ferry to Corran Head leaves at noon."}, FAR]
    web = write(tmp_path / "web.jsonl", pages)
    row = {"question": "When does the ferry to Corran Head leave?", "passages": [FAR]}
    got = one("--method", "crag", "--web", web, row=row)
    assert got["trace"]["action"] != "correct"
    assert any("leaves at noon" in excerpt["text"] for excerpt in got["context"])
    assert not any("was not searched" in note for note in got["trace"]["notes"])
    assert any("was not searched" in n for n in one("--method", "crag", row=row)["trace"]["notes"])
    told = one("--method", "crag", "--web", tmp_path / "none.jsonl", code=2)
    assert "`--web` must be the address of a SearXNG server, an index, or a .jsonl file" in told
