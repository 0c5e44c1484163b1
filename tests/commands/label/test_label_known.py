"""`fitrag label ik` and `fitrag label necessity`: closed-book answers, judged and resumed."""

import pytest
from chat_server import serving
from command_fakes import read, write
from tiny_causal import write_llama  # noqa: E402
from typer.testing import CliRunner

from fitrag_integrations.cli import app  # noqa: E402
from fitrag_integrations.commands.label.known import known_verb
from fitrag_integrations.errors import InputError  # noqa: E402
from fitrag_integrations.flow import run_many  # noqa: E402

SAID = {"what sea?": "the Black Sea, I am sure", "who?": "a king", "when?": ""}


class Knowing:
    """Answer from a table, and judge by a table."""

    name = "table"

    def __init__(self, yes=0.9):
        self.calls, self.yes = [], yes

    def answer(self, questions):
        self.calls.append(("answer", len(questions)))
        return [SAID[question] for question in questions]

    async def aanswer(self, questions):
        return self.answer(questions)

    def first_tokens(self, texts, count):
        self.calls.append(("cut", len(texts)))
        return [" ".join(text.split()[:count]) for text in texts]

    def p_yes(self, prompts):
        self.calls.append(("judge", len(prompts)))
        self.prompts = prompts
        return [self.yes] * len(prompts)

    async def ap_yes(self, prompts):
        return self.p_yes(prompts)


ROWS = [
    {"question": "what sea?", "answers": ["Black Sea", "Euxine"]},
    {"question": "who?", "answers": ["the Queen"]},
    {"question": "when?", "answers": ["1900"]},
]


def labelled(verb, rows):
    return [traced.value for traced in run_many([verb.flow(row) for row in rows])]


def test_rows_get_draft_answer_label_and_model():
    model = Knowing()
    found = labelled(known_verb(model, "match", draft_tokens=2), ROWS)
    assert found[0] == {
        "draft": "the Black",
        "answer": "the Black Sea, I am sure",
        "known": True,
        "llm": "table",
    }
    assert [row["known"] for row in found] == [True, False, False]
    assert model.calls == [("answer", 3), ("cut", 3)]


@pytest.mark.parametrize("yes", [0.9, 0.5])
def test_a_judge_reads_question_answer_and_gold(yes):
    judge = Knowing(yes)
    found = labelled(known_verb(Knowing(), "judge", draft_tokens=2, judge=judge), ROWS)
    assert [row["known"] for row in found] == [yes > 0.5, yes > 0.5, False]
    assert judge.calls == [("judge", 2)]  # nothing was said on the third
    for part in ("what sea?", "the Black Sea, I am sure", "Black Sea; Euxine"):
        assert part in judge.prompts[0]


@pytest.mark.parametrize("answers", [None, "Rome", [["Rome"]]])
def test_a_row_without_answers_fails_alone(answers):
    verb = known_verb(Knowing(), "match", draft_tokens=2)
    rows = [{"question": "who?", "answers": answers}, ROWS[0]]
    bad, good = run_many([verb.flow(row) for row in rows])
    assert isinstance(bad.error, InputError) and "answers` must be" in str(bad.error)
    assert good.value["known"] is True


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return write_llama(tmp_path_factory.mktemp("base") / "little")


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_label_ik_resumes_and_marks_bad_rows(base, tmp_path):
    rows = [{"question": f"what sea is {i}?", "answers": ["Black Sea"], "id": i} for i in range(20)]
    rows[3]["answers"] = None
    source, out = write(tmp_path / "q.jsonl", rows), tmp_path / "out.jsonl"
    how = ("--llm", base, "--device", "cpu", "--draft-tokens", 4, "--max-new-tokens", 6)
    done = run("label", "ik", source, "--out", out, *how)
    assert done.exit_code == 1 and "20 rows" in done.stderr and "1 error rows" in done.stderr
    assert "labeled by match" in done.stderr and "--judge" in done.stderr
    whole = read(out)
    assert whole[3]["error"]["field"] == "answers" and whole[3]["known"] is None
    for row, given in zip(whole, rows, strict=True):
        assert row["id"] == given["id"] and {"draft", "answer", "known", "llm"} <= row.keys()
    assert whole[0]["llm"] == "little" and whole[0]["known"] is False
    cut = out.read_bytes()
    out.write_bytes(cut[: len(cut) // 2])  # as a kill leaves it
    done = run("label", "ik", source, "--out", out, *how)
    assert done.exit_code == 1 and "from an earlier run" in done.stderr
    assert read(out) == whole


@pytest.fixture
def served():
    """Answer with at most as many words as may be written, and with Yes to a judge."""
    asked = []

    def reply(body, headers):
        asked.append(body)
        judges = "Yes or No" in body["messages"][-1]["content"]
        words = "Yes" if judges else "the Black Sea I am sure"
        text = " ".join(words.split()[: body["max_tokens"]])
        top = [{"token": "Yes", "logprob": -0.1}, {"token": "No", "logprob": -2.4}]
        told = [{"token": text, "logprob": -0.1, "top_logprobs": top}]
        choice = {"message": {"role": "assistant", "content": text}, "logprobs": {"content": told}}
        return 200, {"choices": [choice | {"finish_reason": "stop"}]}

    with serving(reply) as server:
        server.asked = asked
        yield server


def test_a_served_model_answers_drafts_and_judges(served, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    source = write(tmp_path / "q.jsonl", [{"question": "what sea?", "answers": ["Euxine"]}])
    url = ("--url", served.url, "--llm", "big")
    how = ("--draft-tokens", 2, "--judge", "wise", *url)
    done = run("label", "ik", source, "--out", tmp_path / "ik.jsonl", *how)
    assert done.exit_code == 0, done.output
    (row,) = read(tmp_path / "ik.jsonl")
    told = {name: row[name] for name in ("draft", "answer", "known", "llm")}
    answer = "the Black Sea I am sure"
    assert told == {"draft": "the Black", "answer": answer, "known": True, "llm": "big"}
    assert {body["model"] for body in served.asked} == {"big", "wise"}
    done = run("label", "necessity", source, "--out", tmp_path / "n.jsonl", *url)
    assert done.exit_code == 0 and read(tmp_path / "n.jsonl")[0]["ratio"] == 0.0
