"""The papers' methods as pure Python flows; names load on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations._lazy import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.methods.as_retriever import MethodPort
    from fitrag_integrations.methods.asking import AskGate, PTrueGate
    from fitrag_integrations.methods.baselines.direct import Direct
    from fitrag_integrations.methods.crag import ActionThresholds, Crag
    from fitrag_integrations.methods.deciding import Decided, Decider
    from fitrag_integrations.methods.fitrag import FitRag, compress, rerank
    from fitrag_integrations.methods.gates import EntropyGate, LikelihoodGate, MarginGate
    from fitrag_integrations.methods.iknow import IKnow
    from fitrag_integrations.methods.prompts import PromptTemplate
    from fitrag_integrations.methods.recognizer import SelfKnowledgeRecognizer
    from fitrag_integrations.methods.recognizer_fit import fit_recognizer
    from fitrag_integrations.methods.refining import Refined, Refiner
    from fitrag_integrations.methods.sentences import split_sentences
    from fitrag_integrations.methods.tokens import approximate_tokens, tiktoken_counter

_MODULE_OF = {
    "ActionThresholds": "crag",
    "AskGate": "asking",
    "Crag": "crag",
    "Decided": "deciding",
    "Decider": "deciding",
    "Direct": "baselines.direct",
    "EntropyGate": "gates",
    "FitRag": "fitrag",
    "IKnow": "iknow",
    "LikelihoodGate": "gates",
    "MarginGate": "gates",
    "MethodPort": "as_retriever",
    "PTrueGate": "asking",
    "PromptTemplate": "prompts",
    "Refined": "refining",
    "Refiner": "refining",
    "SelfKnowledgeRecognizer": "recognizer",
    "approximate_tokens": "tokens",
    "compress": "fitrag",
    "fit_recognizer": "recognizer_fit",
    "rerank": "fitrag",
    "split_sentences": "sentences",
    "tiktoken_counter": "tokens",
}

__all__ = [
    "ActionThresholds",
    "AskGate",
    "Crag",
    "Decided",
    "Decider",
    "Direct",
    "EntropyGate",
    "FitRag",
    "IKnow",
    "LikelihoodGate",
    "MarginGate",
    "MethodPort",
    "PTrueGate",
    "PromptTemplate",
    "Refined",
    "Refiner",
    "SelfKnowledgeRecognizer",
    "approximate_tokens",
    "compress",
    "fit_recognizer",
    "rerank",
    "split_sentences",
    "tiktoken_counter",
]

__getattr__, __dir__ = lazy_names(__name__, _MODULE_OF)
