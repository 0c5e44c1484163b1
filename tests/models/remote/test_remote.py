"""Remote gates and generators against a real server process, and their replies by hand."""

import asyncio
import copy
import json
import logging
import math
import pickle
import subprocess
import sys
import threading
import traceback
import urllib.request
from contextlib import contextmanager

import openai_server
import pytest

from fitrag_integrations.errors import InputError, PortError, ThresholdMismatchError
from fitrag_integrations.flow import arun_many, run, run_many
from fitrag_integrations.methods import AskGate, Decider, IKnow, MarginGate, PTrueGate
from fitrag_integrations.models import RemoteGenerator, RemoteIK
from fitrag_integrations.models.remote.client import RequestError
from fitrag_integrations.models.remote.replies import (
    as_draft,
    echoed,
    read_tokens,
    read_written,
    read_yes,
)
from fitrag_integrations.models.words import PROMPTS
from fitrag_integrations.ports import Drafter, Gate, Generator, Ports, YesNo
from fitrag_integrations.training.collecting import Failed, Question, Told, passage_labels
from fitrag_integrations.types import Draft, Passage
from fitrag_integrations.values.prompt import LimitedPrompt
from fitrag_integrations.values.thresholds import FittedThreshold

KEY = "sk-never-to-be-seen-0123456789"
QUESTIONS = ["who old king", "what river", "what bridge rome", "who who what"]
FAST = {"timeout": 60.0, "max_retries": 1}


@contextmanager
def served(folder):
    """Run the server as a process of its own; gives it and its address."""
    program = [sys.executable, openai_server.__file__, str(folder)]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
    try:
        port = process.stdout.readline().strip()
        yield process, f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("lm")
    openai_server.write_causal(path)
    return str(path)


@pytest.fixture(scope="module")
def url(folder):
    """Run the server in this process, which has loaded torch."""
    with openai_server.Server(folder) as server:
        running = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        running.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        running.join()


def seen(url):
    with urllib.request.urlopen(url.removesuffix("/v1") + "/seen") as reply:
        return json.load(reply)


def direct(folder, text):
    """Compute the softmax over Yes and No, both spellings of each, from the model itself."""
    row = openai_server.logprobs_of(folder, text)[2][-1]
    yes, no = (
        sum(math.exp(row[openai_server.WORDS.index(word)]) for word in (name, f" {name}"))
        for name in ("Yes", "No")
    )
    return yes / (yes + no)


@pytest.mark.parametrize("stop", [["\n"], ["\n", "Question:"]])
def test_blanks_before_an_answer_do_not_end_it(monkeypatch, stop):
    """A server stops at the first line break, and says nothing of what would have followed."""
    written, asked = ["\n", "\n", " Black", " Sea", "\n", "What", "?"], []

    async def post(_, body):
        asked.append(body.get("stop", []))
        ends = [at for at, token in enumerate(written) if token in asked[-1]]
        tokens = written[: ends[0] if ends else None]
        told = {"tokens": tokens, "token_logprobs": [-0.5] * len(tokens), "top_logprobs": None}
        return {"choices": [{"text": "".join(tokens), "logprobs": told, "finish_reason": "stop"}]}

    made = RemoteGenerator("http://localhost:1/v1", "lm", stop=stop)
    monkeypatch.setattr(made._client, "post", post)
    assert made.generate([LimitedPrompt("What sea?", one_line=True)]) == ["\n\n Black Sea"]
    (draft,) = made.draft(["What sea?"])
    assert (draft.text, len(draft.logprobs)) == ("Black Sea", 4)
    assert asked == [stop, stop[1:]] * 2


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_remote_ik_is_the_softmax_of_the_served_model(url, folder, api):
    gate = RemoteIK(url, "lm", api=api)
    assert isinstance(gate, Gate)
    drafts = ["", "old bridge", " \n", "king"]
    known = gate.p_known(QUESTIONS, drafts)
    written = openai_server.chat_text if api == "chat" else str
    expected = []
    for question, draft in zip(QUESTIONS, drafts, strict=True):
        name = "draft" if draft.strip() else "question"
        prompt = PROMPTS[name].format(question=question, draft=draft)
        expected.append(direct(folder, written(prompt)))
    assert known == pytest.approx(expected, abs=1e-4)
    assert max(known) - min(known) > 0.01  # the questions are told apart
    assert asyncio.run(gate.ap_known(QUESTIONS, drafts)) == known
    assert RemoteIK(url, "lm", api=api, draft_tokens=0).p_known(["who"], ["x"])[0] == pytest.approx(
        direct(folder, written(PROMPTS["question"].format(question="who"))), abs=1e-4
    )


