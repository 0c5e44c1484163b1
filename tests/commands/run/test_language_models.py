"""The options of a language model, with the same names in every verb, against a server."""

import json

import pytest
from chat_server import serving
from command_fakes import read, write

from fitrag_integrations.models import RemoteGenerator

SHOT = {
    "question": "Who built the Tirva bridge?",
    "answer": "Ilse Marbach",
    "passages": [{"title": "Tirva", "text": "Ilse Marbach built the bridge."}],
}
ROW = {
    "question": "Where does the Danube end?",
    "answers": ["Black Sea"],
    "passages": [{"title": "Danube", "text": "The Danube ends in the Black Sea."}],
}
READ_SHOWN = (
    "Answer the question from the passages below, as briefly as you can.\n"
    "Passages:\n1. Tirva: Ilse Marbach built the bridge.\n"
    "Question: Who built the Tirva bridge?\nAnswer: Ilse Marbach\n\n"
    "Passages:\n1. Danube: The Danube ends in the Black Sea.\n"
    "Question: Where does the Danube end?\nAnswer:"
)


@pytest.fixture
def server():
    """Serve completions: Yes with probabilities, an answer that runs on, nothing for others."""
    asked = []

    def reply(body, headers):
        prompt = body.get("prompt") or body["messages"][0]["content"]
        asked.append(prompt)
        text = " Black Sea\n\nQuestion: Where else?\nAnswer: Rome" if "Danube" in prompt else ""
        if body.get("stop"):
            text = text.partition("\n")[0]
        found = {"text": text, "finish_reason": "stop"}
        if body.get("logprobs"):
            shown = {" Black": -0.1, " Red": -2.5}
            told = {"tokens": [" Black"], "token_logprobs": [-0.1], "top_logprobs": [shown]}
            found["logprobs"] = told
        if "messages" in body:
            found["message"] = {"content": f"{text}<|im_end|>"}
        return 200, {"choices": [found], "usage": {"completion_tokens": 1}}

    with serving(reply) as made:
        made.asked = asked
        yield made


@pytest.fixture
def options(server, tmp_path):
    shots = write(tmp_path / "shots.jsonl", [SHOT])
    url = ("--url", server.url, "--api", "completions", "--timeout", 30)
    return ("--llm", "base", *url, "--shots", shots)


def test_an_answer_is_read_from_one_line_behind_the_examples(fitrag, options, server, tmp_path):
    rows, out = write(tmp_path / "rows.jsonl", [ROW]), tmp_path / "out.jsonl"
    code, _, err = fitrag("answer", rows, out, "--method", "direct", *options)
    (row,) = read(out)
    assert code == 0 and (row["prompt"], row["answer"]) == (READ_SHOWN, "Black Sea"), err
    assert server.asked == [READ_SHOWN]
    template = ("--template", "simple", "--overwrite")
    fitrag("answer", rows, out, "--method", "direct", *options, *template)
    assert read(out)[0]["prompt"].endswith("Question: Where does the Danube end?\nThe answer is")


def test_empty_answers_are_counted(fitrag, options, tmp_path):
    given = {"question": "Who?", "passages": ["Nothing is known."]}
    rows = write(tmp_path / "rows.jsonl", [given] * 2)
    _, _, err = fitrag("answer", rows, tmp_path / "out.jsonl", "--method", "direct", *options)
    assert "no error row, 2 empty answers" in err


def test_a_gate_and_its_evaluation_ask_a_server(fitrag, options, server, tmp_path):
    known = [{**ROW, "known": True}, {**ROW, "question": "Is it so?", "known": False}] * 2
    rows, out = write(tmp_path / "rows.jsonl", known), tmp_path / "out.jsonl"
    code, _, err = fitrag("gate", rows, out, "--signal", "likelihood", *options)
    assert code == 0, err
    assert (
        "Question: Who built the Tirva bridge?\nAnswer: Ilse Marbach\n\n"
        "Question: Where does the Danube end?\nAnswer:"
    ) in server.asked
    assert read(out)[0]["p_known"] == pytest.approx(0.905, abs=0.001)
    code, said, err = fitrag("evaluate", "gate", out)
    assert code == 0 and "4 questions, threshold 0.5, 50.0% known" in said, err


def test_answers_with_marks_of_a_template_are_reported(server):
    served = RemoteGenerator(server.url, "base", api="chat", shots=[SHOT])
    with pytest.warns(UserWarning, match=r"<\|im_end\|>.*--api completions"):
        served.generate(["Where does the Danube end?"])
    assert RemoteGenerator(server.url, "base").generate(["Danube?"])  # no chat, no warning


def test_the_examples_are_rows_of_question_and_answer(fitrag, options, tmp_path):
    rows = write(tmp_path / "rows.jsonl", [ROW])
    for shots, said in ((tmp_path / "none.jsonl", "none.jsonl"), (rows, None)):
        code, _, err = fitrag("answer", rows, tmp_path / "out.jsonl", *options[:-1], shots)
        assert (code == 2 and said in err) if said else code == 0, err
    bad = write(tmp_path / "bad.jsonl", [{"question": "Who?"}])
    code, _, err = fitrag("answer", rows, tmp_path / "out2.jsonl", *options[:-1], bad)
    assert code == 2 and "--shots[0]" in err and "answer" in err


def test_the_examples_belong_to_an_output(fitrag, options, tmp_path):
    rows, out = write(tmp_path / "rows.jsonl", [ROW]), tmp_path / "out.jsonl"
    fitrag("answer", rows, out, "--method", "direct", *options)
    other = write(tmp_path / "other.jsonl", [{**SHOT, "answer": "Ann"}])
    code, _, err = fitrag("answer", rows, out, "--method", "direct", *options[:-1], other)
    assert code == 2 and "--shots" in err
    assert json.loads(out.with_name("out.jsonl.settings").read_text())["shots"]
