"""How an encoder's token states become one vector, as its checkpoint was trained.

sentence-transformers writes it beside the weights: `modules.json`, the pooling module's own
`config.json`, and `sentence_bert_config.json` for the input length. A checkpoint without them, as
Contriever (Izacard et al., 2022, section 3), is averaged over its tokens and not normalised.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fitrag_integrations.core import jsonl
from fitrag_integrations.errors import InputError, ModelLoadError
from fitrag_integrations.models.runtime.sources import MINILM

POOLINGS = ("mean", "first")
_FLAGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first"}
_WORDS = {"mean": "mean", "cls": "first"}


@dataclass(frozen=True, slots=True)
class Recipe:
    """Pooling ("mean" or "first" token), normalization to length 1, and maximum input length."""

    pooling: str = "mean"
    normalize: bool = False
    max_tokens: int = 512


# So that these need no look-up: their files may be cached without what this module reads.
_KNOWN = {
    MINILM: Recipe("mean", normalize=True, max_tokens=256),
    "facebook/contriever": Recipe(),
    "facebook/contriever-msmarco": Recipe(),
}


def recipe_of(
    name: str,
    source: str,
    *,
    pooling: str | None = None,
    normalize: bool | None = None,
    max_tokens: int | None = None,
) -> Recipe:
    """Find a checkpoint's recipe; what is given wins over what is written beside the weights.

    `source` is the folder or hub name that the weights come from.
    """
    if pooling is not None and pooling not in POOLINGS:
        raise InputError.of("pooling", given=pooling, allowed=" or ".join(map(repr, POOLINGS)))
    given = {"pooling": pooling, "normalize": normalize, "max_tokens": max_tokens}
    chosen: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if {"pooling", "normalize"} <= chosen.keys():
        return replace(_KNOWN.get(name, Recipe()), **chosen)
    return replace(_KNOWN.get(name) or _written(source), **chosen)


def _written(source: str) -> Recipe:
    modules = _read(source, "modules.json")
    if modules is None:
        return Recipe()
    paths = {module["type"].rpartition(".")[2]: module["path"] for module in modules}
    unknown = sorted(paths.keys() - {"Transformer", "Pooling", "Normalize"})
    if unknown or "Pooling" not in paths:
        raise ModelLoadError(
            f"encoder {source!r}: modules.json lists {sorted(paths)}; allowed: Transformer, "
            "Pooling and Normalize; encode with sentence-transformers and give that object"
        )
    length = (_read(source, "sentence_bert_config.json") or {}).get("max_seq_length")
    return Recipe(_pooling(source, paths["Pooling"]), "Normalize" in paths, length or 512)


def _pooling(source: str, path: str) -> str:
    config: dict[str, object] = _read(source, f"{path}/config.json") or {}
    modes = [_FLAGS.get(k, str(k)) for k, on in config.items() if on is True and "_mode_" in k]
    if isinstance(word := config.get("pooling_mode"), str):
        modes = [_WORDS.get(word, word)]
    if len(modes) != 1 or modes[0] not in POOLINGS:
        allowed = "one of mean and cls; or give pooling= and normalize="
        raise ModelLoadError(f"encoder {source!r}: pooling is {modes}; allowed: {allowed}")
    return modes[0]


def _read(source: str, name: str) -> Any:
    """Read a JSON file of a folder or a hub repository; None where it has no such file."""
    if Path(source).is_dir():
        path = Path(source) / name
        return jsonl.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    from transformers.utils.hub import cached_file

    try:
        found = cached_file(source, name, _raise_exceptions_for_missing_entries=False)
    except OSError as error:
        raise ModelLoadError(
            f"encoder {source!r}: cannot tell how to pool, for {name} could not be looked up; "
            "give pooling= and normalize="
        ) from error
    return None if found is None else jsonl.loads(Path(found).read_text(encoding="utf-8"))
