"""Answers gone on with, token by token, from a local model and from a server's replies."""

import asyncio
import math

import pytest
import torch
from tiny_causal import plainly, write_gpt2, write_llama

from fitrag_integrations.errors import InputError, PortError
from fitrag_integrations.models import Continuer, LocalGenerator, RemoteGenerator
from fitrag_integrations.models.causal.continuer import _read
from fitrag_integrations.values.decision import Continuation

PROMPTS = ["Question: what sea?\nAnswer:", "Question: who wrote the score?\nAnswer:"]


@pytest.fixture(
    scope="module",
    params=[(write_llama, {}), (write_gpt2, {}), (write_llama, {"chat": True})],
    ids=["llama", "gpt2", "chat"],
)
def base(request, tmp_path_factory):
    write, options = request.param
    return write(tmp_path_factory.mktemp("tiny-continuing"), **options)


@pytest.fixture(scope="module")
def generator(base):
    made = LocalGenerator.from_pretrained(base, device="cpu", max_new_tokens=10, stop=())
    yield made
    made.unload()


def test_it_writes_what_the_generator_writes(generator):
    continuer = Continuer(generator)
    written = continuer.continue_with_logprobs(PROMPTS, ["", ""])
    assert [one.text for one in written] == generator.generate(PROMPTS)
    assert all("".join(one.tokens) == one.text for one in written)
    assert asyncio.run(continuer.acontinue_with_logprobs(PROMPTS, ["", ""])) == written
    assert continuer.name == generator.name


def test_a_beginning_is_gone_on_with(generator, base):
    (written,) = Continuer(generator).continue_with_logprobs(PROMPTS[:1], ["the Black Sea"])
    before = generator._engine.render(PROMPTS[0])
    assert before != PROMPTS[0] or not generator._engine.is_chat
    space = "" if before[-1:].isspace() else " "
    model, tokenizer = plainly(base)
    ids = tokenizer(f"{before}{space}the Black Sea", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        out = model.generate(ids, max_new_tokens=10, do_sample=False)
    expected = tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True).strip()
    assert written.text == expected


def test_the_probabilities_are_the_models_own(generator, base):
    (written,) = Continuer(generator).continue_with_logprobs(PROMPTS[:1], [""])
    model, tokenizer = plainly(base)
    before = generator._engine.render(PROMPTS[0])
    space = "" if generator._engine.is_chat else " "
    start = len(tokenizer(before)["input_ids"])
    ids = tokenizer(before + space + written.text, return_tensors="pt")["input_ids"]
    start += not tokenizer.decode(ids[0, start]).strip()  # a blank by itself is not of the text
    with torch.no_grad():
        logs = model(ids).logits[0].log_softmax(-1)
    expected = logs[start - 1 : -1].gather(1, ids[0, start:, None]).sum()
    assert math.fsum(written.logprobs) == pytest.approx(float(expected), abs=1e-3)


def test_wrong_arguments_are_told(generator):
    with pytest.raises(InputError, match="generator` must be"):
        Continuer(lambda prompts: prompts)
    with pytest.raises(InputError, match="generator.api` must be"):
        Continuer(RemoteGenerator("http://127.0.0.1:9", "lm", api="chat"))
    with pytest.raises(InputError, match="beginnings` must be"):
        Continuer(generator).continue_with_logprobs(PROMPTS, [""])


def completion(text, tokens, logprobs):
    told = {"tokens": tokens, "token_logprobs": logprobs, "top_logprobs": None}
    return {"choices": [{"text": text, "logprobs": told if tokens else None}]}


def test_a_servers_reply_is_read():
    reply = completion(" the sea\n", [" the", " sea", "\n"], [-0.5, -1.0, -0.1])
    assert _read(reply) == Continuation("the sea", ("the", " sea"), (-0.5, -1.0))
    assert _read(completion(" ", [], [])) == Continuation("")
    halves = completion("é!", ["", "é", "!"], [-0.5, -1.0, -0.25])
    assert _read(halves) == Continuation("é!", ("é", "!"), (-1.5, -0.25))


def test_a_server_without_log_probabilities_is_refused():
    with pytest.raises(PortError, match="no log-probabilities"):
        _read(completion("the sea", [], []))
    with pytest.raises(PortError, match="do not spell out"):
        _read(completion("the sea", ["of"], [-1.0]))


def test_a_continuation_checks_itself():
    with pytest.raises(InputError, match="logprobs` must be"):
        Continuation("a b", ("a", " b"), (-1.0,))
    with pytest.raises(InputError, match="tokens` must be"):
        Continuation("a b", ("a",), (-1.0,))
    made = Continuation("a bc.", ("a", " bc", "."), (0.0, math.log(0.5), -1.0))
    assert made.probabilities(0, 3) == [("a", 1.0), (" b", 0.5)]
    assert Continuation.from_dict(made.to_dict()) == made
