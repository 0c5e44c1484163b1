"""What has to hold on a GPU and can be seen without one."""

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


def assert_few_waits(seen, limit):
    """The host waited for the device at most so often."""
    assert len(seen.reads) <= limit, (
        f"the host waited {len(seen.reads)} times, at most {limit} are allowed:\n{seen.told()}"
    )


def assert_exact(seen):
    """No number was made by a last product in half precision."""
    rounded = [read for read in seen.reads if read.rounded]
    assert not rounded, f"read in half precision: {rounded[:3]}"
