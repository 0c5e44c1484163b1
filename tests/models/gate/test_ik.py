"""The IK classifier: a softmax over two words, or a head, loaded, saved and checked."""

import pickle
import shutil

import pytest
import torch
from tiny_causal import DRAFTS, QUESTIONS, fitted, set_field, write_gpt2, write_ik, write_llama
from transformers import AutoModelForCausalLM, AutoTokenizer

from fitrag_integrations.errors import ModelLoadError, ThresholdMismatchError
from fitrag_integrations.models import IKClassifier, LocalGenerator
from fitrag_integrations.models.causal.states import FACTS, KnownHead
from fitrag_integrations.models.runtime.worker import finished
from fitrag_integrations.models.words import PROMPTS
from fitrag_integrations.ports import Gate


@pytest.fixture(scope="module", params=[write_llama, write_gpt2], ids=["llama", "gpt2"])
def base(request, tmp_path_factory):
    return request.param(tmp_path_factory.mktemp("tiny-causal"))


@pytest.fixture(scope="module", params=["lora", "head"])
def folder(request, base, tmp_path_factory):
    home = tmp_path_factory.mktemp("models")
    write_ik(home / "ik", base, variant=request.param)
    return home / "ik"


@pytest.fixture(scope="module")
def ik(folder):
    made = IKClassifier.from_pretrained(folder, device="cpu")
    yield made
    made.unload()


@pytest.fixture
def changed(folder, tmp_path):
    """Copy the folder with other fields in its manifest; gives the copy."""

    def copy(**fields):
        copied = shutil.copytree(folder, tmp_path / "ik")
        set_field(copied, **fields)
        return copied

    return copy


def test_it_is_a_gate(ik):
    assert isinstance(ik, Gate)
    assert (ik.threshold, ik.fitted, ik.draft_tokens) == (0.5, None, 8)
    assert (ik.model_name, ik.name) == ("tiny", "IK for tiny")
    assert repr(ik) == "IKClassifier('ik', device='cpu')"


# what peft asks of transformers
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
def test_the_score_is_the_softmax_of_yes_and_no(base, tmp_path):
    """Fold the adapter into the weights by hand, and ask the plain model."""
    from peft import PeftModel

    write_ik(tmp_path / "ik", base)
    gate = IKClassifier.from_pretrained(tmp_path / "ik", device="cpu")
    tokenizer = AutoTokenizer.from_pretrained(base)
    plain = AutoModelForCausalLM.from_pretrained(base)
    model = PeftModel.from_pretrained(plain, str(tmp_path / "ik"))
    yes, no = (tokenizer(word)["input_ids"][0] for word in (" Yes", " No"))
    for name, draft, temperature in (("question", "", 2.0), ("draft", "the Black Sea", 0.5)):
        text = PROMPTS[name].format(question="what sea?", draft=draft)
        with torch.no_grad():
            last = model(input_ids=torch.tensor([tokenizer(text)["input_ids"]])).logits[0, -1]
        expected = float(((last[yes] - last[no]) / temperature).sigmoid())
        assert gate.p_known(["what sea?"], [draft]) == pytest.approx([expected], abs=1e-4)


def test_a_blank_draft_is_none(ik):
    (alone,) = ik.p_known(["what sea?"], [""])
    assert ik.p_known(["what sea?"] * 2, [" \n\t", "\u2003"]) == pytest.approx([alone] * 2)
    assert ik.p_known(["what sea?"], ["the Black Sea"]) != pytest.approx([alone], abs=1e-3)


def test_half_a_character_is_read_as_a_replacement(ik):
    halves = ik.p_known(["what \ud83d sea?"], ["the \udc00 sea"])
    assert halves == pytest.approx(ik.p_known(["what \ufffd sea?"], ["the \ufffd sea"]))
    assert ik.generator().generate(["what \ud83d sea?"])


def test_a_draft_is_cut_to_its_tokens_none_too(ik, changed):
    (cut,) = ik.generator().first_tokens(["the river " * 40], ik.draft_tokens)
    long, short = ik.p_known(["what sea?"] * 2, ["the river " * 40, cut])
    assert long == pytest.approx(short, abs=1e-5)

    gate = IKClassifier.from_pretrained(changed(draft_tokens=0), device="cpu")
    alone, drafted = gate.p_known(["what sea?"] * 2, ["", "the Black Sea"])
    assert alone == pytest.approx(drafted, abs=1e-6)


