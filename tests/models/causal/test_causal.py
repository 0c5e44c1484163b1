"""The causal engine: one copy of the weights, batches that do not matter, adapters that switch."""

import random

import pytest
import torch
from tiny_causal import (
    CPU,
    DRAFTS,
    QUESTIONS,
    plainly,
    write_gpt2,
    write_ik,
    write_judge,
    write_llama,
)

from fitrag_integrations.errors import InputError, ModelLoadError
from fitrag_integrations.models import IKClassifier, LocalGenerator, NecessityJudge
from fitrag_integrations.models.causal.decoding import row_cost
from fitrag_integrations.models.causal.loading import shared_causal
from fitrag_integrations.models.runtime.engine import Options
from fitrag_integrations.models.runtime.worker import finished
from fitrag_integrations.models.words import choice_ids, common_prefix, joined, share

MANY = [f"{question} {'the river ' * n}" for n in range(5) for question in QUESTIONS]


@pytest.fixture(scope="module", params=[write_llama, write_gpt2], ids=["llama", "gpt2"])
def base(request, tmp_path_factory):
    return request.param(tmp_path_factory.mktemp("tiny-causal"))


@pytest.fixture(scope="module")
def engine(base):
    made = shared_causal(base, CPU)
    yield made
    made.release()


def logits(engine, texts):
    rows = engine.encode(texts)
    return torch.tensor(finished(engine.next_logits([(row, range(20)) for row in rows])))


def test_padding_and_batches_do_not_matter(engine, base):
    together = logits(engine, MANY)
    order = random.Random(1).sample(range(len(MANY)), len(MANY))
    torch.testing.assert_close(logits(engine, [MANY[i] for i in order]), together[order])
    model, tokenizer = plainly(base)
    for text, found in zip(MANY, together, strict=True):
        with torch.no_grad():
            alone = model(**tokenizer(text, return_tensors="pt")).logits[0, -1, :20]
        torch.testing.assert_close(found, alone, atol=1e-4, rtol=1e-4)


def test_what_all_prompts_begin_with_is_computed_once(engine, monkeypatch):
    begin = "Question: who wrote the score of the film?\nAnswer: a king of Rome. " * 6
    rows = engine.encode([f"{begin}{text}" for text in MANY])
    shared, passed, widths = min(common_prefix(rows[0], row) for row in rows), engine.passed, []

    def counted(some, *, past=None, **how):
        known = 0 if past is None else past.get_seq_length()
        widths.append((len(some), max(map(len, some)) - known))
        return passed(some, past=past, **how)

    monkeypatch.setattr(engine, "passed", counted)
    found = engine.inferred(rows, keep=2).logits
    assert shared > 100 and widths == [(1, shared), (len(rows), max(map(len, rows)) - shared)]
    engine.inferred(rows, keep=2)
    assert len(widths) == 3  # what they begin with is known
    alone = torch.cat([passed([row], keep=2).logits for row in rows]).detach()
    torch.testing.assert_close(found, alone, atol=1e-4, rtol=1e-4)
    widths.clear()
    engine.inferred([*rows[:3], rows[0][shared:]])  # one begins otherwise
    engine.inferred(rows[:1])
    monkeypatch.setattr(engine, "cache_tokens", lambda: 100)  # a GPU without the room
    engine.inferred(rows)
    assert [count for count, _ in widths] == [4, 1, len(rows)]


def test_the_output_layer_sees_contiguous_states(engine, base):
    # a slice of a batch costs it hundreds of times as long, in bfloat16 on a CPU
    whole, layer = [], engine.model.get_output_embeddings()
    seen = layer.register_forward_hook(lambda _, given, __: whole.append(given[0].is_contiguous()))
    logits(engine, MANY)
    LocalGenerator(engine, max_new_tokens=2).generate(list(QUESTIONS))
    seen.remove()
    assert whole and all(whole)


def test_one_copy_of_the_weights(base, tmp_path):
    generator = LocalGenerator.from_pretrained(base, device="cpu")
    model = generator._engine.model
    before = {p.data_ptr() for p in model.parameters()}
    count = sum(p.numel() for p in model.parameters())
    gates = [
        IKClassifier.from_pretrained(write_ik(tmp_path / "ik", base), device="cpu"),
        IKClassifier.from_pretrained(write_ik(tmp_path / "h", base, variant="head"), device="cpu"),
        NecessityJudge.from_pretrained(write_judge(tmp_path / "judge", base), device="cpu"),
        NecessityJudge.from_pretrained(base, device="cpu"),
    ]
    assert all(gate._engine.model is model for gate in gates)
    assert before < {p.data_ptr() for p in model.parameters()}
    added = sum(p.numel() for name, p in model.named_parameters() if "lora_" in name)
    assert sum(p.numel() for p in model.parameters()) == count + added
    for gate in gates:
        gate.unload()
    assert {p.data_ptr() for p in model.parameters()} == before
    assert not any("base_layer" in name for name, _ in model.named_parameters())


