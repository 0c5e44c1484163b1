"""A spoiled checkpoint is refused by every loader, with its place and a remedy."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from test_loading import change
from tiny import make_scorer, write_bert, write_cross_encoder, write_t5
from tiny_causal import write_ik, write_llama

from fitrag_integrations.errors import ModelLoadError
from fitrag_integrations.models import (
    BiLabelScorer,
    IKClassifier,
    LocalGenerator,
    NecessityJudge,
    RetrievalEvaluator,
)
from fitrag_integrations.retrieval import Encoder


def over_bert(folder):
    """Load a scorer of ours whose encoder is the checkpoint."""
    whole = write_bert(folder.parent / "whole")
    make_scorer(whole).save_pretrained(folder.parent / "scorer")
    change(folder.parent / "scorer" / "encoder" / "encoder.json", base=str(folder))
    return BiLabelScorer.from_pretrained(folder.parent / "scorer", device="cpu")


def over_llama(folder):
    """Load a gate of ours whose language model is the checkpoint."""
    write_ik(folder.parent / "gate", write_llama(folder.parent / "whole"))
    change(folder.parent / "gate" / "model.json", base=str(folder))
    return IKClassifier.from_pretrained(folder.parent / "gate", device="cpu")


LOADERS = {
    "scorer": (write_bert, over_bert),
    "Encoder": (write_bert, lambda folder: Encoder(str(folder), device="cpu").encode(["river"])),
    "from_reranker": (write_cross_encoder, BiLabelScorer.from_reranker),
    "evaluator": (write_cross_encoder, RetrievalEvaluator.from_pretrained),
    "generator": (write_llama, LocalGenerator.from_pretrained),
    "gate": (write_llama, over_llama),
}


def a_shard_less(folder):
    """Split the weights into two files, of which one is lost."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names, kept = sorted(tensors), "model-00001-of-00002.safetensors"
    half = names[: len(names) // 2]
    save_file({n: tensors[n] for n in half}, folder / kept, metadata={"format": "pt"})
    files = {n: kept if n in half else kept.replace("1-of", "2-of") for n in names}
    index = {"metadata": {"total_size": 1}, "weight_map": files}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def one_tensor(make):
    def spoil(folder):
        tensors = load_file(folder / "model.safetensors")
        name = next(n for n in sorted(tensors) if "layer" in n and n.endswith("weight"))
        changed = make(tensors.pop(name))
        tensors |= {} if changed is None else {name: changed}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    return spoil


def another_tokenizer(folder):
    """Add more tokens than the embedding has rows."""
    path = folder / "tokenizer.json"
    fields = json.loads(path.read_text())
    (first, *_) = fields["added_tokens"]
    new = [{**first, "id": 5000 + n, "content": f"<{n}>"} for n in range(4)]
    fields["added_tokens"] += new
    fields["model"]["vocab"] |= {f"w{n}": n for n in range(len(fields["model"]["vocab"]), 5000)}
    path.write_text(json.dumps(fields))


SPOILED = {
    "a missing shard": (a_shard_less, "model-00002-of-00002.safetensors is missing.*copy"),
    "a missing weight": (one_tensor(lambda t: None), "lack .*layer"),
    "another shape": (one_tensor(lambda t: t.new_zeros(3, 3)), r"layer.*\[3, 3\].*restore"),
    "NaN": (one_tensor(lambda t: t.fill_(torch.nan)), "layer.* holds NaN or infinity; restore"),
    "another tokenizer": (another_tokenizer, "another model's; copy the tokenizer files"),
}


@pytest.mark.parametrize("spoiled", SPOILED)
@pytest.mark.parametrize("loader", LOADERS)
def test_a_spoiled_checkpoint_is_refused(tmp_path, loader, spoiled):
    (write, load), (spoil, message) = LOADERS[loader], SPOILED[spoiled]
    folder = tmp_path / "spoiled"
    folder.mkdir()
    write(folder)
    spoil(folder)
    with pytest.raises(ModelLoadError, match=message) as caught:
        load(folder)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(
    ("write", "load", "message"),
    [
        (write_bert, LocalGenerator.from_pretrained, "cannot write"),
        (write_bert, NecessityJudge.from_pretrained, "cannot write"),
        (write_bert, RetrievalEvaluator.from_pretrained, "outputs|lack"),
        (write_t5, LocalGenerator.from_pretrained, "encoder with a decoder.*RemoteGenerator"),
    ],
)
def test_another_architecture_is_refused_and_no_weight_is_random(tmp_path, write, load, message):
    with pytest.raises(ModelLoadError, match=message):
        load(write(tmp_path))
