"""The papers' methods as pure Python flows; names load on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.core.extras import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.methods.answer.citations import Citation, Cited, Span
    from fitrag_integrations.methods.baselines.direct import Direct
    from fitrag_integrations.methods.citing import cite, highlight, with_citations
    from fitrag_integrations.methods.compose.recipe import (
        MethodPort,
        Over,
        method_from,
        method_named,
    )
    from fitrag_integrations.methods.crag.method import ActionThresholds, Crag
    from fitrag_integrations.methods.crag.refiner import Refined, Refiner
    from fitrag_integrations.methods.explain.compression import Compression, Weighed
    from fitrag_integrations.methods.explain.explaining import explain_compression
    from fitrag_integrations.methods.fitrag.method import FitRag, compress, rerank
    from fitrag_integrations.methods.fitrag.recognizer import (
        SelfKnowledgeRecognizer,
        fit_recognizer,
    )
    from fitrag_integrations.methods.ik.decider import Decided, Decider
    from fitrag_integrations.methods.ik.draft_confidence import (
        EntropyGate,
        LikelihoodGate,
        MarginGate,
    )
    from fitrag_integrations.methods.ik.method import IKnow
    from fitrag_integrations.methods.ik.self_evaluation import AskGate, PTrueGate
    from fitrag_integrations.methods.itrg.method import ITRG
    from fitrag_integrations.methods.itrg.prompts import Demonstration
    from fitrag_integrations.methods.prompts import PromptTemplate, prompt_named
    from fitrag_integrations.methods.slimplm.method import SlimPLM
    from fitrag_integrations.text.sentences import split_sentences
    from fitrag_integrations.text.tokens import approximate_tokens, counter_for, tiktoken_counter

_MODULE_OF = {
    "ActionThresholds": "crag.method",
    "AskGate": "ik.self_evaluation",
    "Citation": "answer.citations",
    "Cited": "answer.citations",
    "Compression": "explain.compression",
    "Crag": "crag.method",
    "Decided": "ik.decider",
    "Decider": "ik.decider",
    "Demonstration": "itrg.prompts",
    "Direct": "baselines.direct",
    "EntropyGate": "ik.draft_confidence",
    "FitRag": "fitrag.method",
    "ITRG": "itrg.method",
    "IKnow": "ik.method",
    "LikelihoodGate": "ik.draft_confidence",
    "MarginGate": "ik.draft_confidence",
    "MethodPort": "compose.recipe",
    "Over": "compose.recipe",
    "PTrueGate": "ik.self_evaluation",
    "PromptTemplate": "prompts",
    "Refined": "crag.refiner",
    "Refiner": "crag.refiner",
    "SelfKnowledgeRecognizer": "fitrag.recognizer",
    "SlimPLM": "slimplm.method",
    "Span": "answer.citations",
    "Weighed": "explain.compression",
    "approximate_tokens": ".text.tokens",
    "cite": "citing",
    "compress": "fitrag.method",
    "counter_for": ".text.tokens",
    "explain_compression": "explain.explaining",
    "fit_recognizer": "fitrag.recognizer",
    "highlight": "citing",
    "method_from": "compose.recipe",
    "method_named": "compose.recipe",
    "prompt_named": "prompts",
    "rerank": "fitrag.method",
    "split_sentences": ".text.sentences",
    "tiktoken_counter": ".text.tokens",
    "with_citations": "citing",
}

__all__ = [
    "ActionThresholds",
    "AskGate",
    "Citation",
    "Cited",
    "Compression",
    "Crag",
    "Decided",
    "Decider",
    "Demonstration",
    "Direct",
    "EntropyGate",
    "FitRag",
    "ITRG",
    "IKnow",
    "LikelihoodGate",
    "MarginGate",
    "MethodPort",
    "Over",
    "PTrueGate",
    "PromptTemplate",
    "Refined",
    "Refiner",
    "SelfKnowledgeRecognizer",
    "SlimPLM",
    "Span",
    "Weighed",
    "approximate_tokens",
    "cite",
    "compress",
    "counter_for",
    "explain_compression",
    "fit_recognizer",
    "highlight",
    "method_from",
    "method_named",
    "prompt_named",
    "rerank",
    "split_sentences",
    "tiktoken_counter",
    "with_citations",
]

__getattr__, __dir__ = lazy_names(__name__, _MODULE_OF)
