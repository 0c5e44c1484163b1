"""The one place in which files of others become objects: no code of theirs runs, no pickle is read.

Every load says `trust_remote_code=False`. Left unsaid, transformers asks on stdin whether to run
what a folder brings, and whatever is piped in there answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from fitrag_integrations.errors import FitRagError, ModelLoadError
from fitrag_integrations.models.runtime.sources import without_hub

Kind = Literal[
    "AutoModel",
    "AutoModelForCausalLM",
    "AutoModelForSeq2SeqLM",
    "AutoModelForSequenceClassification",
    "T5EncoderModel",
]
ADAPTER = "adapter_model.safetensors"
_ADAPTER_CONFIG = "adapter_config.json"
_OTHER_FILES = ("megatron_config", "corda_config", "eva_config", "loftq_config", "lora_ga_config")
"""Settings of peft by which an adapter imports modules or reads files of other names."""

_LAYERS = re.compile(r"(num_hidden_|num_|n_|encoder_|decoder_|num_decoder_)layers?|depth")
MOST_LAYERS = 500  # that are made unasked: some architectures share the weights of theirs
_PATTERNS = ("target_modules", "exclude_modules", "layers_pattern", "rank_pattern", "alpha_pattern")
_REPEATED, _REPEATS = re.compile(r"\)\s*[*+{]"), re.compile(r"[*+{]")
MOST, FEW = 500, 3  # characters, and repetitions, of a pattern
_OWN_CODE = (
    "it brings code of its own (auto_map), which is never run; allowed: an architecture and a "
    "tokenizer that transformers itself has"
)
_NO_SAFETENSORS = (
    "it has no model.safetensors; weights in a pickle, such as pytorch_model.bin, are not read, "
    "for a pickle can hold code: load them where you trust them and save_pretrained them as "
    "safetensors"
)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Hold what transformers is given, a folder or a hub name; errors call it `what`.

    Each method raises `ModelLoadError` for whatever the files are not fit for.
    """

    source: str
    what: str

    def config(self) -> Any:
        """Load the configuration."""
        from transformers import AutoConfig, PretrainedConfig

        with self._loading():
            _refuse_code(PretrainedConfig.get_config_dict(self.source)[0])
            return AutoConfig.from_pretrained(self.source, trust_remote_code=False)

    def tokenizer(self) -> Any:
        """Load the tokenizer."""
        from transformers import AutoTokenizer

        with self._loading():
            return AutoTokenizer.from_pretrained(self.source, trust_remote_code=False)

    def model(
        self, kind: Kind, *, outputs: int | None = None, **options: Any
    ) -> tuple[Any, list[str]]:
        """Load the weights as a class of transformers; gives the names of those it lacks, too.

        `outputs` is how many a classifier is to have, None as many as it says.
        """
        import transformers

        config = self.config()
        if outputs is not None:
            config.num_labels = outputs
        with self._loading():
            self._refuse_adapter()
            self._refuse_depth(config)
            model, info = getattr(transformers, kind).from_pretrained(
                self.source,
                config=config,
                trust_remote_code=False,
                use_safetensors=True,
                output_loading_info=True,
                **options,
            )
        return model, sorted(info["missing_keys"])

    def _refuse_adapter(self) -> None:
        """Refuse an adapter: it names a base that nobody asked for, and may be a pickle."""
        from transformers.utils.peft_utils import find_adapter_config_file

        if find_adapter_config_file(self.source) is not None:
            raise ValueError(
                f"{_ADAPTER_CONFIG} is there; allowed: a whole model, so merge the adapter into "
                "its base (merge_and_unload, then save_pretrained)"
            )

    def _refuse_depth(self, config: object) -> None:
        """Refuse more layers than there are tensors: each would be made before one is missed."""
        folder = Path(self.source)
        if not folder.is_dir():
            return
        held = sum(_tensor_count(path) for path in folder.glob("*.safetensors"))
        asked = [v for n, v in vars(config).items() if _LAYERS.fullmatch(n) and isinstance(v, int)]
        deepest = max(asked, default=0)
        if held and deepest > max(held, MOST_LAYERS):
            raise ValueError(f"config.json asks for {deepest} layers, its weights are {held}")

    @contextmanager
    def _loading(self) -> Iterator[None]:
        try:
            with _quietly():
                yield
        except (FitRagError, MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:  # hostile files raise anything
            told = f"{self.what} could not be loaded: {_why(error)}"
            raise ModelLoadError(told + without_hub(self.source)) from error


def load_adapter_config(folder: Path) -> Any:
    """Read the settings of a LoRA adapter; raises `ModelLoadError` for any other kind.

    Other kinds name tokenizers to fetch, with options of their own, or further adapters.
    """
    from peft import PeftConfig

    path = folder / _ADAPTER_CONFIG
    try:
        kind = json.loads(path.read_text(encoding="utf-8")).get("peft_type")
        if kind != "LORA":
            raise ValueError(f"peft_type: given {kind!r}, allowed 'LORA'")
        config = PeftConfig.from_pretrained(str(folder))
        for field in _OTHER_FILES:
            if getattr(config, field, None):
                raise ValueError(f"{field}: given a value, allowed none")
        _refuse_patterns(config)
    except Exception as error:  # hostile files raise anything
        raise ModelLoadError(f"{folder}: {path.name} is not usable: {error}") from error
    return config


def load_adapter(model: Any, folder: Path) -> Any:
    """Put a saved LoRA adapter around a model. Raises `ModelLoadError` if it does not fit."""
    from peft import PeftModel

    config = load_adapter_config(folder)
    if not (folder / ADAPTER).is_file():  # peft would go on to adapter_model.bin, then to the hub
        raise ModelLoadError(
            f"{folder}: {ADAPTER} is missing; an adapter in a pickle, adapter_model.bin, is not "
            "read, for it can hold code: save it with save_pretrained where you trust it"
        )
    try:
        return PeftModel.from_pretrained(model, str(folder), config=config)
    except (OSError, RuntimeError, ValueError, TypeError) as error:
        raise ModelLoadError(f"{folder}: the adapter does not fit its base: {error}") from error


def _refuse_patterns(config: object) -> None:
    """Refuse regular expressions that take for ever over the names of a model's layers."""
    for field in _PATTERNS:
        value = getattr(config, field, None) or []
        for pattern in [value] if isinstance(value, str) else value:
            text = str(pattern)
            if len(text) > MOST or _REPEATED.search(text) or len(_REPEATS.findall(text)) > FEW:
                allowed = "names of layers, or a pattern that repeats no group and little else"
                raise ValueError(f"{field}: given {text[:MOST]!r}, allowed {allowed}")


def _tensor_count(path: Path) -> int:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return len(file.keys())


def _refuse_code(fields: dict[str, object]) -> None:
    """Refuse what transformers would fetch and run without asking `trust_remote_code`."""
    for depth, name, value in _walked(fields):
        if depth and name == "auto_map":  # parts are built without what the load was told
            raise ValueError(_OWN_CODE)
        if name.endswith("_implementation") and "/" in str(value):
            raise ValueError(f"config.json names a kernel to fetch and run, {name} {value!r}")


def _walked(fields: Any, depth: int = 0) -> Iterator[tuple[int, str, object]]:
    """Give each field at any depth."""
    inside = fields.items() if isinstance(fields, dict) else enumerate(fields)
    for name, value in inside:
        yield depth, str(name), value
        if isinstance(value, dict | list):
            yield from _walked(value, depth + 1)


def _why(error: Exception) -> str:
    """Say what is wrong and what to do, where the library's own advice would be to trust it."""
    told = str(error) or type(error).__name__
    if "trust_remote_code" in told:
        return _OWN_CODE
    if isinstance(error, OSError) and ".safetensors" in told:
        return _NO_SAFETENSORS
    return told


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep the loader's own progress bar off stderr, and leave the switch as it was."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
