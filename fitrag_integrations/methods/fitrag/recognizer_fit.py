"""Fit the self-knowledge recognizer's numbers on labelled rows (FIT-RAG, section 4.3).

The paper gives its numbers and not how they were found; this is a plain search for the best
accuracy of "answered correctly without retrieval".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from fitrag_integrations.core.checks import check_is
from fitrag_integrations.errors import InputError
from fitrag_integrations.methods.fitrag.recognizer import (
    Bank,
    RecognizerThresholds,
    encoder_name,
    share_above,
)
from fitrag_integrations.types import BiLabelScore

Row: TypeAlias = tuple[str, Sequence[BiLabelScore], bool]  # question, scores, known


def fit_recognizer(
    rows: Iterable[Row],
    bank: Bank,
    *,
    scorer: str = "",
    deltas: Sequence[float] | None = None,
    ks: Sequence[int] = (1, 3, 5, 10, 20, 50),
) -> RecognizerThresholds:
    """Choose delta, s_l, s_n and k by the best accuracy.

    A row is a question that is not in the bank, the scores of what was retrieved for it, and
    whether the model answered it correctly without. `deltas` None are the tenths of the rows'
    logits. Shares are tried at every value that occurs; of equal fits the first in the order of
    `deltas` and `ks` is taken, with the lowest shares. `scorer` names whose scores they are.
    Raises `InputError` where there are no rows, or scores without logits.
    """
    labelled = list(rows)
    if not labelled or not ks:
        raise InputError.of("rows, ks", given=(labelled, ks), allowed="at least one of each")
    truths = [check_is("rows.known", known, bool) for _, _, known in labelled]
    near = bank.neighbours([question for question, _, _ in labelled], max(ks))
    shares = {k: [sum(map(bool, known[:k])) / len(known[:k]) for known in near] for k in ks}
    found = []
    for delta in _tenths(labelled) if deltas is None else deltas:
        ltod = [share_above(scores, delta) for _, scores, _ in labelled]
        found += [(*_best_cuts(ltod, shares[k], truths), float(delta), k) for k in ks]
    accuracy, s_l, s_n, delta, k = max(found, key=lambda fit: fit[0])
    fitted_for = scorer, encoder_name(bank)
    return RecognizerThresholds(delta, s_l, s_n, k, *fitted_for, len(labelled), accuracy)


def _best_cuts(
    ltod: Sequence[float], nn: Sequence[float], truths: Sequence[bool]
) -> tuple[float, float, float]:
    """Give the best accuracy and the two shares behind it, the lowest of equals."""
    import numpy as np

    lows, nears = (np.array(sorted({0.0, *values})) for values in (ltod, nn))
    above_l = (np.array(ltod)[:, None] > lows).astype(float)
    above_n = (np.array(nn)[:, None] > nears).astype(float)
    known = np.array(truths, dtype=float)
    # a row guessed known is worth 1 where it is known; one not guessed, where it is not
    right = (above_l * (2 * known - 1)[:, None]).T @ above_n + (1 - known).sum()
    at_l, at_n = np.unravel_index(int(np.argmax(right)), right.shape)
    return float(right[at_l, at_n]) / len(truths), float(lows[at_l]), float(nears[at_n])


def _tenths(rows: Sequence[Row]) -> list[float]:
    given = (score.has_answer_logit for _, scores, _ in rows for score in scores)
    logits = sorted(logit for logit in given if logit is not None)
    if not logits:
        raise InputError.of("rows.scores", given=(), allowed="scores with a has_answer_logit")
    return sorted({logits[len(logits) * tenth // 10] for tenth in range(10)})