def test_adapters_do_not_see_each_other(base, tmp_path):
    generator = LocalGenerator.from_pretrained(base, device="cpu", max_new_tokens=8, stop=())
    written = generator.generate(QUESTIONS)
    folders = [write_ik(tmp_path / str(seed), base, seed=seed) for seed in (1, 2)]
    alone = []
    for folder in folders:
        gate = IKClassifier.from_pretrained(folder, device="cpu")
        alone.append(gate.p_known(QUESTIONS, DRAFTS))
        gate.unload()
    one, other = (IKClassifier.from_pretrained(folder, device="cpu") for folder in folders)
    for _ in range(2):
        assert one.p_known(QUESTIONS, DRAFTS) == pytest.approx(alone[0], abs=1e-6)
        assert generator.generate(QUESTIONS) == written
        assert other.p_known(QUESTIONS, DRAFTS) == pytest.approx(alone[1], abs=1e-6)
    assert alone[0] != pytest.approx(alone[1], abs=1e-2)
    one.unload()
    assert other.p_known(QUESTIONS, DRAFTS) == pytest.approx(alone[1], abs=1e-6)
    other.unload()
    assert generator.generate(QUESTIONS) == written


def test_engines_are_shared_by_options(base):
    one, other = (LocalGenerator.from_pretrained(base, device="cpu") for _ in range(2))
    different = LocalGenerator.from_pretrained(base, device="cpu", batch_tokens=77)
    assert one._engine is other._engine is not different._engine
    one.unload()
    one.unload()
    assert other.generate(["what sea?"]) is not None
    for model in (other, different):
        model.unload()
    with pytest.raises(ModelLoadError, match="unloaded: load it again"):
        other.generate(["what sea?"])


def test_a_batch_that_does_not_fit_is_halved(engine, monkeypatch):
    expected, sizes = logits(engine, MANY), []
    passed = engine.passed

    def small(rows, **how):
        sizes.append(len(rows))
        if len(rows) > 2:
            raise torch.OutOfMemoryError
        return passed(rows, **how)

    monkeypatch.setattr(engine, "passed", small)
    torch.testing.assert_close(logits(engine, MANY), expected, atol=1e-4, rtol=1e-4)
    assert max(sizes) > 2


def test_a_prompt_that_fills_the_input_is_told_and_room_is_each_rows_own(tmp_path):
    generator = LocalGenerator.from_pretrained(write_llama(tmp_path / "m", positions=40))
    with pytest.raises(InputError, match="tokens of a prompt` must be .*fewer than 40"):
        generator.generate(["what sea?", "the river " * 60])
    assert generator.generate(["what sea?"]) is not None
    base = write_gpt2(tmp_path / "gpt2", positions=40)
    generator = LocalGenerator.from_pretrained(base, max_new_tokens=30, stop=())
    prompts = ["who?", "the river " * 10, "the sea"]
    alone = [generator.generate([prompt])[0] for prompt in prompts]
    assert generator.generate(prompts) == alone


@pytest.mark.parametrize(("spaced", "expected"), [(True, (" Yes", " No")), (False, ("Yes", "No"))])
def test_words_are_single_tokens(engine, spaced, expected):
    ids = choice_ids(engine.tokenizer, ("Yes", "No"), spaced=spaced)
    assert tuple(engine.tokenizer.decode([i]) for i in ids) == expected


def test_an_unknown_word_is_no_token():
    class Unknowing:
        unk_token_id, name_or_path = 3, "words"

        def __call__(self, text, add_special_tokens):
            return {"input_ids": [3 if text == "No" else 4]}

    with pytest.raises(ModelLoadError, match="'words' has no single token"):
        choice_ids(Unknowing(), ("Yes", "No"), spaced=False)


def test_small_pieces():
    assert common_prefix([1, 2, 3], [1, 2, 4]) == 2 and common_prefix([1], [1, 2]) == 1
    assert joined("Answer:", "Rome", spaced=True) == "Answer: Rome"
    assert joined("Answer:\n", "Rome", spaced=True) == "Answer:\nRome"
    assert joined("<|a|>", "Rome", spaced=False) == "<|a|>Rome"
    assert share([0.0, 0.0]) == 0.5 and share([2.0, 0.0]) == pytest.approx(0.880797)
    assert share([4.0, 0.0], 2.0) == pytest.approx(0.880797)
    assert share([-2000.0, 0.0]) == 0.0 and share([2000.0, 0.0]) == 1.0


def test_the_few_logits_that_decide_are_not_rounded(base):
    """In bfloat16 two logits near 10 are told apart by steps of .06, and their gap decides."""
    whole = shared_causal(base, Options("cpu", "float32"))
    half = shared_causal(base, Options("cpu", "bfloat16"))
    asked = [([5, 6, 7, 8], (9, 10)), ([5, 6], (11, 12))]
    found, exact = (torch.tensor(finished(one.next_logits(asked))) for one in (half, whole))
    assert (found.bfloat16().float() != found).any()
    torch.testing.assert_close(found, exact, atol=0.05, rtol=0.05)
    for one in (half, whole):
        one.release()


def test_a_cached_token_is_counted_by_what_it_takes(base, monkeypatch):
    engine = shared_causal(base, CPU)
    config = engine.model.config
    size = config.hidden_size // config.num_attention_heads
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    a_token = 2 * config.num_hidden_layers * heads * size * 4
    assert engine.cache_tokens() is None and row_cost(engine)(50) == 50
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (150 * a_token, 0))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 70 * a_token)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 20 * a_token)
    with monkeypatch.context() as patched:
        patched.setattr(engine, "device", torch.device("cuda"))
        assert engine.cache_tokens() == 100  # half of what is free, or reserved and not used
        patched.setattr(engine.room, "tokens", 1000)
        assert row_cost(engine)(50) == 500
    engine.release()
