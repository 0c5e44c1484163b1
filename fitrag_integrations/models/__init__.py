"""Models behind the ports. Names load on first use; all but the bundled models load torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.core.extras import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.models.bundled import (
        BundledEvaluator,
        BundledReader,
        BundledScorer,
    )
    from fitrag_integrations.models.causal.continuer import Continuer
    from fitrag_integrations.models.causal.ensemble import ReplugGenerator
    from fitrag_integrations.models.causal.generator import LocalGenerator
    from fitrag_integrations.models.eligibility import EligibilityDetector
    from fitrag_integrations.models.evaluator.evaluator import RetrievalEvaluator
    from fitrag_integrations.models.gate.ik import IKClassifier
    from fitrag_integrations.models.gate.slimplm import NecessityJudge, QueryRewriter
    from fitrag_integrations.models.kinds import Answer
    from fitrag_integrations.models.reader import ExtractiveReader
    from fitrag_integrations.models.remote.generator import RemoteGenerator, RemoteIK
    from fitrag_integrations.models.remote.scorer import RemoteScorer
    from fitrag_integrations.models.scorer.bilabel import BiLabelScorer, OnePassScorer

_MODULE_OF = {
    "Answer": "kinds",
    "BiLabelScorer": "scorer.bilabel",
    "BundledEvaluator": "bundled",
    "BundledReader": "bundled",
    "BundledScorer": "bundled",
    "Continuer": "causal.continuer",
    "EligibilityDetector": "eligibility",
    "ExtractiveReader": "reader",
    "IKClassifier": "gate.ik",
    "LocalGenerator": "causal.generator",
    "NecessityJudge": "gate.slimplm",
    "OnePassScorer": "scorer.bilabel",
    "QueryRewriter": "gate.slimplm",
    "RemoteGenerator": "remote.generator",
    "RemoteIK": "remote.generator",
    "RemoteScorer": "remote.scorer",
    "ReplugGenerator": "causal.ensemble",
    "RetrievalEvaluator": "evaluator.evaluator",
}
__all__ = [
    "Answer",
    "BiLabelScorer",
    "BundledEvaluator",
    "BundledReader",
    "BundledScorer",
    "Continuer",
    "EligibilityDetector",
    "ExtractiveReader",
    "IKClassifier",
    "LocalGenerator",
    "NecessityJudge",
    "OnePassScorer",
    "QueryRewriter",
    "RemoteGenerator",
    "RemoteIK",
    "RemoteScorer",
    "ReplugGenerator",
    "RetrievalEvaluator",
]

__getattr__, __dir__ = lazy_names(__name__, _MODULE_OF)