def test_one_gate_serves_sync_calls_and_many_event_loops(url):
    gate = RemoteIK(url, "lm")
    expected = gate.p_known(QUESTIONS, [""] * 4)

    async def inside():
        again = gate.p_known(QUESTIONS, [""] * 4)  # a sync call while a loop is running
        return again, await gate.ap_known(QUESTIONS, [""] * 4)

    for _ in range(3):
        assert asyncio.run(inside()) == (expected, expected)
    assert pickle.loads(pickle.dumps(gate)).p_known(QUESTIONS, [""] * 4) == expected


def test_many_questions_are_one_gate_batch_and_decide_alike_sync_and_async(url):
    questions = [f"{word} {n % 2 * 'old'} river {n * 'king '}" for n in range(4) for word in "ab"]
    decider = Decider(RemoteIK(url, "lm"), drafter=RemoteGenerator(url, "lm", draft_tokens=3))
    calls = []

    def on_step(_, step):
        calls.append(step.port)

    traces = run_many([decider(question) for question in questions], on_step=on_step)
    waiting = asyncio.run(arun_many([decider(question) for question in questions]))
    assert calls == ["draft"] * 8 + ["gate"] * 8
    assert [trace.value for trace in waiting] == [trace.value for trace in traces]
    assert [[(s.port, s.items, s.answers) for s in trace.steps] for trace in waiting] == [
        [(s.port, s.items, s.answers) for s in trace.steps] for trace in traces
    ]
    assert all("failed" not in trace.value.decision.why for trace in traces)


def test_a_server_that_stays_broken_is_given_up_and_the_question_retrieved_for(url):
    before = seen(url)["seen"].get("broken", 0)
    gate = RemoteIK(url, "broken", max_retries=1)
    ports = Ports(lambda queries: [[Passage("a", "An old bridge.")] for _ in queries])
    trace = run(IKnow(gate)("who", ports))
    assert seen(url)["seen"]["broken"] - before == 2
    assert trace.value.decision.retrieve and trace.value.excerpts
    assert "status 500" in trace.value.decision.why and "status 500" in trace.explain()
    strict = run(Decider(gate, on_error="raise")("who"))
    assert isinstance(strict.outcome, PortError)


@pytest.mark.parametrize(
    ("name", "asked"), [("teapot", 1), ("later", 1), ("garbled", 1), ("busy", 2)]
)
def test_only_what_another_try_may_mend_is_asked_again(url, name, asked):
    before = seen(url)["seen"].get(name, 0)
    (known,) = RemoteIK(url, name, max_retries=3).p_known(["who"], [""])
    assert isinstance(known, float if name == "busy" else PortError)
    assert seen(url)["seen"][name] - before == asked


def test_a_server_that_dies_midway_costs_what_it_did_not_answer(folder):
    with served(folder) as (process, address):
        model = RemoteGenerator(address, "mortal", concurrency=1, max_retries=0)
        first, *rest = model.generate(["who", "what", "old"])
        process.wait(timeout=30)
    assert first == "Perhaps"
    assert all(isinstance(error, PortError) and address in str(error) for error in rest)
    decided = run(Decider(RemoteIK(address, "lm", max_retries=0))("who")).value
    assert decided.decision.retrieve and "ConnectError" in decided.decision.why


def test_one_refused_question_costs_that_one_alone(url):
    found = RemoteIK(url, "picky", **FAST).p_known(QUESTIONS, [""] * 4)
    assert [isinstance(answer, PortError) for answer in found] == [False, False, True, False]
    assert "status 400" in str(found[2]) and "no bridges" in str(found[2])
    decider = Decider(RemoteIK(url, "picky", **FAST))
    decided = [trace.value for trace in run_many([decider(q) for q in QUESTIONS])]
    assert ["failed" in d.decision.why for d in decided] == [False, False, True, False]


