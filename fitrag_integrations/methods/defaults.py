"""Return the bundled model of a role if a method is given none.

A bundled model is imported when the first flow that needs it runs. Until then a placeholder with
the same methods and attributes takes its place. Async calls go to the model's own worker and occupy
no thread while they wait.
"""

from __future__ import annotations

import asyncio
import json
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from importlib import resources
from itertools import islice
from threading import Lock
from typing import Any, cast

from fitrag_integrations import models  # whose names load on first use, and torch with them
from fitrag_integrations.core.extras import torch_sees_gpu
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.flow import Port
from fitrag_integrations.ports import model_name
from fitrag_integrations.types import Passage

ROLES = {
    "scorer": "BiLabelScorer",
    "evaluator": "RetrievalEvaluator",
    "reader": "ExtractiveReader",
    "detector": "EligibilityDetector",
}
BUNDLED = {
    "scorer": "BundledScorer",
    "evaluator": "BundledEvaluator",
    "reader": "BundledReader",
}
"""What decides the same without torch, and is ready sooner. The detector never needs it."""
MULTILINGUAL = "docs/choosing.md lists multilingual models"

IN_TORCH = (
    "the bundled scorer was passed by hand and runs in PyTorch; the default, None, runs without it "
    "in eight bits: scores differ slightly, and so may what is kept"
)

_loading = Lock()
_loaded: dict[str, object] = {}


def default_model(role: str) -> Any:
    """Return the bundled model of a role, loaded once per process."""
    refuse_if(role not in ROLES, "role", role, ", ".join(ROLES))
    with _loading:  # two threads must not load it twice
        if role not in _loaded:
            _loaded[role] = kind_of(role).embedded()
        return _loaded[role]


def is_default(model: object) -> bool:
    """Check whether a model is a shared instance that `default_model` loaded."""
    return any(model is one for one in _loaded.values())


def kind_of(role: str) -> Any:
    """Return the class of a role's bundled model; on a GPU it is the PyTorch class."""
    return getattr(models, ROLES[role] if torch_sees_gpu() else BUNDLED.get(role, ROLES[role]))


def _asks(role: str, verb: str) -> tuple[Any, Any]:
    """Make a call of a role's model and its async twin, both loading it first."""

    def ask(_: object, *items: object) -> Any:
        return getattr(default_model(role), verb)(*items)

    async def aask(_: object, *items: object) -> Any:
        model = _loaded.get(role) or await asyncio.to_thread(default_model, role)
        return await getattr(model, f"a{verb}")(*items)

    for call, name in ((ask, verb), (aask, f"a{verb}")):
        call.__name__ = name  # by which a bound method is pickled
        call.__doc__ = f"Call `{name}` of the embedded {role}."
    return ask, aask


def _reported(role: str, name: str, default: object = None) -> property:
    """Make a property that reads a number or name of a role's model, loading it first."""
    doc = f"Return the embedded {role}'s `{name}`."
    return property(lambda _: getattr(default_model(role), name, default), doc=doc)


class EmbeddedScorer:
    """Placeholder for the bundled scorer, which is loaded at its first call."""

    score, ascore = _asks("scorer", "score")
    score_sentences, ascore_sentences = _asks("scorer", "score_sentences")
    answerable, _ = _asks("scorer", "answerable")

    @cached_property
    def name(self) -> str:
        """Return the bundled scorer's name, which fitted thresholds are checked against."""
        from fitrag_integrations.models.runtime.sources import scorer_name

        file = resources.files("fitrag_integrations") / "embedded/bilabel/model.json"
        return scorer_name(json.loads(file.read_text("utf-8")))


class EmbeddedDetector:
    """Placeholder for the bundled detector, which is loaded at its first call."""

    eligible, aeligible = _asks("detector", "eligible")
    eligible_among, aeligible_among = _asks("detector", "eligible_among")
    threshold = _reported("detector", "threshold")
    name = _reported("detector", "name", "")

    @cached_property
    def fitted_for(self) -> Row:
        """Return the scorer and the windows it was trained on."""
        manifest = resources.files("fitrag_integrations") / "embedded/eligibility/model.json"
        return cast(Row, json.loads(manifest.read_text("utf-8"))["fitted_for"])


class EmbeddedEvaluator:
    """Placeholder for the bundled retrieval evaluator, which is loaded at its first call."""

    evaluate, aevaluate = _asks("evaluator", "evaluate")
    name = _reported("evaluator", "name", "")
    thresholds = _reported("evaluator", "thresholds")


class EmbeddedReader:
    """Placeholder for the bundled reader, which is loaded at its first call."""

    read, aread = _asks("reader", "read")
    name = _reported("reader", "name", "")


SAMPLE = 200
"""Letters of a text by which its script is judged."""
_SCRIPTS = {"Cjk": "Chinese", "Hiragana": "Japanese", "Katakana": "Japanese", "Hangul": "Korean"}


def script_of(text: str) -> str:
    """Return the script of a text, such as "Arabic"; "Latin" if half of its letters are."""
    if text.isascii():
        return "Latin"
    letters = list(islice(filter(str.isalpha, text), SAMPLE))
    if 2 * sum(map(str.isascii, letters)) >= len(letters):  # sooner than by their names
        return "Latin"
    counts = Counter(unicodedata.name(letter, "LATIN").split()[0].title() for letter in letters)
    if 2 * (counts.pop("Latin", 0) + counts.pop("Fullwidth", 0)) >= len(letters):
        return "Latin"
    found = counts.most_common(1)[0][0]
    return _SCRIPTS.get(found, found)


def script_note(
    model: object, embedded: object, question: str, passages: Sequence[Passage]
) -> tuple[str, ...]:
    """Return a note if a bundled model gets texts in a script that it cannot read.

    Args:
        model: The model in use, or its port; None is the bundled one.
        embedded: The bundled model of that role.
        question: The question; it alone suffices for a note.
        passages: The passages; more than half of them must be in another script.
    """
    scripts = [script for one in passages if (script := script_of(one.text)) != "Latin"]
    parts = {"the question": [own] if (own := script_of(question)) != "Latin" else []}
    if 2 * len(scripts) > len(passages):
        parts[f"{len(scripts)} of {len(passages)} passages"] = scripts
    what = " and ".join(part for part, found in parts.items() if found)
    if not what or (model is not None and model_name(model) != model_name(embedded)):
        return ()
    names = " and ".join(sorted({script for found in parts.values() for script in found}))
    return (f"{what} in {names} script, but the bundled model reads English: {MULTILINGUAL}",)


def torch_note(scorer: object) -> tuple[str, ...]:
    """Return a note if the PyTorch version of the bundled scorer was passed needlessly."""
    own = scorer.owner if isinstance(scorer, Port) else scorer
    if own is None or own is EMBEDDED_SCORER or model_name(own) != EMBEDDED_SCORER.name:
        return ()
    return () if isinstance(own, kind_of("scorer")) else (IN_TORCH,)


# one of each, so that all questions without a model of their own share its calls
EMBEDDED_SCORER = EmbeddedScorer()
EMBEDDED_DETECTOR = EmbeddedDetector()
EMBEDDED_EVALUATOR = EmbeddedEvaluator()
EMBEDDED_READER = EmbeddedReader()


def embedded_detector(scorer: str, **cutting: int | None) -> EmbeddedDetector | None:
    """Return the bundled detector if it was trained on this scorer and these windows.

    ``cutting`` is window, stride and per_passage. Returns None otherwise.
    """
    asked_for = {"scorer": scorer, **cutting}
    return EMBEDDED_DETECTOR if scorer and EMBEDDED_DETECTOR.fitted_for == asked_for else None
