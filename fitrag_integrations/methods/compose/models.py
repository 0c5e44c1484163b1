"""Load the models that a recipe names; torch comes with the first of them, not with this module."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fitrag_integrations.core import jsonl
from fitrag_integrations.core.files import read_file
from fitrag_integrations.errors import InputError, ModelLoadError
from fitrag_integrations.methods.defaults import EMBEDDED_MODEL
from fitrag_integrations.methods.fitrag.recognizer import (
    RECOGNIZER,
    RecognizerThresholds,
    SelfKnowledgeRecognizer,
)
from fitrag_integrations.methods.ik.draft_confidence import GATES

EMBEDDED = "embedded"
MODELS = "fitrag_integrations.models"
KINDS: Mapping[str, str] = {
    "scorer": "BiLabelScorer",
    "evaluator": "RetrievalEvaluator",
    "gate": "IKClassifier",
    "judge": "NecessityJudge",
    "rewriter": "QueryRewriter",
    "proxy": "LocalGenerator",
    "drafter": "LocalGenerator",
    "detector": "EligibilityDetector",
}
GATE_KINDS = {"ik": "IKClassifier", "necessity": "NecessityJudge"}  # by the kind of a `model.json`
OF_METHOD: Mapping[str, str] = {
    "Flare": "Continuer",
    "Refeed": "Continuer",
    "Replug": "ReplugGenerator",
    "SelfEval": "LocalGenerator",
}
"""What the field `model` holds, by method; Self-RAG's has to be given in Python."""

MODEL_FIELDS = frozenset((*KINDS, "model", "bank"))
NO_DEFAULT = ("rewriter", "bank")  # nothing of the kind is shipped


class Models:
    """Load each model once; folders are looked for beside the recipe first."""

    def __init__(self, beside: Path | None = None) -> None:
        self._beside = beside
        self._loaded: dict[tuple[str, str], Any] = {}

    def named(self, method: str, field: str, name: str, at: str) -> Any:
        """Return the model of a method's field.

        `embedded` is the shipped one; `margin`, `entropy` and `likelihood` are gates over the
        probabilities of the embedded generator.
        """
        if name == EMBEDDED:
            if field in NO_DEFAULT or (field == "model" and method not in OF_METHOD):
                raise InputError.of(f"{at}{field}", given=name, allowed="a folder or a hub name")
            return EMBEDDED_MODEL if field in ("model", "drafter") else None
        if field == "gate" and name in GATES:
            return GATES[name](EMBEDDED_MODEL)
        found = self._found(name)
        if field == "bank":
            return self._once("QuestionBank", found)
        kind = OF_METHOD.get(method, "") if field == "model" else KINDS[field]
        if field == "gate" and (Path(found) / RECOGNIZER).is_file():
            return self._once("Recognizer", found)
        if field in ("gate", "judge"):
            kind = GATE_KINDS.get(_kind_in(Path(found)), kind)
        if not kind:
            allowed = f"an object given to {method} in Python"
            raise InputError.of(f"{at}{field}", given=name, allowed=allowed)
        return self._once(kind, found)

    def _found(self, name: str) -> str:
        beside = None if self._beside is None else self._beside / name
        return str(beside) if beside is not None and beside.is_dir() else name

    def _once(self, kind: str, name: str) -> Any:
        if (kind, name) not in self._loaded:
            self._loaded[kind, name] = self._load(kind, name)
        return self._loaded[kind, name]

    def _load(self, kind: str, name: str) -> Any:
        if kind == "QuestionBank":
            return importlib.import_module("fitrag_integrations.retrieval").QuestionBank.load(name)
        if kind == "Recognizer":
            return SelfKnowledgeRecognizer(self._once("QuestionBank", name), _thresholds_in(name))
        home = importlib.import_module(MODELS)
        if kind == "Continuer":
            return home.Continuer(self._once("LocalGenerator", name))
        return getattr(home, kind).from_pretrained(name)


def _thresholds_in(folder: str) -> RecognizerThresholds:
    path = Path(folder) / RECOGNIZER
    try:
        given = jsonl.loads(path.read_text(encoding="utf-8"))
        return RecognizerThresholds.from_dict(given["thresholds"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelLoadError(f"{path} is damaged: {error!r}") from error


def _kind_in(folder: Path) -> str:
    """Read from `model.json` what a folder holds; blank where there is none to be read."""
    try:
        manifest = jsonl.loads(read_file(folder / "model.json"))
    except (OSError, ValueError):
        return ""
    return str(manifest.get("kind")) if isinstance(manifest, dict) else ""
