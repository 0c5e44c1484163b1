"""The folder a model is saved in: `model.json`, weights as safetensors, and their checksums.

::

    my-scorer/
      model.json          kind, format, head, calibration, thresholds; the encoder's folder
      head.safetensors
      README.md           the model card, where there is one
      encoder/
        encoder.json      the base model, pooling, input length, which weights were tuned
        tuned.safetensors or a peft adapter (adapter_config.json, adapter_model.safetensors)

Several models may name one encoder folder, by a relative path, and then share it in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save_file
from torch import Tensor, nn

from fitrag_integrations.core.files import replacing
from fitrag_integrations.errors import ModelLoadError
from fitrag_integrations.models.runtime.manifest import (
    both_positive as both_positive,
)
from fitrag_integrations.models.runtime.manifest import (
    positive as positive,
)
from fitrag_integrations.models.runtime.manifest import (
    read_checked,
)
from fitrag_integrations.models.runtime.manifest import (
    read_manifest as read_manifest,
)
from fitrag_integrations.models.runtime.manifest import (
    reading as reading,
)
from fitrag_integrations.models.runtime.manifest import (
    write_manifest as write_manifest,
)

N = TypeVar("N", bound=nn.Module)


def load_head(make: Callable[[], N], path: Path, tensors: Mapping[str, Tensor]) -> N:
    """Make a head of a file's tensors, as float32.

    It is made without memory, whatever sizes its manifest asks for: the tensors are its weights.
    """
    with torch.device("meta"):
        head = make()
    try:
        whole = {name: tensor.float() for name, tensor in tensors.items()}
        head.load_state_dict(whole, assign=True)
    except RuntimeError as error:
        raise ModelLoadError(f"{path} does not fit the model: {error}") from None
    return head


def read_tensors(folder: Path, entry: Mapping[str, str]) -> dict[str, Tensor]:
    """Load the safetensors file an entry names, after its checksum."""
    content = read_checked(folder, entry)
    try:
        return load(content)
    except (SafetensorError, ValueError, KeyError) as error:
        raise ModelLoadError(f"{folder / entry['file']} is damaged: {error}") from None


def write_tensors(folder: Path, file: str, tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Save tensors and give the entry that names them."""
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with replacing(folder / file) as beside:
        save_file(whole, beside)
    digest = hashlib.sha256((folder / file).read_bytes()).hexdigest()
    return {"file": file, "sha256": digest}
