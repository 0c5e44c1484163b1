"""Guarantees on accuracy: thresholds and settings that lose at most a given amount.

`certified_threshold` is Learn-then-Test (Angelopoulos et al., 2021): with probability 1 - a over
the calibration rows, future questions lose at most d. `conformal_threshold` is conformal risk
control (Angelopoulos et al., 2022): they lose at most d on average over calibration sets, so about
every second set may end above d. `cheapest` is Pareto testing (Laufer-Goldshtein et al., 2023,
arXiv:2210.07913): one part of the questions orders the settings, the most certain first and each
cheaper than those before it; the other part tests them in that order until one fails. All hold for
any number of rows that are drawn like future questions, and none holds once the questions change.

`choose_threshold` chooses a gate's threshold for a target stated in words, with a guarantee or
without. A question is known, and not retrieved for, iff its ``p_known`` is above the threshold. IK
(section 4) finds 0.7 to 0.8 best for its models; those numbers do not transfer to another model or
gate, and a fitted threshold names its model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fitrag_integrations.core.checks import check_number, check_whole
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.evaluation.outcomes import Curve, Floats, Outcomes, Places, Rows
from fitrag_integrations.evaluation.table import bootstrap
from fitrag_integrations.values.thresholds import FittedThreshold

# Thresholds are named before any row is seen. Even in log-odds: gates crowd near 0 and 1.
GRID: Floats = 1 / (1 + np.exp(-np.linspace(12, -12, 481)))
ALWAYS = 1.0  # the threshold that retrieves for every question
AT_ONCE = 32  # thresholds tested in one sweep over the rows
LARGEST_BET = 0.9


def certified_threshold(
    outcomes: Outcomes, max_drop: float, confidence: float, *, seed: int = 0
) -> float:
    """Return the lowest threshold certified to lose at most `max_drop`, or 1.0 if none is.

    Fixed-sequence testing (Learn-then-Test, section 3.2): thresholds are tested from the highest
    down, and the last one before the first failure is taken. Skipping may gain as well as lose, so
    the drop need not grow with every step; the procedure does not require it.

    Args:
        outcomes: Labeled questions.
        max_drop: Maximum accuracy loss.
        confidence: Confidence level; each test is at 1 - `confidence`.
        seed: Seed of the order of the rows; each bet depends only on earlier rows.
    """
    max_drop, level = _checked(max_drop, confidence)
    order = np.random.default_rng(seed).permutation(len(outcomes))
    scores, drops = outcomes.p_known[order], outcomes.drops[order]
    grid = _different(scores)
    passed = 0
    for at in range(0, len(grid), AT_ONCE):
        tested = grid[at : at + AT_ONCE]
        losses = np.where(scores > tested[:, None], drops, 0.0)
        certified = log_wealth(losses, max_drop, level) >= -math.log(level)
        passed += len(tested) if certified.all() else int(np.argmin(certified))
        if not certified.all():
            break
    return _lowest(grid[:passed], scores)


def log_wealth(losses: Floats, mean: float, level: float) -> Floats:
    """Compute the wealth of betting against "the mean loss is above `mean`".

    If the claim is true, wealth reaches 1 / `level` with a probability of at most `level` (Markov),
    whatever the distribution. Bets follow the mean and variance of earlier rows (Waudby-Smith and
    Ramdas, 2024, section 4). The theory would also allow the maximum of the wealth. The final
    wealth is used because it depends less on the order of the rows and leaves room for the noise of
    a user's own check.

    Args:
        losses: Losses in [-1, 1]. Shape: (tests, rows).
        mean: Mean that is claimed to be exceeded.
        level: Level of the test.

    Returns:
        Logarithm of the wealth at the end. Shape: (tests,).
    """
    tests, rows = losses.shape
    values, claim = (losses + 1) / 2, (mean + 1) / 2  # the paper's are in [0, 1]
    count = np.arange(2, rows + 2)
    means = (0.5 + np.cumsum(values, axis=1)) / count
    spread = (0.25 + np.cumsum((values - means) ** 2, axis=1)) / count
    before = np.concatenate([np.full((tests, 1), 0.25), spread[:, :-1]], axis=1)
    bets = np.sqrt(-2 * math.log(level) / (rows * before))
    wealth = np.log1p(np.minimum(bets, LARGEST_BET / (1 - claim)) * (claim - values))
    total: Floats = wealth.sum(axis=1)
    return total


def rows_needed(max_drop: float, confidence: float) -> int:
    """Return the number of rows below which nothing can be certified, even without any loss.

    Args:
        max_drop: Maximum accuracy loss.
        confidence: Confidence level.
    """
    max_drop, level = _checked(max_drop, confidence)
    return math.ceil(-math.log(level) / math.log1p(LARGEST_BET * max_drop / (1 - max_drop)))


def conformal_threshold(outcomes: Outcomes, max_drop: float) -> float:
    """Return the lowest threshold with an expected loss of at most `max_drop`, or 1.0.

    Conformal risk control needs a loss that only grows as more is skipped. So it counts the answers
    lost by skipping and none of those gained (equation 4 of the paper, with B = 1), which bounds
    the drop.

    Args:
        outcomes: Labeled questions.
        max_drop: Maximum expected accuracy loss.
    """
    max_drop, _ = _checked(max_drop, 0.5)
    lost = np.maximum(outcomes.drops, 0.0)
    grid = _different(outcomes.p_known)
    losses = np.array([lost[outcomes.p_known > t].sum() for t in grid])
    return _lowest(grid[(losses + 1) / (len(outcomes) + 1) <= max_drop], outcomes.p_known)


def _different(scores: Floats) -> Floats:
    """Leave out the thresholds of the grid that skip the same rows as the one after them.

    They would pass or fail with it. Of equals the lowest stays, which stands for all of them; so
    does one that skips nothing, which has to be passed like the others.
    """
    skipped: NDArray[np.intp] = len(scores) - np.searchsorted(np.sort(scores), GRID, side="right")
    last: Floats = GRID[np.append(skipped[1:] > skipped[:-1], True)]
    return last


def _lowest(thresholds: Floats, scores: Floats) -> float:
    """Return the last threshold if it skips anything, else 1.0."""
    if not len(thresholds) or thresholds[-1] >= scores.max():
        return ALWAYS
    return float(thresholds[-1])


def _checked(max_drop: float, confidence: float) -> tuple[float, float]:
    """Return the drop and the level. No number of rows can certify a drop of 0."""
    drop = check_number("max_drop", max_drop, low=1e-6, high=1 - 1e-6)
    return drop, 1 - check_number("confidence", confidence, low=1e-6, high=1 - 1e-6)


LEAST_SAVED = 0.05  # of the cost: a setting that saves less is not looked at


@dataclass(frozen=True, eq=False)
class Tried:
    """Outcomes of a setting, one entry per question.

    Args:
        right: 1.0 if the answer is right, else 0.0. Shape: (questions,).
        cost: Cost of each question. Shape: (questions,).
        answers: Answers; None if they were not kept.
        contexts: Contexts; None if they were not kept.
    """

    right: Floats
    cost: Floats
    answers: Any = None
    contexts: Any = None


@dataclass(frozen=True, slots=True)
class Choice:
    """Result of a test of settings in order.

    Args:
        chosen: Name of the chosen setting; the plain one if none passed.
        path: Names of the tested settings, in order.
        passed: Number of settings that passed.
        reason: Reason if none passed.
    """

    chosen: str
    path: tuple[str, ...]
    passed: int
    reason: str = ""


def cheapest(
    tried: Mapping[str, Tried],
    plain: str,
    *,
    order: Places,
    test: Places,
    max_drop: float,
    confidence: float,
    seed: int = 0,
) -> Choice:
    """Choose the cheapest setting that is certified to lose little accuracy.

    Args:
        tried: Outcomes of the settings by name.
        plain: Name of the setting to compare with.
        order: Questions that order the settings.
        test: Questions that test them, disjoint from `order`.
        max_drop: Maximum loss of right answers.
        confidence: Confidence level.
        seed: Seed of the order of the tested questions.
    """
    max_drop, level = _checked(max_drop, confidence)
    lost = np.array([(tried[plain].right - one.right)[order] for one in tried.values()])
    evidence = log_wealth(lost, max_drop, level)
    cost = np.array([one.cost[order].mean() for one in tried.values()])
    names, least = list(tried), (1 - LEAST_SAVED) * float(tried[plain].cost[order].mean())
    path = []  # the most certain first, each cheaper than all before it
    for at in sorted(range(len(names)), key=lambda i: (-evidence[i], cost[i])):
        if cost[at] < least:
            path.append(names[at])
            least = float(cost[at])
    mixed = np.random.default_rng(seed).permutation(test)  # a bet looks at those before it
    passed = 0
    for name in path:
        losses = (tried[plain].right - tried[name].right)[mixed]
        if log_wealth(losses[None], max_drop, level)[0] < -math.log(level):
            break
        passed += 1
    if passed:
        return Choice(path[passed - 1], tuple(path), passed)
    reason = f"a larger drop cannot be ruled out for any of {len(path)} settings"
    if not path:
        reason = "no setting is cheaper"
    elif len(test) < (needed := rows_needed(max_drop, confidence)):
        reason = f"{len(test)} questions are too few, it takes {needed} at least"
    return Choice(plain, tuple(path), 0, reason)


TARGETS = ("best accuracy", "share", "drop", "conformal")
INTERVAL = 0.95


def choose_threshold(
    rows: Rows,
    target: str = "best accuracy",
    *,
    max_share: float | None = None,
    max_drop: float | None = None,
    confidence: float = 0.9,
    model: str = "",
    data: str = "",
    resamples: int = 200,
    seed: int = 0,
    show_progress: bool | None = None,
) -> FittedThreshold:
    """Choose a gate's threshold, with its interval over bootstrap samples of the rows.

    Args:
        rows: Rows with `p_known` (or `score`), `known` or `right_without` (0 or 1), and for the
            targets "drop" and "conformal" `right_with`.
        target: Target. "best accuracy" maximizes the accuracy of the answers if the rows have
            `right_with`, else of the gate about `known`; ties go to the least retrieval.
            "share" retrieves for at most a fraction of the questions. "drop" loses at most
            `max_drop` of accuracy against always retrieving, with `confidence` for questions like
            these (Learn-then-Test). "conformal" does so on the average over calibration sets only
            (conformal risk control): about every second set may lose more.
        max_share: Maximum fraction of questions with retrieval, for "share".
        max_drop: Maximum accuracy loss (0.02 = 2 points), for "drop" and "conformal".
        confidence: Confidence level of "drop".
        model: Name of the gate, stored in the result.
        data: Name of the data, stored in the result.
        resamples: Bootstrap samples of the 95 % interval; 0 leaves it out.
        seed: Seed of the bootstrap.
        show_progress: Whether to show a progress bar; None for slow runs in a notebook or terminal.

    Returns:
        The threshold. If nothing can be guaranteed, it is 1.0, which retrieves for every question,
        and its `target` has the reason.

    Raises:
        InputError: For a row without its fields, or a fraction that no threshold keeps.

    Example:
        >>> rows = [{"p_known": 0.9, "known": 1}, {"p_known": 0.2, "known": 0}]
        >>> choose_threshold(rows, resamples=0).value
        0.55
    """
    outcomes = Outcomes.of(rows)
    words, choose, needed = _goal(target, max_share, max_drop, confidence, seed)
    value = choose(outcomes)
    bounds = None
    if check_whole("resamples", resamples, low=0):
        bounds = bootstrap(
            lambda places: choose(outcomes.take(places)),
            len(outcomes),
            confidence=INTERVAL,
            resamples=resamples,
            seed=seed,
            show_progress=show_progress,
        )
    low, high = bounds or (None, None)
    if needed is not None and value == ALWAYS:
        reason = (
            f"{len(outcomes)} rows are too few, it takes {needed}"
            if len(outcomes) < needed
            else "on these rows a larger drop cannot be ruled out at any threshold"
        )
        words = f"{words}; not certified, retrieve always: {reason}"
    return FittedThreshold(
        value, model, words, data, len(outcomes), low, high, None if bounds is None else INTERVAL
    )


def _goal(
    target: str, max_share: float | None, max_drop: float | None, confidence: float, seed: int
) -> tuple[str, Callable[[Outcomes], float], int | None]:
    """Return a target in words, its choice, and the rows that its guarantee takes, if any."""
    if target == "best accuracy":
        return target, _best, None
    if target == "share":
        share = check_number("max_share", max_share, low=0.0, high=1.0)
        words = f"share of retrieval at most {share:g}"
        return words, lambda rows: _within(rows, share), None
    refuse_if(target not in TARGETS, "target", target, ", ".join(TARGETS))
    drop = check_number("max_drop", max_drop, low=1e-6, high=1 - 1e-6)
    if target == "conformal":
        words = f"expected drop at most {drop:g}"
        return words, lambda rows: conformal_threshold(rows, drop), math.ceil(1 / drop) - 1
    sure = check_number("confidence", confidence, low=1e-6, high=1 - 1e-6)
    return (
        f"drop at most {drop:g} with confidence {sure:g}",
        lambda rows: certified_threshold(rows, drop, sure, seed=seed),
        rows_needed(drop, sure),
    )


def _best(rows: Outcomes) -> float:
    curve = Curve.of(rows)
    return float(curve.thresholds[curve.best])


def _within(rows: Outcomes, share: float) -> float:
    curve = Curve.of(rows)
    at = curve.within(share)
    if at is None:  # a score of 0 is retrieved for at every threshold
        raise InputError.of(
            "max_share",
            given=share,
            allowed=f"at least {curve.share[-1]:g}, the share of rows with p_known 0",
        )
    return float(curve.thresholds[at])
