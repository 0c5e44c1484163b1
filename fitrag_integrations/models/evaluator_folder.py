"""What an evaluator keeps in its folder beside the weights: its name and its thresholds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from fitrag_integrations._actions import ActionThresholds
from fitrag_integrations.models.folder import read_manifest, write_manifest
from fitrag_integrations.models.grader import HeadGrader
from fitrag_integrations.models.sequence_grader import read_fields, write_fields
from fitrag_integrations.models.sources import model_folder


def store_fields(folder: Path, *, name: str, thresholds: ActionThresholds | None) -> None:
    """Write a name and thresholds into an evaluator's folder, leaving all else as it is."""
    ours = is_ours(folder)
    given = read_manifest(folder, "model.json", kind=HeadGrader.kind) if ours else None
    fields = dict(read_fields(folder) if given is None else given)
    fields |= {"name": name}
    if thresholds is not None:
        fields["thresholds"] = replace(thresholds, model=name).to_dict()
    if given is None:
        write_fields(folder, fields)
        return
    plain = {key: value for key, value in fields.items() if key not in ("format", "kind")}
    write_manifest(folder, "model.json", kind=HeadGrader.kind, fields=plain)


def is_ours(folder: Path) -> bool:
    """Say whether a folder holds a head of ours, and not a checkpoint of transformers alone."""
    if not folder.is_dir():
        return False
    return (folder / "model.json").is_file() and not read_fields(folder)


def find(name_or_dir: str | Path) -> Path | str:
    """Give a folder, or the name of a checkpoint that transformers is to fetch itself."""
    folder = Path(name_or_dir).expanduser()
    if folder.exists() or str(name_or_dir).count("/") != 1:
        return folder
    from huggingface_hub import hf_hub_download

    try:
        hf_hub_download(str(name_or_dir), "model.json")
    except (OSError, ValueError):  # not there, or no hub: loading it by name says which
        return str(name_or_dir)
    return model_folder(name_or_dir)


def stored_thresholds(fields: dict[str, Any], name: str) -> ActionThresholds | None:
    """Read the thresholds kept with an evaluator; `name` is what they belong to."""
    given = fields.get("thresholds")
    return None if given is None else ActionThresholds.from_dict({"model": name, **given})