def test_a_saved_classifier_is_the_same(ik, folder, tmp_path):
    ik.save_pretrained(tmp_path / "again")
    again = IKClassifier.from_pretrained(tmp_path / "again", device="cpu")
    assert again.p_known(QUESTIONS, DRAFTS) == pytest.approx(ik.p_known(QUESTIONS, DRAFTS))
    assert again.manifest["temperatures"] == [2.0, 0.5] and again.variant == ik.variant
    assert again._engine is ik._engine


def test_its_own_base_drafts_shares_the_weights_and_outlives_it(ik, base, changed):
    assert ik.model_name == "tiny" and ik.drafter is None
    own = changed(model=base.rpartition("/")[2])
    gate = IKClassifier.from_pretrained(own, device="cpu", batch_tokens=333)
    drafter = gate.drafter
    assert drafter is gate.drafter and drafter._engine is gate._engine
    assert drafter.name == gate.model_name
    assert drafter.draft_tokens == gate.draft_tokens
    drafts = drafter.draft(QUESTIONS)
    again = pickle.loads(pickle.dumps(drafter))
    assert again._engine is drafter._engine
    again.unload()
    gate.unload()
    assert drafter.draft(QUESTIONS) == drafts
    with pytest.raises(ModelLoadError, match="unloaded: load it again"):
        gate.p_known(QUESTIONS, DRAFTS)
    with pytest.raises(ModelLoadError, match="unloaded: load it again"):
        gate.generator()


def test_a_base_may_be_a_neighbour(tmp_path):
    write_llama(tmp_path / "home" / "little")
    write_ik(tmp_path / "home" / "ik", "../little")
    gate = IKClassifier.from_pretrained(tmp_path / "home" / "ik", device="cpu")
    generator = LocalGenerator.from_pretrained(tmp_path / "home" / "little", device="cpu")
    assert gate._engine is generator._engine
    gate.save_pretrained(tmp_path / "elsewhere" / "deep")
    again = IKClassifier.from_pretrained(tmp_path / "elsewhere" / "deep", device="cpu")
    assert again._engine is generator._engine


def test_a_stored_threshold_is_used_by_its_model_alone(changed, folder):
    own = changed(threshold=fitted(0.73, "big"))
    gate = IKClassifier.from_pretrained(own, device="cpu", for_model="big")
    assert (gate.threshold, gate.fitted.rows, gate.model_name) == (0.73, 9, "big")
    with pytest.raises(ThresholdMismatchError, match="fitted for 'tiny', given 'other'"):
        IKClassifier.from_pretrained(folder, device="cpu", for_model="other")
    fine = IKClassifier.from_pretrained(
        folder, device="cpu", for_model="other", allow_other_model=True
    )
    assert pickle.loads(pickle.dumps(fine)).model_name == fine.model_name


def test_no_token_for_yes_or_no(tmp_path):
    base = write_llama(tmp_path / "letters", whole=False)
    write_ik(tmp_path / "ik", base)
    with pytest.raises(ModelLoadError, match="letters.* no single token for 'Yes'.*tried ' Yes'"):
        IKClassifier.from_pretrained(tmp_path / "ik", device="cpu")
    write_ik(tmp_path / "head", base, variant="head")  # reads no word
    gate = IKClassifier.from_pretrained(tmp_path / "head", device="cpu")
    assert len(gate.p_known(QUESTIONS, DRAFTS)) == 3


def test_other_words_may_be_asked_for(base, tmp_path):
    write_ik(tmp_path / "ik", base, words=["True", "False"])
    gate = IKClassifier.from_pretrained(tmp_path / "ik", device="cpu")
    tokenizer = gate._engine.tokenizer
    assert [tokenizer.decode([i]) for i in gate.word_ids] == ["True", "False"]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"variant": "whole"}, "variant is 'whole', not one of lora, full, head"),
        ({"kind": "reader"}, "of format 1 and kind 'reader'; it must be of format 1 and kind 'ik'"),
        ({"base": "/nowhere"}, "config.json is missing"),
    ],
)
def test_a_wrong_manifest_is_told(changed, fields, named):
    with pytest.raises(ModelLoadError, match=named):
        IKClassifier.from_pretrained(changed(**fields), device="cpu")


def test_an_adapter_of_another_base_is_refused(tmp_path):
    write_ik(tmp_path / "ik", write_llama(tmp_path / "llama"))
    set_field(tmp_path / "ik", base=write_gpt2(tmp_path / "gpt2"))
    with pytest.raises(ModelLoadError, match="the adapter does not fit the base model"):
        IKClassifier.from_pretrained(tmp_path / "ik", device="cpu")


