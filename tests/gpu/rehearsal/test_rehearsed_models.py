"""Every model's public call on a device that is not the CPU: its answers, its waits, its state.

Each runs in float32, where it must answer as on the CPU, and in bfloat16, a GPU's default, where
it must answer nearly so and no number may come straight from a product in half precision.
"""

import pytest
import torch
from gpu_cases import CASES, flat, on_devices
from peft.tuners.tuners_utils import BaseTunerLayer
from pretended import NAME, ledger
from rules import (
    assert_alike_uploads,
    assert_exact,
    assert_few_waits,
    assert_fused,
    assert_placed,
    assert_resting,
    assert_whole_sums,
    narrow_logits,
)
from tiny_causal import QUESTIONS


@pytest.fixture(scope="module", params=CASES)
def loaded(request, tmp_path_factory):
    yield from on_devices(request.param, tmp_path_factory.mktemp("case"), NAME)


def parts(model):
    """Find the modules behind a model."""
    seen, todo = [], [model]
    held = "_engine _scorer _reader _grader generator _evidence interaction model trunk _trunk"
    held += " _model _answers _lazy _dense _made _loaded _encoder"
    while todo:
        one = todo.pop()
        if hasattr(one, "named_modules"):
            seen.append(one)
            continue
        todo += [part for name in held.split() if (part := getattr(one, name, None)) is not None]
    return seen


def test_it_answers_as_on_the_cpu(loaded):
    case, (plain, full, _) = loaded
    expected, found = flat(case.ask(plain, 1)), flat(case.ask(full, 1))
    numbers = [one for one in expected if isinstance(one, float)]
    assert found == [
        pytest.approx(one, abs=2e-5, rel=1e-4) if isinstance(one, float) else one
        for one in expected
    ]
    assert len(set(map(str, expected))) > 1 and all(abs(one) < 1e6 for one in numbers)


def test_it_answers_nearly_so_in_bfloat16(loaded):
    case, (plain, _, half) = loaded
    found, expected = flat(case.ask(half, 1)), flat(case.ask(plain, 1))
    if case.writes:  # tiny random models are torn between tokens: one differs, then all do
        assert len(found) >= len(QUESTIONS) - 1
        return
    numbers = zip(found, expected, strict=True)
    assert all(
        one == pytest.approx(other, abs=0.12) for one, other in numbers if isinstance(one, float)
    )


def test_it_lies_on_the_device_and_rests(loaded):
    case, (_, full, half) = loaded
    case.ask(half, 1)
    found = parts(half)
    assert found and len(found) == len(parts(full))
    for part in found:
        assert_resting(part)
        assert_placed(part)
        assert_fused(part)


def test_a_call_costs_what_the_table_says(loaded, monkeypatch):
    case, (_, _, half) = loaded
    ledgers, switched = [], []
    for times in (1, 3, 4):
        with ledger() as seen:
            case.ask(half, times)
        ledgers.append(seen)
        assert_few_waits(seen, case.waits)
        monkeypatch.setattr(BaseTunerLayer, "enable_adapters", lambda *_: switched.append(1))
        assert_whole_sums(seen)
        if not case.half:
            assert_exact(seen)
    assert_alike_uploads(*ledgers[1:])
    assert sum(ledgers[1].kernels.values()) <= case.events
    assert len(ledgers[1].uploads) <= case.uploads and not switched


def test_cudnn_attends_to_nothing_and_is_left_as_it_was(loaded):
    case, (_, _, half) = loaded
    seen, enabled = [], torch.backends.cuda.cudnn_sdp_enabled
    look = lambda *_: seen.append(enabled())  # noqa: E731
    hooks = [part.register_forward_hook(look) for part in parts(half)]
    case.ask(half, 1)
    for hook in hooks:
        hook.remove()
    assert seen and not any(seen) and enabled()


def test_logits_are_computed_where_they_are_read(loaded):
    case, (_, _, half) = loaded
    for part in parts(half):
        if case.positions and hasattr(part, "get_output_embeddings"):
            with narrow_logits(part, case.positions):
                case.ask(half, 1)
