"""When a growing list of excerpts is enough (FIT-RAG, section 4.4.2, the sub-document filter)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from fitrag_integrations.core.checks import can
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.methods.defaults import embedded_detector
from fitrag_integrations.methods.fitrag.scoring import Scoring
from fitrag_integrations.methods.ik.decider import limit_of
from fitrag_integrations.ports import Detector, port_of
from fitrag_integrations.types import Excerpt

Stopped: TypeAlias = tuple[list[Excerpt], tuple[str, ...]]  # the excerpts kept, and notes


def check_detector(field: str, detector: Detector) -> Detector:
    """Require a detector."""
    detect_port(detector)
    return detector


def detect_port(detector: Detector) -> Port[Any, float]:
    """Build the port of a detector.

    One with ``eligible_among`` is asked with pairs of the scores kept and those left out, any other
    with the scores kept.
    """
    verb = "eligible_among" if hasattr(detector, "eligible_among") else "eligible"
    return port_of("detect", detector, verb, argument="detector")


def detector_for(
    given: Detector | Literal[False] | None, scoring: Scoring, **cutting: int | None
) -> Detector | None:
    """Return the detector to ask about a scorer's scores of windows cut so, if there is one.

    None stands for the embedded one that was trained on such scores, False for none. Raises
    ``ThresholdMismatchError`` for one that refuses the scorer.
    """
    if given is False:
        return None
    if given is None:
        return embedded_detector(scoring.scorer, **cutting)
    if can(given, "check_scorer"):
        given.check_scorer(scoring.scorer)  # type: ignore[attr-defined]
    return given


def sufficient(ordered: Sequence[Excerpt], detector: Detector) -> Flow[Stopped]:
    """Keep the shortest prefix the detector finds sufficient, asking about all in one ask.

    Sufficient is 0.5 or more, or the detector's own ``threshold``. Without a sufficient prefix
    everything is kept. A note tells either.
    """
    if not ordered:
        return [], ()
    labels = tuple(excerpt.labels for excerpt in ordered)
    prefixes: list[Any] = [labels[:length] for length in range(1, len(labels) + 1)]
    if hasattr(detector, "eligible_among"):
        prefixes = [(prefix, labels[len(prefix) :]) for prefix in prefixes]
    chances = yield from detect_port(detector).ask(prefixes)
    threshold = limit_of(detector)
    for length, chance in enumerate(chances, start=1):
        if float(chance) >= threshold:
            left = len(labels) - length
            note = f"{left} of {len(labels)} excerpts left out: the detector found the best enough"
            return list(ordered[:length]), (note,) if left else ()
    note = f"the detector found no prefix sufficient: all {len(labels)} excerpts kept"
    return list(ordered), (note,)
