"""The papers' methods as pure Python flows; names load on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.core.extras import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.methods.citing import Citation as Citation
    from fitrag_integrations.methods.citing import Cited as Cited
    from fitrag_integrations.methods.citing import Span as Span
    from fitrag_integrations.methods.citing import cite as cite
    from fitrag_integrations.methods.citing import highlight as highlight
    from fitrag_integrations.methods.citing import with_citations as with_citations
    from fitrag_integrations.methods.compose.composing import MethodPort as MethodPort
    from fitrag_integrations.methods.compose.composing import Over as Over
    from fitrag_integrations.methods.compose.composing import method_from as method_from
    from fitrag_integrations.methods.crag.method import Crag as Crag
    from fitrag_integrations.methods.crag.refiner import Refined as Refined
    from fitrag_integrations.methods.crag.refiner import Refiner as Refiner
    from fitrag_integrations.methods.direct import Direct as Direct
    from fitrag_integrations.methods.explaining import Compression as Compression
    from fitrag_integrations.methods.explaining import Weighed as Weighed
    from fitrag_integrations.methods.fitrag.functional import compress as compress
    from fitrag_integrations.methods.fitrag.functional import (
        explain_compression as explain_compression,
    )
    from fitrag_integrations.methods.fitrag.functional import rerank as rerank
    from fitrag_integrations.methods.fitrag.method import FitRag as FitRag
    from fitrag_integrations.methods.fitrag.method import TokenReducer as TokenReducer
    from fitrag_integrations.methods.fitrag.recognizer import (
        SelfKnowledgeRecognizer as SelfKnowledgeRecognizer,
    )
    from fitrag_integrations.methods.fitrag.recognizer import fit_recognizer as fit_recognizer
    from fitrag_integrations.methods.ik.decider import Decided as Decided
    from fitrag_integrations.methods.ik.decider import Decider as Decider
    from fitrag_integrations.methods.ik.gates import AskGate as AskGate
    from fitrag_integrations.methods.ik.gates import EntropyGate as EntropyGate
    from fitrag_integrations.methods.ik.gates import LikelihoodGate as LikelihoodGate
    from fitrag_integrations.methods.ik.gates import MarginGate as MarginGate
    from fitrag_integrations.methods.ik.gates import PTrueGate as PTrueGate
    from fitrag_integrations.methods.ik.method import IKnow as IKnow
    from fitrag_integrations.methods.itrg.method import ITRG as ITRG
    from fitrag_integrations.methods.prompts import PromptTemplate as PromptTemplate
    from fitrag_integrations.methods.prompts import Shot as Shot
    from fitrag_integrations.methods.prompts import prompt_named as prompt_named
    from fitrag_integrations.methods.slimplm.method import SlimPLM as SlimPLM
    from fitrag_integrations.text.sentences import split_sentences as split_sentences
    from fitrag_integrations.text.tokens import approximate_tokens as approximate_tokens
    from fitrag_integrations.text.tokens import counter_for as counter_for
    from fitrag_integrations.text.tokens import tiktoken_counter as tiktoken_counter
    from fitrag_integrations.values.thresholds import ActionThresholds as ActionThresholds

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ActionThresholds": ".values.thresholds",
        "AskGate": "ik.gates",
        "Citation": "citing",
        "Cited": "citing",
        "Compression": "explaining",
        "Crag": "crag.method",
        "Decided": "ik.decider",
        "Decider": "ik.decider",
        "Direct": "direct",
        "EntropyGate": "ik.gates",
        "FitRag": "fitrag.method",
        "ITRG": "itrg.method",
        "IKnow": "ik.method",
        "LikelihoodGate": "ik.gates",
        "MarginGate": "ik.gates",
        "MethodPort": "compose.composing",
        "Over": "compose.composing",
        "PTrueGate": "ik.gates",
        "PromptTemplate": "prompts",
        "Refined": "crag.refiner",
        "Refiner": "crag.refiner",
        "SelfKnowledgeRecognizer": "fitrag.recognizer",
        "Shot": "prompts",
        "SlimPLM": "slimplm.method",
        "Span": "citing",
        "TokenReducer": "fitrag.method",
        "Weighed": "explaining",
        "approximate_tokens": ".text.tokens",
        "cite": "citing",
        "compress": "fitrag.functional",
        "counter_for": ".text.tokens",
        "explain_compression": "fitrag.functional",
        "fit_recognizer": "fitrag.recognizer",
        "highlight": "citing",
        "method_from": "compose.composing",
        "prompt_named": "prompts",
        "rerank": "fitrag.functional",
        "split_sentences": ".text.sentences",
        "tiktoken_counter": ".text.tokens",
        "with_citations": "citing",
    },
)
