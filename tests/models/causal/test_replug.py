"""REPLUG's ensemble: plain decoding with one prompt, and the weighted mean with several."""

import pytest
import torch
from tiny_causal import plainly, write_gpt2, write_llama

from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import run
from fitrag_integrations.methods.baselines import Replug
from fitrag_integrations.models import LocalGenerator, ReplugGenerator
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Passage

PROMPTS = [
    "The river is in Rome.\nQuestion: what sea?\nAnswer:",
    "The king wrote the score of the film, and the ocean.\nQuestion: what sea?\nAnswer:",
    "Yes.\nQuestion: what sea?\nAnswer:",
]
WEIGHTS = (0.2, 0.5, 0.3)


@pytest.fixture(scope="module", params=[write_llama, write_gpt2], ids=["llama", "gpt2"])
def base(request, tmp_path_factory):
    return request.param(tmp_path_factory.mktemp("tiny-replug"))


@pytest.fixture(scope="module")
def model(base):
    made = ReplugGenerator.from_pretrained(base, device="cpu", max_new_tokens=12, stop=())
    yield made
    made.unload()


def by_hand(base, prompts, weights, steps):
    """Choose each token from the weighted mean, one prompt at a time and without a cache."""
    model, tokenizer = plainly(base)
    written = []
    for _ in range(steps):
        mean = 0
        for prompt, weight in zip(prompts, weights, strict=True):
            ids = torch.tensor([[*tokenizer(prompt)["input_ids"], *written]])
            with torch.no_grad():
                mean = mean + weight * model(ids).logits[0, -1].softmax(-1)
        written.append(int(mean.argmax()))
        if written[-1] == tokenizer.eos_token_id:
            break
    return tokenizer.decode(written, skip_special_tokens=True).strip()


def test_one_prompt_is_plain_greedy_decoding(model, base):
    plain = LocalGenerator.from_pretrained(base, device="cpu", max_new_tokens=12, stop=())
    expected = plain.generate(PROMPTS)
    assert model.ensemble([([prompt], [0.7]) for prompt in PROMPTS]) == expected
    assert len(set(expected)) > 1
    assert model.ensemble([([prompt] * 3, WEIGHTS) for prompt in PROMPTS]) == expected
    assert model.generate(PROMPTS) == expected


def test_several_prompts_are_the_weighted_mean(model, base):
    (found,) = model.ensemble([(PROMPTS, WEIGHTS)])
    assert found == by_hand(base, PROMPTS, WEIGHTS, 12)
    doubled = model.ensemble([(PROMPTS, [2 * weight for weight in WEIGHTS])])
    assert doubled == [found]
    alone = model.ensemble([(PROMPTS, (0.0, 1.0, 0.0))])
    assert alone == model.generate(PROMPTS[1:2])


def test_it_stops_where_plain_decoding_does(base):
    options = {"device": "cpu", "max_new_tokens": 12}
    whole = LocalGenerator.from_pretrained(base, stop=(), **options)
    (text,) = whole.generate(PROMPTS[:1])
    mark = text[len(text) // 2]
    model = ReplugGenerator.from_pretrained(base, stop=(mark,), **options)
    assert model.ensemble([(PROMPTS[:1], [1.0])]) == [text.split(mark)[0].strip()]


def test_a_tight_input_leaves_room_for_what_fits(tmp_path):
    folder = write_gpt2(tmp_path / "tight", positions=40)
    model = ReplugGenerator.from_pretrained(folder, device="cpu", max_new_tokens=30, stop=())
    plain = LocalGenerator.from_pretrained(folder, device="cpu", max_new_tokens=30, stop=())
    items = [(["what sea?"], [1.0]), (["the river of the king in Rome? " * 2], [1.0])]
    assert model.ensemble(items) == plain.generate([prompts[0] for prompts, _ in items])
    with pytest.raises(InputError, match="fewer than 40"):
        model.ensemble([(["what sea?", "the river " * 60], [0.5, 0.5])])


def test_the_method_answers_through_it(model):
    found = [Passage(f"p{n}", "The river.", metadata={"retrieval_score": n}) for n in range(3)]
    found = [Passage(p.id, p.text + str(n), metadata=p.metadata) for n, p in enumerate(found)]
    ports = Ports(retrieve=lambda queries: [found for _ in queries])
    context = run(Replug(model, k=2)("what sea?", ports)).value
    assert context.details == {"answers": True} and context.draft
    assert sum(excerpt.score for excerpt in context.excerpts) == pytest.approx(1.0)
