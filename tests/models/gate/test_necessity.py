"""The necessity judge: verdicts written, and verdicts weighed."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_causal import DRAFTS, QUESTIONS, plainly, write_gpt2, write_judge, write_llama

from fitrag_integrations.errors import InputError, ModelLoadError, ThresholdMismatchError
from fitrag_integrations.models import NecessityJudge
from fitrag_integrations.models.gate.slimplm import JUDGES as TEMPLATES
from fitrag_integrations.models.words import parting
from fitrag_integrations.ports import Gate
from fitrag_integrations.values.slimplm import read_verdict


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("Known (True)", True),
        ("Known (False)", False),
        ("<Known(True)>", True),
        ("<Known(False)>", False),
        ("Output:\nKnown ( false )\nBecause ...", False),
        ("known: TRUE", True),
        ("True)", True),
        ("(False)", False),
        ("Known (True / False)", None),
        ("Known (maybe)", None),
        ("That is true.", None),
        ("Unknown (True)", None),
        ("Known (Truely)", None),
        ("", None),
    ],
)
def test_verdicts_are_read(text, verdict):
    assert read_verdict(text) is verdict


@given(st.one_of(st.text(), st.text(alphabet="knowntruefals (<)>/=:")))
def test_any_text_is_read(text):
    assert read_verdict(text) in (True, False, None)


@pytest.fixture(scope="module", params=[write_llama, write_gpt2], ids=["llama", "gpt2"])
def base(request, tmp_path_factory):
    return request.param(tmp_path_factory.mktemp("tiny-causal"))


@pytest.fixture(scope="module", params=["paper", "released"])
def folder(request, base, tmp_path_factory):
    home = tmp_path_factory.mktemp("judge")
    return write_judge(home / "judge", base, template=request.param, draft_tokens=8)


@pytest.fixture(scope="module")
def judge(folder):
    made = NecessityJudge.from_pretrained(folder, device="cpu")
    yield made
    made.unload()


def test_it_is_a_gate(judge):
    assert isinstance(judge, Gate)
    assert (judge.threshold, judge.draft_tokens, judge.model_name) == (0.5, 8, "tiny")
    assert all(0 <= score <= 1 for score in judge.p_known(QUESTIONS, DRAFTS))


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_score_weighs_true_against_false(base, name):
    """Compare with the plain model's logits where the two verdicts part."""
    judge = NecessityJudge.from_pretrained(base, device="cpu", template=name)
    model, tokenizer = plainly(base)
    template = TEMPLATES[name]
    text = template.prompt.format(question="what sea?", draft="the Black Sea")
    wholes = (tokenizer(text + end)["input_ids"] for end in template.verdicts)
    row, (known, unknown) = parting(*wholes)
    assert tokenizer.decode(row).endswith("(") and tokenizer.decode([known]).startswith("T")
    with torch.no_grad():
        last = model(torch.tensor([row])).logits[0, -1]
    expected = float((last[known] - last[unknown]).sigmoid())
    assert judge.p_known(["what sea?"], ["the Black Sea"]) == pytest.approx([expected], abs=1e-4)


def test_a_random_model_gives_no_verdict(base):
    judge = NecessityJudge.from_pretrained(base, device="cpu")
    assert judge.judge(QUESTIONS, DRAFTS) == [None] * 3
    assert judge.template is TEMPLATES["paper"] and judge.model_name == ""


def test_a_saved_judge_is_the_same(judge, tmp_path):
    judge.save_pretrained(tmp_path / "again")
    again = NecessityJudge.from_pretrained(tmp_path / "again", device="cpu")
    assert again.p_known(QUESTIONS, DRAFTS) == pytest.approx(judge.p_known(QUESTIONS, DRAFTS))
    assert again.template is judge.template
    again.unload()


def test_wrong_input_is_named(judge, base, folder):
    with pytest.raises(InputError, match="template` must be paper or released"):
        NecessityJudge.from_pretrained(base, device="cpu", template="mine")
    with pytest.raises(ThresholdMismatchError, match="fitted for 'tiny', given 'other'"):
        NecessityJudge.from_pretrained(folder, device="cpu", for_model="other")


def test_a_folder_that_is_no_judge_is_told(tmp_path):
    with pytest.raises(ModelLoadError, match="model.json is missing; is this a necessity folder"):
        NecessityJudge.from_pretrained(tmp_path)


def test_verdicts_written_alike_are_told():
    with pytest.raises(ModelLoadError, match="writes two verdicts alike"):
        parting([1, 2, 3], [1, 2, 3])
