"""What a GPU's default precision must leave alone, and modes that hold: checked on the CPU."""

import copy

import pytest
import torch
from scorer.test_ready_rerankers import write_cross_encoder
from tiny import (
    make_evaluator,
    make_onepass,
    make_reader,
    make_scorer,
    write_bert,
    write_modernbert,
    write_t5,
)
from tiny_causal import (
    DRAFTS,
    QUESTIONS,
    write_gpt2,
    write_ik,
    write_judge,
    write_llama,
    write_rotary,
)
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    BertModel,
    T5Config,
    T5ForConditionalGeneration,
)

from fitrag_integrations import Passage
from fitrag_integrations.errors import DeviceMemoryError, InputError, ModelLoadError
from fitrag_integrations.models import (
    BiLabelScorer,
    Continuer,
    IKClassifier,
    LocalGenerator,
    NecessityJudge,
    ReplugGenerator,
)
from fitrag_integrations.models.causal.loading import shared_causal
from fitrag_integrations.models.encoder.encoders import load_base
from fitrag_integrations.models.encoder.pair_model import Engine
from fitrag_integrations.models.encoder.pairs import PairTokenizer
from fitrag_integrations.models.encoder.trunk import Trunk
from fitrag_integrations.models.encoder.vectors import load as load_dense
from fitrag_integrations.models.runtime.engine import Options
from fitrag_integrations.models.runtime.placing import cast, place, sent

ROTARY = ("llama", "qwen2", "mistral")
HALF = Options(device="cpu", dtype="bfloat16")
FULL = Options(device="cpu", dtype="float32")
LAST = 4000


