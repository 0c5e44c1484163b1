"""How an encoder's token states become the vector of a text, as its checkpoint says.

sentence-transformers writes that beside the weights: `modules.json` lists the modules after the
transformer (pooling, dense layers, normalization), `sentence_bert_config.json` holds the input
length, and `config_sentence_transformers.json` the prompts before queries and passages. A
checkpoint without these files, such as Contriever (Izacard et al., 2022, section 3), is averaged
over its tokens, or read at its last one if it is a decoder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fitrag_integrations.core import jsonl
from fitrag_integrations.core.files import read_file
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import ModelLoadError, raise_if, refuse_if
from fitrag_integrations.models.runtime.sources import MINILM

POOLINGS = ("first", "mean", "last")
LAYERS = ("Dense", "LayerNorm")  # modules between pooling and normalization that can be run
_MODES = {"mean": "mean", "mean_tokens": "mean", "cls": "first", "cls_token": "first"}
_MODES |= {"lasttoken": "last"}
ROLES = {"query": ("query",), "document": ("document", "passage", "corpus")}
"""The names under which a checkpoint may have the prompt of a role, the first one present wins."""


@dataclass(frozen=True, slots=True)
class EncoderRecipe:
    """How the token states of a text become its vector.

    Args:
        pooling: "mean", "first" or "last" token.
        normalize: Whether vectors have length 1.
        max_tokens: Maximum input length, prompt included.
        truncate_dim: Number of leading dimensions that are kept, of a matryoshka encoder.
        prompts: Texts before the input, by name.
        default_prompt_name: The prompt of `encode`; that of `encode_query` and `encode_document`
            has the name of the role.
        include_prompt: Whether the prompt's tokens are pooled as well.
        layers: Modules after pooling, (type, folder), other than the last normalization.
    """

    pooling: str = "mean"
    normalize: bool = False
    max_tokens: int = 512
    truncate_dim: int | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt_name: str | None = None
    include_prompt: bool = True
    layers: tuple[tuple[str, str], ...] = ()

    @property
    def settings(self) -> dict[str, Any]:
        """Return what an index records of its encoder, without what the encoder does not have."""
        held = {"pooling": self.pooling, "normalize": self.normalize, "max_tokens": self.max_tokens}
        more = {
            "truncate_dim": self.truncate_dim,
            "prompts": dict(self.prompts),
            "default_prompt_name": self.default_prompt_name,
        }
        return held | {name: value for name, value in more.items() if value}

    def prompt(self, role: str) -> str:
        """Return the prompt for "query" or "document", or with "" the default one.

        Raises:
            InputError: If `role` is the name of no prompt.
        """
        names = ROLES.get(role, (role or self.default_prompt_name or "",))
        found = next((name for name in names if name in self.prompts), None)
        refuse_if(
            found is None and role and role not in ROLES,
            "prompt_name",
            role,
            ", ".join(self.prompts) or "none: the encoder has no prompts",
        )
        return self.prompts[found] if found is not None else ""


# So that these need no look-up: their files may be cached without what this module reads.
KNOWN = {
    MINILM: EncoderRecipe("mean", normalize=True, max_tokens=256),
    "facebook/contriever": EncoderRecipe(),
    "facebook/contriever-msmarco": EncoderRecipe(),
}


def recipe_of(name: str, source: str, config: Any, given: Row) -> EncoderRecipe:
    """Return a checkpoint's recipe.

    Args:
        name: The encoder's name.
        source: Folder or hub name of its weights.
        config: Configuration of the transformer.
        given: Fields that a caller has set; None is not set.

    Raises:
        InputError: If a field is wrong.
        ModelLoadError: If the recipe needs something that is not supported.
    """
    chosen = {key: value for key, value in given.items() if value is not None}
    pooling = chosen.get("pooling", "mean")
    refuse_if(pooling not in POOLINGS, "pooling", pooling, " or ".join(map(repr, POOLINGS)))
    found = KNOWN.get(name) or _written(source, config, chosen)
    if "prompts" in chosen and found.default_prompt_name not in chosen["prompts"]:
        found = replace(found, default_prompt_name=None)
    made = replace(found, **chosen)
    default, allowed = made.default_prompt_name, ", ".join(made.prompts)
    refuse_if(
        default and default not in made.prompts,
        "default_prompt_name",
        default,
        allowed or "None: there are no prompts",
    )
    return made


def _written(source: str, config: Any, chosen: Row) -> EncoderRecipe:
    """Read the recipe from the files beside the weights."""
    decoder = str((getattr(config, "architectures", None) or [""])[0]).endswith("ForCausalLM")
    bare = EncoderRecipe("last" if decoder else "mean")
    try:
        modules = read_json(source, "modules.json")
    except ModelLoadError:
        if {"pooling", "normalize"} <= chosen.keys():
            return bare
        raise
    named = read_json(source, "config_sentence_transformers.json") or {}
    prompts = {key: text for key, text in (named.get("prompts") or {}).items() if text is not None}
    default = named.get("default_prompt_name")
    bare = replace(bare, prompts=prompts, default_prompt_name=default if prompts else None)
    if modules is None:
        return bare
    listed = [(module["type"].rpartition(".")[2], module["path"]) for module in modules]
    kinds = [kind for kind, _ in listed]
    after = [each for each in listed[2:] if each[0] != "Dropout"]
    raise_if(
        kinds[:2] != ["Transformer", "Pooling"] or {k for k, _ in after} - {*LAYERS, "Normalize"},
        ModelLoadError,
        f"encoder {source!r}: modules.json lists {kinds}; it must list Transformer, Pooling, then "
        "Dense, LayerNorm and Normalize; encode with sentence-transformers and give that object",
    )
    normalize = bool(after) and after[-1][0] == "Normalize"
    pooled: dict[str, Any] = read_json(source, f"{listed[1][1]}/config.json") or {}
    modes = [k.partition("_mode_")[2] for k, on in pooled.items() if on is True and "_mode_" in k]
    if isinstance(word := pooled.get("pooling_mode"), str):
        modes = [word]
    pooling = chosen.get("pooling")
    if pooling is None:
        raise_if(
            len(modes) != 1 or modes[0] not in _MODES,
            ModelLoadError,
            f"encoder {source!r}: pooling is {modes}; it must be one of mean, cls and lasttoken: "
            "set pooling=",
        )
        pooling = _MODES[modes[0]]
    length = (read_json(source, "sentence_bert_config.json") or {}).get("max_seq_length")
    return replace(
        bare,
        pooling=pooling,
        normalize=normalize,
        max_tokens=length or 512,
        include_prompt=bool(pooled.get("include_prompt", True)),
        layers=tuple(after[: len(after) - normalize]),
    )


def file_of(source: str, name: str) -> Path | None:
    """Find a file of a folder or a hub repository; None where it has no such file."""
    if Path(source).is_dir():
        path = Path(source) / name
        return path if path.is_file() else None
    from transformers.utils.hub import cached_file

    try:
        found = cached_file(source, name, _raise_exceptions_for_missing_entries=False)
    except OSError as error:
        raise ModelLoadError(
            f"encoder {source!r}: its pooling is unknown, because {name} could not be fetched; "
            "set pooling= and normalize="
        ) from error
    return None if found is None else Path(found)


def read_json(source: str, name: str) -> Any:
    """Read a JSON file of a checkpoint; None where it has no such file."""
    path = file_of(source, name)
    return None if path is None else jsonl.loads(read_file(path))
