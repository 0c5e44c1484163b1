"""Choose a gate's threshold from labeled questions, for a target stated in words.

A question is known, and not retrieved for, iff its ``p_known`` is above the threshold. IK (section
4) finds 0.7 to 0.8 best for its models; those numbers do not transfer to another model or gate, and
a fitted threshold names its model.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fitrag_integrations.core.checks import check_number, check_whole
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.evaluation.outcomes import Curve, Outcomes, Rows
from fitrag_integrations.evaluation.table import bootstrap
from fitrag_integrations.evaluation.thresholds.risk import (
    ALWAYS,
    certified_threshold,
    conformal_threshold,
    rows_needed,
)
from fitrag_integrations.values.thresholds import FittedThreshold

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
        target: Target. "best accuracy" is that of the answers where the rows have `right_with`,
            else of the gate about `known`; of equally good thresholds the one that retrieves least.
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
        least = f"at least {curve.share[-1]:g}, the share of rows with p_known 0"
        raise InputError.of("max_share", given=share, allowed=least)
    return float(curve.thresholds[at])