@pytest.fixture(scope="module", params=ROTARY)
def rotary(request, tmp_path_factory):
    return write_rotary(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module", params=[*ROTARY, "gpt2"])
def base(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    return write_gpt2(folder) if request.param == "gpt2" else write_rotary(folder, request.param)


@pytest.fixture(scope="module")
def modernbert(tmp_path_factory):
    return write_modernbert(tmp_path_factory.mktemp("modernbert"))


def training(model):
    """Name the parts that train."""
    return [name for name, part in model.named_modules() if part.training]


def frequencies(model):
    """Take the buffers of rotary positions; names are those within the model."""
    found = {n.rpartition(".")[2]: b for n, b in model.named_buffers() if n.endswith("inv_freq")}
    assert found
    return found


def assert_untouched(model, fresh):
    made, expected = frequencies(model), frequencies(fresh)
    assert made.keys() == expected.keys()
    assert all(made[n].dtype == torch.float32 for n in made)
    assert all(torch.equal(made[n], expected[n]) for n in made)
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}


def dropouts(model):
    return [part for part in model.modules() if isinstance(part, torch.nn.Dropout) and part.p > 0]


def test_five_equal_calls_give_one_number(base, tmp_path):
    ik = IKClassifier.from_pretrained(write_ik(tmp_path / "ik", base), device="cpu")
    assert dropouts(ik._engine.model)
    assert len({tuple(ik.p_known(QUESTIONS, DRAFTS)) for _ in range(5)}) == 1


@torch.inference_mode()
def test_an_adapter_leaves_no_part_training_and_the_base_as_it_was(base, tmp_path):
    ik_folder = write_ik(tmp_path / "ik", base)
    judge_folder = write_judge(tmp_path / "judge", base)
    engine = shared_causal(base, FULL)
    rows = [[5, 9, 30, 7], [8, 4]]
    before, names = engine.inferred(rows).logits, [n for n, _ in engine.model.named_modules()]
    options = {"device": "cpu", "dtype": "float32"}
    ik = IKClassifier.from_pretrained(ik_folder, **options)
    judge = NecessityJudge.from_pretrained(judge_folder, **options)
    assert ik._engine is judge._engine is engine
    assert training(engine.model) == []
    layers = [layer for _, layer in engine.model.adapted]
    engine.use(ik._adapter)
    found = engine.inferred(rows).logits
    for layer in layers:
        own = vars(layer).pop("forward")  # peft's own is left
        layer.set_adapter = lambda _: pytest.fail("switched to what is on already")
        engine.use(ik._adapter)
        del layer.set_adapter
    torch.testing.assert_close(found, engine.inferred(rows).logits, atol=1e-5, rtol=1e-5)
    assert layers and own
    for adapter in (ik._adapter, judge._adapter, ik._adapter):
        engine.use(adapter)
        assert training(engine.model) == []
        assert not torch.equal(engine.inferred(rows).logits, before)
        engine.use(None)
        assert training(engine.model) == []
        assert torch.equal(engine.inferred(rows).logits, before)
    for model in (ik, judge):
        model.unload()
        assert training(engine.model) == []
        assert torch.equal(engine.inferred(rows).logits, before)
    assert [n for n, _ in engine.model.named_modules()] == names
    engine.release()


def test_an_adapter_joins_a_model_that_trains(base):
    """What is attached takes the mode of the model, whichever it is."""
    from fitrag_integrations.models.causal import adapters as causal_adapters

    model = AutoModelForCausalLM.from_pretrained(base).train()
    config = causal_adapters.lora_config(model, rank=2, alpha=2, dropout=0.1)
    causal_adapters.attach(model, config, {}, "one")
    assert all(part.training for part in model.modules())


def test_rotary_frequencies_of_language_models_stay(rotary):
    engine = shared_causal(rotary, HALF)
    assert_untouched(engine.model, AutoModelForCausalLM.from_pretrained(rotary))
    engine.release()


def test_rotary_frequencies_of_encoders_stay(modernbert):
    fresh = AutoModel.from_pretrained(modernbert)
    trunk, tokenizer = load_base(modernbert)
    engine = Engine(trunk, PairTokenizer(tokenizer), HALF).retain()
    assert_untouched(engine.trunk, fresh)
    engine.release()
    recipe = {"pooling": "first", "normalize": True}
    dense = load_dense(modernbert, {"device": "cpu", "dtype": "bfloat16"}, recipe)
    assert_untouched(dense._trunk, fresh)
    assert_untouched(cast(copy.deepcopy(load_base(modernbert)[0]), torch.bfloat16), fresh)


def apart(half, full):
    return float((half - full).norm() / full.norm())


@torch.inference_mode()
def test_a_language_model_is_near_float32_at_a_late_position(rotary):
    rows = [[3 + (7 * i * i + i) % 250 for i in range(LAST)]]
    found = {}
    for options in (HALF, FULL):
        engine = shared_causal(rotary, options)
        found[options] = engine.inferred(rows, keep=32).logits
        engine.release()
    assert apart(found[HALF], found[FULL]) < 0.03


@torch.inference_mode()
@pytest.mark.parametrize("kind", ["modernbert", "t5"])
def test_an_encoder_is_near_float32_at_a_late_position(kind, modernbert, tmp_path):
    """Positions of T5 are buckets of a learnt bias, added to scores: no angle to round."""
    base = modernbert if kind == "modernbert" else write_t5(tmp_path)
    ids = torch.tensor([[5 + (7 * i * i + i) % 40 for i in range(LAST)]])
    found = {}
    for options in (HALF, FULL):
        trunk = place(load_base(base)[0], "cpu", options.resolved()[1]).eval()
        found[options] = trunk(ids, torch.ones_like(ids), torch.zeros_like(ids))[:, -32:]
    assert apart(found[HALF], found[FULL]) < 0.03


def test_persistent_buffers_are_cast_and_others_are_not():
    part = torch.nn.BatchNorm1d(2)
    part.register_buffer("made", torch.tensor([1 / 3]), persistent=False)
    cast(part, torch.bfloat16)
    assert part.running_mean.dtype == part.weight.dtype == torch.bfloat16
    assert part.num_batches_tracked.dtype == torch.int64
    assert part.made.dtype == torch.float32


def test_tied_weights_stay_tied():
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 2}
    model = T5ForConditionalGeneration(T5Config(vocab_size=40, **sizes))
    place(model, "cpu", torch.bfloat16)
    assert model.shared.weight is model.encoder.embed_tokens.weight is model.lm_head.weight
    assert model.lm_head.weight.dtype == torch.bfloat16


@torch.inference_mode()
def test_what_overflows_in_float16_stays_in_float32_as_its_authors_say(tmp_path):
    trunk = place(load_base(write_t5(tmp_path))[0], "cpu", torch.float16).eval()
    dtypes = {name.split(".")[-2]: p.dtype for name, p in trunk.named_parameters()}
    assert dtypes["wo"] == torch.float32 and dtypes["wi"] == torch.float16
    ids = torch.tensor([[5, 6, 7, 1]])
    assert trunk(ids, torch.ones_like(ids), torch.zeros_like(ids)).isfinite().all()


@pytest.fixture(scope="module")
def overflowing(tmp_path_factory):
    """A language model whose states fit float32 and bfloat16, and not float16."""
    folder = write_llama(tmp_path_factory.mktemp("overflowing"))
    model = AutoModelForCausalLM.from_pretrained(folder)
    model.model.layers[0].mlp.down_proj.weight.data *= 3e4
    model.save_pretrained(folder)
    return folder