def test_a_service_without_log_probabilities_is_told_with_the_fallback(url):
    (error,) = RemoteIK(url, "silent").p_known(["who"], [""])
    assert "no log-probabilities: use AskGate" in str(error)
    gate = AskGate(lambda prompts: ["Yes." for _ in prompts], draft_tokens=0)
    assert gate.p_known(["who"], [""]) == [1.0]
    reply = AskGate(RemoteGenerator(url, "silent"), draft_tokens=0)
    assert "gave 'Perhaps'" in run(Decider(reply)("who")).value.decision.why


def test_the_key_is_sent_and_appears_nowhere(url, caplog):
    class Hidden:
        def get_secret_value(self):
            return KEY

    with caplog.at_level(logging.DEBUG):
        for key in (KEY, Hidden()):
            gate = RemoteIK(url, "forbidden", api_key=key, max_retries=0)
            (error,) = gate.p_known(["who"], [""])
            assert "status 401" in str(error) and "[hidden]" in str(error)
            trace = run(Decider(gate)("who"))
            chain = "".join(traceback.format_exception(error))
            assert error.__context__ is None and error.__cause__ is None
            told = [repr(gate), repr(vars(gate)), repr(error), chain, trace.explain()]
            told += [repr(trace), repr(gate._client), str(trace.value.to_dict()), caplog.text]
            assert not any(KEY in text for text in told)
            with pytest.raises(TypeError, match="key"):
                pickle.dumps(gate)
            with pytest.raises(TypeError, match="key"):
                copy.deepcopy(gate)
    assert f"Bearer {KEY}" in seen(url)["keys"]


ECHOES = ["body", "url", "json", "html", "cut", "long", "reason", "garbage", "answer"]


