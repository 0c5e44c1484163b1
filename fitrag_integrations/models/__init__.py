"""Models behind the ports. Names load on first use; all but the bundled models load torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.core.extras import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.models.bundled import BundledEvaluator as BundledEvaluator
    from fitrag_integrations.models.bundled import BundledReader as BundledReader
    from fitrag_integrations.models.bundled import BundledScorer as BundledScorer
    from fitrag_integrations.models.causal.continuer import Continuer as Continuer
    from fitrag_integrations.models.causal.ensemble import ReplugGenerator as ReplugGenerator
    from fitrag_integrations.models.causal.generator import LocalGenerator as LocalGenerator
    from fitrag_integrations.models.eligibility import EligibilityDetector as EligibilityDetector
    from fitrag_integrations.models.evaluator.evaluator import (
        RetrievalEvaluator as RetrievalEvaluator,
    )
    from fitrag_integrations.models.gate.ik import IKClassifier as IKClassifier
    from fitrag_integrations.models.gate.slimplm import NecessityJudge as NecessityJudge
    from fitrag_integrations.models.gate.slimplm import QueryRewriter as QueryRewriter
    from fitrag_integrations.models.kinds import Answer as Answer
    from fitrag_integrations.models.reader import ExtractiveReader as ExtractiveReader
    from fitrag_integrations.models.remote.generator import RemoteGenerator as RemoteGenerator
    from fitrag_integrations.models.remote.generator import RemoteIK as RemoteIK
    from fitrag_integrations.models.remote.scorer import RemoteScorer as RemoteScorer
    from fitrag_integrations.models.scorer.bilabel import BiLabelScorer as BiLabelScorer
    from fitrag_integrations.models.scorer.bilabel import OnePassScorer as OnePassScorer

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
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
    },
)
