"""An adapter's factors: what is folded is peft's own merge, and what does not fit is refused."""

import pytest
import torch
from peft import LoraConfig, get_peft_model

from fitrag_integrations.errors import ModelLoadError
from fitrag_integrations.models.encoder.encoders import factors, fold, load_base

# what peft asks of transformers
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")


@pytest.fixture
def adapted(bert):
    config = LoraConfig(r=3, lora_alpha=12, target_modules=["query", "dense"])
    made = get_peft_model(load_base(bert)[0].encoder, config)
    torch.manual_seed(0)
    for name, weight in made.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(weight, std=0.2)
    return made


def test_folding_is_merging(bert, adapted):
    tensors = factors(adapted, dtype=torch.float32)
    encoder = load_base(bert)[0].encoder
    before = {name: weight.clone() for name, weight in encoder.named_parameters()}
    fold(encoder, tensors)
    merged = dict(adapted.merge_and_unload().named_parameters())
    changed = set()
    for name, weight in encoder.named_parameters():
        torch.testing.assert_close(weight, merged[name], atol=1e-6, rtol=1e-5)
        changed |= {name} if not torch.equal(weight, before[name]) else set()
        assert weight.requires_grad is (name in changed)  # what changed is what is saved
    assert changed == {f"{name.removesuffix('.A')}.weight" for name in tensors if name[-1] == "A"}


def test_one_layer_by_hand():
    layers = torch.nn.ModuleDict({"one": torch.nn.Linear(2, 2)})
    with torch.no_grad():
        layers["one"].weight.copy_(torch.eye(2))
    first, second = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [4.0]])
    fold(layers, {"one.A": first, "one.B": second})
    assert layers["one"].weight.tolist() == [[4.0, 6.0], [4.0, 9.0]]


@pytest.mark.parametrize(
    "tensors",
    [
        {"two.A": torch.ones(1, 2), "two.B": torch.ones(2, 1)},
        {"one.A": torch.ones(1, 2)},
        {"one.A": torch.ones(1, 3), "one.B": torch.ones(2, 1)},
    ],
)
def test_what_does_not_fit_is_refused(tensors):
    layers = torch.nn.ModuleDict({"one": torch.nn.Linear(2, 2)})
    with pytest.raises(ModelLoadError, match="does not fit"):
        fold(layers, tensors)