@pytest.mark.parametrize("way", ECHOES)
def test_a_key_that_is_echoed_reaches_nothing(url, caplog, way):
    caplog.set_level(logging.DEBUG)
    for name in list(logging.root.manager.loggerDict):
        caplog.set_level(logging.DEBUG, logger=name)
    model = RemoteGenerator(url, f"echo-{way}", api_key=KEY, max_retries=0)
    (found,) = model.generate(["who"])
    trace = run(Decider(AskGate(model, draft_tokens=0))("who"))
    told = [repr(model), repr(vars(model)), repr(found), str(found), repr(trace), trace.explain()]
    told += [json.dumps(trace.to_dict(full=True)), caplog.text]
    told += [repr(vars(record)) for record in caplog.records] + [repr(pickle.dumps(trace))]
    if isinstance(found, Exception):
        assert type(found) is RequestError and found.__context__ is None
        told += ["".join(traceback.format_exception(found)), repr(vars(found))]
    question = Question("who", ("king",), (Passage("a", "b"),))
    outcome = Failed("error", str(found)) if isinstance(found, Exception) else Told(found)
    label = passage_labels(question, [outcome])
    told += [json.dumps(label)]
    assert caplog.records and f"Bearer {KEY}" in seen(url)["keys"]
    parts = (KEY, KEY[: len(KEY) // 2], KEY[5:25], KEY[-20:])
    assert not [(part, text) for part in parts for text in told if part in text]
    assert way in ("reason", "garbage") or "[hidden]" in str(found)


def test_white_space_around_a_key_is_not_sent(url):
    (error,) = RemoteIK(url, "forbidden", api_key=f" {KEY}\r\n\t").p_known(["who"], [""])
    assert "status 401" in str(error) and KEY not in str(error)
    assert f"Bearer {KEY}" in seen(url)["keys"]


@pytest.mark.parametrize("key", [f"{KEY}\n{KEY}", f"{KEY}\0x", f"{KEY}\u00e9", f"{KEY} x"])
def test_a_key_that_no_header_carries_is_refused_without_showing_it(key):
    with pytest.raises(InputError, match="api_key` must be") as error:
        RemoteIK("http://127.0.0.1:1/v1", "lm", api_key=key)
    told = "".join(traceback.format_exception(error.value)) + repr(error.value)
    assert KEY not in told


def test_a_reply_is_as_long_as_its_prompt_asks_and_says_when_it_was_cut(url):
    model = RemoteGenerator(url, "lm")
    three, five = model.generate([LimitedPrompt("who", tokens=3), LimitedPrompt("who", tokens=5)])
    assert (three.cut, five.cut) == (3, 5) and five.startswith(three)
    short = RemoteGenerator(url, "lm", max_new_tokens=2)
    assert short.generate([LimitedPrompt("who", tokens=5)])[0].cut == 2
    placed = RemoteGenerator(url, "lm", api_key="text")  # a placeholder is no secret to hide
    assert placed.generate([LimitedPrompt("who", tokens=3)]) == [three]


def test_a_generator_drafts_with_what_the_model_tells(url, folder):
    model = RemoteGenerator(url, "lm", draft_tokens=3)
    assert all(isinstance(model, kind) for kind in (Generator, Drafter, YesNo))
    (draft,) = model.draft(["who old king"])
    rows, text = [], "Question: who old king\nAnswer:"
    for word in draft.text.split():
        rows.append(openai_server.logprobs_of(folder, text)[2][-1])
        text += f" {word}"
    chances = [sorted((math.exp(value) for value in row), reverse=True) for row in rows]
    assert len(draft.logprobs) == 3 == len(rows)
    written = [openai_server.WORDS.index(word) for word in draft.text.split()]
    told = [row[at] for row, at in zip(rows, written, strict=True)]
    assert draft.logprobs == pytest.approx(told, abs=1e-4)
    assert draft.margins == pytest.approx([c[0] - c[1] for c in chances], abs=1e-4)
    entropies = [-sum(p * math.log(p) for p in c) for c in chances]
    assert draft.entropies == pytest.approx(entropies, abs=1e-3)
    assert model.rescore(["who old king", "who"], [draft.text, " "])[1] == Draft("")


def test_rescoring_a_draft_gives_what_drafting_gave_where_a_server_echoes(url):
    model = RemoteGenerator(url, "lm", draft_tokens=4)
    drafts = model.draft(QUESTIONS)
    again = model.rescore(QUESTIONS, [draft.text for draft in drafts])
    for draft, other in zip(drafts, again, strict=True):
        assert other.text == draft.text
        for name in ("logprobs", "margins", "entropies"):
            assert getattr(other, name) == pytest.approx(getattr(draft, name), abs=1e-3)
    known = MarginGate(model).p_known(QUESTIONS, [draft.text for draft in drafts])
    assert known == pytest.approx(MarginGate(model).p_known(QUESTIONS, [""] * 4), abs=1e-3)
    (error,) = RemoteGenerator(url, "silent").rescore(["who"], ["old king"])
    assert isinstance(error, PortError) and "does not echo" in str(error)
    with pytest.raises(InputError, match="api` must be"):
        RemoteGenerator(url, "lm", api="chat").rescore(["who"], ["old"])


def test_asking_for_yes_through_a_server(url, folder):
    model = RemoteGenerator(url, "lm", api="chat")
    expected = direct(folder, openai_server.chat_text("old king"))
    assert model.p_yes(["old king"])[0] == pytest.approx(expected, abs=1e-4)
    known = PTrueGate(model).p_known(["who"], ["king"])[0]
    assert 0.0 < known < 1.0
    assert isinstance(model.generate(["who", "what"])[1], str)


def first_token(**shown):
    named = {name.replace("_", " "): value for name, value in shown.items()}
    best = max(named, key=named.get)
    told = {"tokens": [best], "token_logprobs": [named[best]], "top_logprobs": [named]}
    return {"choices": [{"text": best, "logprobs": told}]}


def test_spellings_are_summed_and_a_word_not_shown_is_put_at_the_least_likely():
    shown = {"Yes": 0.3, "_Yes": 0.1, "_No": 0.2, "yes": 0.4, "Maybe": 0.6}
    reply = first_token(**{word: math.log(chance) for word, chance in shown.items()})
    assert read_yes(reply) == pytest.approx(0.4 / 0.6)
    assert read_yes(reply, yes="Maybe", no="No") == pytest.approx(0.6 / 0.8)
    for word, expected in (("Yes", 0.5 / 0.51), ("No", 0.01 / 0.51)):
        reply = first_token(**{word: math.log(0.5), "Hm": math.log(0.01)})
        assert read_yes(reply) == pytest.approx(expected)
    with pytest.raises(PortError, match="neither 'Yes' nor 'No' is among the 2 likeliest"):
        read_yes(first_token(Perhaps=-1.0, Hm=-2.0))


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"choices": []},
        {"choices": [None]},
        {"choices": [{"text": "Yes"}]},
        {"choices": [{"text": "Yes", "logprobs": {}}]},
        {"choices": [{"logprobs": {"tokens": ["a"], "token_logprobs": [], "top_logprobs": []}}]},
        {"choices": [{"logprobs": {"content": [{"token": "a"}]}}]},
        {"choices": [{"logprobs": {"content": 3}}]},
    ],
)
def test_a_reply_of_another_shape_is_a_port_error(reply):
    with pytest.raises(PortError):
        read_yes(reply)


