"""The actions and their thresholds: section 4.3 and the presets of appendix B.3."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitrag_integrations.errors import InputError, ThresholdMismatchError
from fitrag_integrations.methods.crag.evaluator import (
    PAPERS_EVALUATOR,
    PRESETS,
    ActionThresholds,
    check_thresholds,
    check_without,
    merged_action,
)
from fitrag_integrations.types import Action

CORRECT, AMBIGUOUS, INCORRECT = Action.CORRECT, Action.AMBIGUOUS, Action.INCORRECT
HALVES = ActionThresholds(0.5, -0.5)


@pytest.mark.parametrize(
    ("grades", "action"),
    [
        ([], INCORRECT),
        ([-0.51, -1.0], INCORRECT),
        ([-1.0, -0.5], AMBIGUOUS),
        ([0.49, 0.0], AMBIGUOUS),
        ([-1.0, 0.5], CORRECT),
        ([1.0], CORRECT),
    ],
)
def test_the_best_grade_decides(grades, action):
    assert HALVES.action(grades) is action


@given(st.lists(st.floats(-1, 1)), st.floats(-1, 1), st.floats(-1, 1))
def test_the_action_is_the_papers_rule(grades, one, other):
    upper, lower = max(one, other), min(one, other)
    action = ActionThresholds(upper, lower).action(grades)
    assert (action is CORRECT) == any(grade >= upper for grade in grades)
    assert (action is INCORRECT) == all(grade < lower for grade in grades)


@pytest.mark.parametrize("numbers", [(-0.5, 0.5), (1.5, 0.0), (0.5, -2.0), (0.5, -0.5, 3.0)])
def test_thresholds_outside_or_in_the_wrong_order_are_refused(numbers):
    with pytest.raises(InputError, match=r"ActionThresholds\.(upper|lower|strip)` must be"):
        ActionThresholds(*numbers)


def test_they_survive_json_and_pickle():
    for preset in PRESETS.values():
        assert ActionThresholds.from_dict(preset.to_dict()) == preset
        assert pickle.loads(pickle.dumps(preset)) == preset


def test_the_papers_presets_hold_for_its_evaluator_only():
    presets = {name: (each.upper, each.lower, each.strip) for name, each in PRESETS.items()}
    assert presets == {
        "popqa": (0.59, -0.99, -0.5),
        "pubhealth": (0.5, -0.91, -0.5),
        "arc": (0.5, -0.91, -0.5),
        "biography": (0.95, -0.91, -0.5),
    }
    preset = check_thresholds("thresholds", "popqa")
    preset.check(PAPERS_EVALUATOR)
    preset.check("another", allow_other=True)
    HALVES.check("anything")  # which were fitted for no evaluator in particular
    with pytest.raises(
        ThresholdMismatchError, match=r"0\.59 / -0\.99 .* given 'another': fit some"
    ):
        preset.check("another")
    with pytest.raises(ThresholdMismatchError, match="given an evaluator without a name"):
        preset.check("")
    with pytest.raises(InputError, match="model` must be"):
        preset.check(None)
    with pytest.raises(InputError, match="must be one of popqa, pubhealth, arc, biography"):
        check_thresholds("thresholds", "nq")


@pytest.mark.parametrize(
    ("without", "merged"),
    [
        ((), [CORRECT, AMBIGUOUS, INCORRECT]),
        ("correct", [AMBIGUOUS, AMBIGUOUS, INCORRECT]),
        (INCORRECT, [CORRECT, AMBIGUOUS, AMBIGUOUS]),
        (["ambiguous"], [CORRECT, INCORRECT, INCORRECT]),
        ({"correct", "incorrect"}, [AMBIGUOUS] * 3),
        ({"correct", "ambiguous"}, [INCORRECT] * 3),
        ({"incorrect", "ambiguous"}, [CORRECT] * 3),
    ],
)
def test_an_action_left_out_merges_as_in_section_5_4(without, merged):
    removed = check_without("without", without)
    assert [merged_action(action, removed) for action in (CORRECT, AMBIGUOUS, INCORRECT)] == merged


@pytest.mark.parametrize("without", ["good", ["correct", 3], 7, list(Action), None])
def test_leaving_out_what_is_no_action_or_all_of_them_is_refused(without):
    with pytest.raises(InputError, match="without` must be some of 'correct'"):
        check_without("without", without)
