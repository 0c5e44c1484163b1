"""What has to hold on a GPU and can be seen without one."""

from collections import Counter
from contextlib import contextmanager

import torch
from pretended import NAME


def assert_placed(module, *, dtype=None):
    """All weights and buffers on the device; what the code made itself still in float32."""
    saved = module.state_dict().keys()
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        assert tensor.device.type == NAME, f"{name} was left on {tensor.device}"
        if name not in saved and tensor.is_floating_point():
            assert tensor.dtype == torch.float32, f"{name} was rounded to {tensor.dtype}"
    if dtype is not None:
        assert dtype in {p.dtype for p in module.parameters()}, f"nothing is in {dtype}"


def assert_resting(module):
    """No part trains: dropout that is left on gives another answer each time."""
    training = [name or "the model" for name, part in module.named_modules() if part.training]
    assert not training, f"left training: {training[:4]}"


def assert_fused(module):
    """Attention runs in one kernel wherever the architecture can."""
    for name, part in module.named_modules():
        kind = getattr(getattr(part, "config", None), "_attn_implementation", "sdpa")
        able = getattr(part, "_supports_sdpa", False)
        assert not able or kind == "sdpa", f"{name or 'the model'} attends by {kind}"


def assert_whole_sums(seen):
    """No sum of the package's own was made in half precision, and what was sent was pinned."""
    assert not seen.rounded, f"summed in half precision: {seen.rounded[:3]}"
    own = [where for where in seen.uploads if "runtime/placing.py" in where]
    assert seen.pinned >= len(own), "copied from memory that is not pinned"


def assert_alike_uploads(seen, more):
    """More rows in a batch are no more copies to the device."""
    told = Counter(more.uploads) - Counter(seen.uploads)
    assert len(more.uploads) <= len(seen.uploads), f"copied again for each row: {told}"


@contextmanager
def narrow_logits(model, limit):
    """A language model's output layer sees at most `limit` positions of each row."""
    layer, widths = model.get_output_embeddings(), []
    hook = layer.register_forward_hook(lambda _, __, found: widths.append(found.shape[1]))
    try:
        yield
    finally:
        hook.remove()
    assert widths and max(widths) <= limit, f"logits of {max(widths)} positions, read are {limit}"


def assert_few_waits(seen, limit):
    """The host waited for the device at most so often."""
    assert len(seen.reads) <= limit, (
        f"the host waited {len(seen.reads)} times, at most {limit} are allowed:\n{seen.told()}"
    )


def assert_exact(seen):
    """No number was made by a last product in half precision."""
    rounded = [read for read in seen.reads if read.rounded]
    assert not rounded, f"read in half precision: {rounded[:3]}"
