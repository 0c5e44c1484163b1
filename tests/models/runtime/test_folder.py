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


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        ("model.json", "model.json is missing"),
        ("head.safetensors", "head.safetensors is missing"),
        ("encoder/encoder.json", "encoder.json is missing"),
    ],
)
def test_a_missing_file_is_named(load, copy, missing, named):
    (copy / missing).unlink()
    with pytest.raises(ModelLoadError, match=named) as caught:
        load(copy)
    assert str((copy / missing).parent) in str(caught.value)


def test_a_folder_that_is_not_there_is_named(load, tmp_path):
    with pytest.raises(ModelLoadError, match="absent: model.json is missing"):
        load(tmp_path / "absent")


@pytest.mark.parametrize("file", ["model.json", "encoder/encoder.json"])
@pytest.mark.parametrize("content", [b"{", b"[1]", b"\xff\xfe", b""])
def test_damaged_json_is_named(load, copy, file, content):
    (copy / file).write_bytes(content)
    with pytest.raises(ModelLoadError, match="is damaged") as caught:
        load(copy)
    assert str(copy / file) in str(caught.value)


@pytest.mark.parametrize("file", ["model.json", "encoder/encoder.json"])
@pytest.mark.parametrize("fields", [{"kind": "else"}, {"format": 2}, {"format": None}])
def test_another_kind_or_format_is_refused(load, copy, file, fields):
    change(copy / file, **fields)
    with pytest.raises(ModelLoadError, match="given format and kind .* allowed 1, '") as caught:
        load(copy)
    assert str(copy / file) in str(caught.value)


def test_a_changed_byte_is_refused(load, copy):
    weights = copy / "head.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(ChecksumError, match="expected [0-9a-f]{64}") as caught:
        load(copy)
    assert str(weights) in str(caught.value)


def test_damaged_weights_with_the_right_checksum_are_named(load, copy):
    weights = copy / "head.safetensors"
    weights.write_bytes(weights.read_bytes()[:-8])
    head = json.loads((copy / "model.json").read_text())["head"]
    head["sha256"] = hashlib.sha256(weights.read_bytes()).hexdigest()
    change(copy / "model.json", head=head)
    with pytest.raises(ModelLoadError, match="head.safetensors is damaged"):
        load(copy)


def test_a_base_that_is_gone_is_named(load, copy, tmp_path):
    change(copy / "encoder" / "encoder.json", base=str(tmp_path / "gone"))
    with pytest.raises(ModelLoadError, match="gone': config.json is missing"):
        load(copy)


@pytest.mark.parametrize(
    ("file", "field"),
    [
        ("model.json", "encoder"),
        ("model.json", "head"),
        ("encoder/encoder.json", "base"),
        ("encoder/encoder.json", "max_length"),
    ],
)
def test_a_missing_field_is_named(load, copy, file, field):
    change(copy / file, **{field: None})
    with pytest.raises(ModelLoadError, match=field):
        load(copy)


def test_a_head_of_another_shape_is_named(load, copy):
    entry = json.loads((copy / "model.json").read_text())["head"]
    entry |= write_tensors(copy, "head.safetensors", {"rarity": torch.ones(3), "x": torch.ones(1)})
    change(copy / "model.json", head=entry)
    with pytest.raises(ModelLoadError, match="head.safetensors"):
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