CALLS = {
    "generate": lambda base, how, _: LocalGenerator.from_pretrained(base, **how).generate(["a"]),
    "draft": lambda base, how, _: LocalGenerator.from_pretrained(base, **how).draft(["a"]),
    "rescore": lambda base, how, _: LocalGenerator.from_pretrained(base, **how).rescore(
        QUESTIONS, DRAFTS
    ),
    "p_yes": lambda base, how, _: LocalGenerator.from_pretrained(base, **how).p_yes(["a"]),
    "ensemble": lambda base, how, _: ReplugGenerator.from_pretrained(base, **how).ensemble(
        [(["a", "b"], [0.5, 0.5])]
    ),
    "continue": lambda base, how, _: Continuer(
        LocalGenerator.from_pretrained(base, **how)
    ).continue_with_logprobs(["a"], ["b"]),
    "ik": lambda base, how, folder: IKClassifier.from_pretrained(
        write_ik(folder, base), **how
    ).p_known(QUESTIONS, DRAFTS),
    "head": lambda base, how, folder: IKClassifier.from_pretrained(
        write_ik(folder, base, variant="head"), **how
    ).p_known(QUESTIONS, DRAFTS),
    "judge": lambda base, how, folder: NecessityJudge.from_pretrained(
        write_judge(folder, base), **how
    ).judge(QUESTIONS, DRAFTS),
}


@pytest.mark.parametrize("call", CALLS)
def test_numbers_that_overflow_are_an_error_and_no_answer(call, overflowing, tmp_path):
    with pytest.raises(ModelLoadError, match="not finite in torch.float16: .*dtype='float32'"):
        CALLS[call](overflowing, {"device": "cpu", "dtype": "float16"}, tmp_path)
    assert CALLS[call](overflowing, {"device": "cpu", "dtype": "bfloat16"}, tmp_path)


@pytest.mark.parametrize(
    ("make", "verb"),
    [
        (make_scorer, "score"),
        (make_onepass, "score"),
        (make_reader, "read"),
        (make_evaluator, "evaluate"),
    ],
)
def test_states_that_are_no_numbers_are_no_scores(make, verb, tmp_path):
    made = make(write_bert(tmp_path))
    (getattr(made, "_grader", made))._engine.trunk.encoder.embeddings.LayerNorm.bias.data[3] = (
        torch.inf
    )
    with pytest.raises(ModelLoadError, match="not finite in torch.float32"):
        getattr(made, verb)([("what river", Passage("1", "the danube is a river"))])


def test_a_checkpoint_stored_in_half_precision_trains_in_float32(tmp_path):
    folder = write_bert(tmp_path)
    BertModel.from_pretrained(folder).bfloat16().save_pretrained(folder)
    trunk, _ = load_base(folder)
    assert isinstance(trunk, Trunk)
    assert {p.dtype for p in copy.deepcopy(trunk).parameters()} == {torch.float32}


@pytest.mark.parametrize("native", [True, False])
def test_emulated_bfloat16_is_not_the_default(monkeypatch, native):
    """A V100 or T4 says that it has bfloat16 only when emulation counts."""
    monkeypatch.setattr(
        torch.cuda,
        "is_bf16_supported",
        lambda including_emulation=True: native or including_emulation,
    )
    if native:
        assert Options(device="cuda").resolved()[1] == torch.bfloat16
    else:
        with pytest.warns(RuntimeWarning, match="cuda does not multiply bfloat16: .*float16"):
            assert Options(device="cuda").resolved()[1] == torch.float32


def test_weights_that_do_not_fit_say_what_to_do(monkeypatch, tmp_path):
    def full(*_, **__):
        raise torch.OutOfMemoryError("tried to allocate 2 GiB")

    folder = write_cross_encoder(tmp_path)
    monkeypatch.setattr(torch.nn.Module, "to", full)
    with pytest.raises(DeviceMemoryError, match="no memory on cpu for the weights of .*device_map"):
        BiLabelScorer.from_reranker(folder, device="cpu")


@pytest.mark.parametrize(("device", "count"), [("cuda", 0), ("cuda:2", 2)])
def test_a_device_that_is_hidden_or_not_there_is_refused(monkeypatch, device, count):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: True)
    with pytest.raises(InputError, match=f"of the {count} CUDA devices .*, got '{device}'"):
        Options.checked(device)


class OnHost:
    """A tensor that tells how it was copied."""

    def __init__(self):
        self.told = []

    def pin_memory(self):
        self.told.append("pinned")
        return self

    def to(self, device, **how):
        self.told.append((str(device), how))
        return self


def test_copies_to_a_gpu_are_pinned_and_do_not_wait():
    for device, told in (
        ("cuda:1", ["pinned", ("cuda:1", {"non_blocking": True})]),
        ("cpu", [("cpu", {})]),
    ):
        assert sent(OnHost(), device).told == told