@pytest.mark.parametrize("usage", [None, [], "x", 3, {"completion_tokens": "many"}])
def test_a_usage_that_is_none_is_passed_over(usage):
    told = {"tokens": ["hello"], "token_logprobs": [-0.5]}
    reply = {"choices": [{"text": "hello", "finish_reason": "length", "logprobs": told}]}
    assert read_written({**reply, "usage": usage}).cut == 0
    assert echoed({**reply, "usage": {"completion_tokens": 0}}, "hello")
    with pytest.raises(PortError, match="does not echo"):
        echoed({**reply, "usage": usage}, "hello")


@pytest.mark.parametrize("value", [10**400, 800.0, math.nan, "x"])
def test_a_log_probability_that_is_none_is_a_port_error(value):
    for token in ({"token": "a", "logprob": value}, {"token": 3, "logprob": -1.0}):
        with pytest.raises(PortError):
            read_tokens({"choices": [{"logprobs": {"content": [token]}}]})
    shown = {"tokens": ["a"], "token_logprobs": [-0.5], "top_logprobs": [{"b": value}]}
    with pytest.raises(PortError):
        read_yes({"choices": [{"logprobs": shown}]})


def test_without_alternatives_a_draft_has_probabilities_only():
    told = {"tokens": ["a", "b"], "token_logprobs": [-0.5, 1e-9], "top_logprobs": None}
    tokens = read_tokens({"choices": [{"text": "ab", "logprobs": told}]})
    assert as_draft("ab", tokens) == Draft("ab", (-0.5, 0.0))
    assert as_draft("ab", []) == Draft("ab")


def test_a_threshold_fitted_for_another_model_is_refused(url):
    fitted = FittedThreshold(0.25, model="llama")
    gate = RemoteIK(url, "lm-ik", fitted=fitted)
    assert gate.threshold == 0.25
    assert RemoteIK(url, "lm-ik", fitted=fitted, threshold=0.0).threshold == 0
    trace = run(Decider(gate, drafter=RemoteGenerator(url, "lm"))("who"))
    assert isinstance(trace.outcome, ThresholdMismatchError)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"base_url": "ftp://host/v1"}, "base_url"),
        ({"base_url": ""}, "base_url"),
        ({"model": " "}, "model"),
        ({"api": "responses"}, "api"),
        ({"prompts": {"question": "{question}"}}, "prompts.draft"),
        ({"threshold": 2}, "threshold"),
        ({"timeout": 0}, "timeout"),
        ({"concurrency": 0}, "concurrency"),
        ({"api_key": ""}, "api_key"),
        ({"api_key": 3}, "api_key"),
    ],
)
def test_wrong_arguments_are_told(arguments, field):
    with pytest.raises(InputError, match=f"{field}` must be"):
        RemoteIK(**{"base_url": "http://127.0.0.1:1/v1", "model": "lm", **arguments})


@pytest.mark.parametrize(
    "address", ["user:hunter2@127.0.0.1/v1", "127.0.0.1/v1?api_key=hunter2", "127.0.0.1/#hunter2"]
)
def test_a_key_in_the_address_is_refused_and_not_repeated(address):
    with pytest.raises(InputError) as error:
        RemoteIK(f"http://{address}", "lm")
    assert "hunter2" not in str(error.value)


def test_blank_questions_and_wrong_counts_are_told():
    gate = RemoteIK("http://127.0.0.1:1/v1", "lm")
    for questions, drafts in (([" "], [""]), (["q"], []), ([3], [""])):
        with pytest.raises(InputError):
            gate.p_known(questions, drafts)
    assert gate.p_known([], []) == []