def test_a_head_reads_states_and_surprise(base, tmp_path):
    """Rebuild one row's features from a plain forward pass."""
    from fitrag_integrations.models.causal.states import features

    write_ik(tmp_path / "ik", base, variant="head")
    gate = IKClassifier.from_pretrained(tmp_path / "ik", device="cpu")
    prompt, draft = [5, 6, 7, 8], [9, 10, 11]
    rows = [(prompt, draft), (prompt, []), (prompt[:2], draft)]
    found = finished(features(gate._engine, rows, [1, 2]))
    model = AutoModelForCausalLM.from_pretrained(base)
    with torch.no_grad():
        out = model(torch.tensor([[*prompt, *draft]]), output_hidden_states=True)
    states = [out.hidden_states[layer][0] for layer in (1, 2)]
    expected = torch.cat([torch.cat([s[-1], s[-3:].mean(0)]) for s in states])
    torch.testing.assert_close(found[0, :-FACTS], expected, atol=1e-4, rtol=1e-4)
    chances = out.logits[0, 3:6].softmax(-1)
    logs = chances[range(3), draft].log()
    facts = found[0, -FACTS:]
    assert facts[2] == pytest.approx(float(logs.mean()), abs=1e-4)
    assert facts[5] == pytest.approx(float(logs.min()), abs=1e-4)
    assert facts[1] == pytest.approx(float(torch.special.entr(chances[0]).sum()), abs=1e-4)
    entropies = torch.special.entr(chances).sum(-1)
    assert facts[8] == pytest.approx(float(torch.log1p(-logs.sum())), abs=1e-4)
    assert facts[9] == pytest.approx(float(torch.log1p(entropies.sum())), abs=1e-4)
    assert facts[10] == 1 and found[1, 2 - FACTS :].abs().sum() == 0
    single = facts[11:].view(-1, 3)
    torch.testing.assert_close(single[:3, 0], logs, atol=1e-4, rtol=1e-4)
    assert single[3:].tolist() == [[0.0, 1.0, 0.0]] * 5
    torch.testing.assert_close(found[1, -FACTS : -FACTS + 2], facts[:2], atol=1e-4, rtol=1e-4)


def test_a_head_standardizes_and_states_together_weigh_as_much_as_a_few():
    head = KnownHead(2)
    head.standardize(torch.tensor([[1.0, 5.0], [3.0, 5.0]]))
    assert head.mean.tolist() == [2.0, 5.0] and head.scale.tolist() == [1.0, pytest.approx(1e-3)]
    logits = head(torch.tensor([[2.0, 5.0]]))
    torch.testing.assert_close(logits, head.out.bias)
    head = KnownHead(193)
    head.standardize(torch.tensor([[1.0], [3.0]]).expand(2, 193), states=192)
    assert head.scale.tolist() == [pytest.approx(2.0)] * 192 + [1.0]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", [write_llama, write_gpt2])
def test_a_merged_adapter_gives_the_same_over_a_base_of_its_own(kind, tmp_path):
    base = kind(tmp_path / "base")
    folder = write_ik(tmp_path / "ik", base, model="base")
    plain = LocalGenerator.from_pretrained(base, device="cpu")
    before = plain.p_yes(QUESTIONS)
    apart = IKClassifier.from_pretrained(folder, device="cpu")
    merged = IKClassifier.from_pretrained(folder, device="cpu", merge_adapter=True)
    again = IKClassifier.from_pretrained(folder, device="cpu", merge_adapter=True)
    assert apart._engine is plain._engine and again._engine is merged._engine is not plain._engine
    names = {name for name, _ in merged._engine.model.named_modules()}
    assert not any("lora" in name for name in names) and not hasattr(merged._engine.model, "peft")
    expected = apart.p_known(QUESTIONS, DRAFTS)
    assert merged.p_known(QUESTIONS, DRAFTS) == pytest.approx(expected, abs=1e-5)
    assert expected != pytest.approx(before, abs=1e-3) and plain.p_yes(QUESTIONS) == before
    assert apart.drafter is not None and merged.drafter is None  # its base answers differently
    with pytest.raises(TypeError, match="without merge_adapter"):
        merged.generator()
    merged.save_pretrained(tmp_path / "out")
    saved = IKClassifier.from_pretrained(tmp_path / "out", device="cpu")
    assert saved.p_known(QUESTIONS, DRAFTS) == pytest.approx(expected, abs=1e-6)
    copy = pickle.loads(pickle.dumps(merged))
    assert copy.p_known(QUESTIONS, DRAFTS) == merged.p_known(QUESTIONS, DRAFTS)
