"""What a model folder refuses, and that each refusal names the file and what is allowed."""

import hashlib
import json
import shutil

import pytest
import torch

from fitrag_integrations.errors import ChecksumError, ModelLoadError
from fitrag_integrations.models.runtime.folder import (
    read_manifest,
    read_tensors,
    write_manifest,
    write_tensors,
)
from fitrag_integrations.models.runtime.sources import model_folder


@pytest.fixture
def copy(kind, folders, tmp_path):
    """A saved model to damage."""
    return shutil.copytree(folders[kind], tmp_path / kind)


def change(path, **fields):
    """Set fields of a JSON file; None takes one out."""
    manifest = json.loads(path.read_text()) | fields
    path.write_text(json.dumps({k: v for k, v in manifest.items() if v is not None}))


def test_tensors_and_their_entry_come_back(tmp_path):
    tensors = {"a": torch.randn(3, 2), "b": torch.arange(6.0).reshape(2, 3).T}
    entry = write_tensors(tmp_path / "new", "w.safetensors", tensors)
    assert (
        entry["sha256"] == hashlib.sha256((tmp_path / "new/w.safetensors").read_bytes()).hexdigest()
    )
    found = read_tensors(tmp_path / "new", entry)
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)


def test_a_manifest_comes_back(tmp_path):
    write_manifest(tmp_path / "new", "model.json", kind="reader", fields={"base": "é", "n": [1]})
    found = read_manifest(tmp_path / "new", "model.json", kind="reader")
    assert found == {"format": 1, "kind": "reader", "base": "é", "n": [1]}


def cut_short(copy):
    """Take the weights' last bytes, and give the rest its right checksum."""
    weights = copy / "head.safetensors"
    weights.write_bytes(weights.read_bytes()[:-8])
    head = json.loads((copy / "model.json").read_text())["head"]
    head["sha256"] = hashlib.sha256(weights.read_bytes()).hexdigest()
    change(copy / "model.json", head=head)


def another_shape(copy):
    entry = json.loads((copy / "model.json").read_text())["head"]
    entry |= write_tensors(copy, "head.safetensors", {"rarity": torch.ones(3), "x": torch.ones(1)})
    change(copy / "model.json", head=entry)


def another_byte(copy):
    weights = copy / "head.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)


JSON = ("model.json", "encoder/encoder.json")
FIELDS = ("encoder", "head"), ("base", "max_length")
DAMAGES = {
    **{
        f"no {name}": (name, lambda copy, name=name: (copy / name).unlink(), "is missing")
        for name in (*JSON, "head.safetensors")
    },
    **{
        f"{name} of {content!r}": (
            name,
            lambda copy, name=name, content=content: (copy / name).write_bytes(content),
            "is damaged",
        )
        for name in JSON
        for content in (b"{", b"[1]", b"\xff\xfe", b"")
    },
    **{
        f"{name} with {fields}": (
            name,
            lambda copy, name=name, fields=fields: change(copy / name, **fields),
            "is of format .* must be of format 1 and kind '",
        )
        for name in JSON
        for fields in ({"kind": "else"}, {"format": 2}, {"format": None})
    },
    **{
        f"{name} without {field}": (
            name,
            lambda copy, name=name, field=field: change(copy / name, **{field: None}),
            field,
        )
        for name, fields in zip(JSON, FIELDS, strict=True)
        for field in fields
    },
    "another byte": ("head.safetensors", another_byte, "expected [0-9a-f]{64}"),
    "weights cut short": ("head.safetensors", cut_short, "head.safetensors is damaged"),
    "a head of another shape": ("head.safetensors", another_shape, "head.safetensors"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_folder_is_refused_by_its_file(load, copy, damage):
    file, spoil, told = DAMAGES[damage]
    spoil(copy)
    error = ChecksumError if damage == "another byte" else ModelLoadError
    with pytest.raises(error, match=told) as caught:
        load(copy)
    assert str((copy / file).parent) in str(caught.value)


def test_a_folder_or_a_base_that_is_not_there_is_named(load, copy, tmp_path):
    with pytest.raises(ModelLoadError, match="absent: model.json is missing"):
        load(tmp_path / "absent")
    change(copy / "encoder" / "encoder.json", base=str(tmp_path / "gone"))
    with pytest.raises(
        ModelLoadError, match="gone': config.json is missing, since there is no such"
    ):
        load(copy)


def test_a_name_the_hub_does_not_give_is_told(tmp_path):
    with pytest.raises(ModelLoadError, match="'nobody/nothing' is no folder here and the hub"):
        model_folder("nobody/nothing")
    assert model_folder(tmp_path) == tmp_path


def test_a_repository_in_the_hubs_cache_is_a_model_folder(tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    repository, commit = tmp_path / "models--some--scorer", "0" * 40
    snapshot = repository / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (snapshot / "model.json").write_text("{}")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    assert model_folder("some/scorer") == snapshot
