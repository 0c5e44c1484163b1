"""Wrong arguments of the drop-ins of both frameworks are refused at construction, by their names.

What a method itself refuses is in `tests/methods/test_wrong_options.py`.
"""

import math

import pytest
from decision_fakes import OverlapEvaluator, PageSearch, WordGate
from fakes import OverlapRetriever, OverlapScorer
from first_contact import Overlap
from langchain_core.language_models import FakeListChatModel
from langchain_fakes import OverlapBase
from llama_fakes import NodeRetriever
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from round_fakes import Judge, Proxy, Rewriter

from fitrag_integrations import langchain, llama_index
from fitrag_integrations.methods import FitRag

ENGINE = RetrieverQueryEngine.from_args(NodeRetriever(), llm=MockLLM())
BASES = {langchain: OverlapBase(), llama_index: NodeRetriever()}
LLM = object()
"""A language model, which writes and does nothing else."""
LLMS = {langchain: FakeListChatModel(responses=["a"]), llama_index: MockLLM()}
ROLES = {"proxy": Proxy(), "judge": Judge(), "rewriter": Rewriter()}
NEEDED = {
    "CorrectiveRetriever": {"evaluator": OverlapEvaluator()},
    "CorrectiveRouterQueryEngine": {"correct": ENGINE, "incorrect": ENGINE},
    "KnowledgeRefiner": {"evaluator": OverlapEvaluator()},
    "KnowledgeRouter": {"known": len, "unknown": len, "gate": WordGate()},
    "KnowledgeRouterQueryEngine": {"gate": WordGate(), "retrieve": ENGINE, "llm": MockLLM()},
    "KnowledgeSelector": {"gate": WordGate()},
    "MethodQueryEngine": {"method": FitRag(OverlapScorer()), "retriever": NodeRetriever()},
    "MethodRetriever": {"method": FitRag(OverlapScorer())},
    "MethodRunnable": {"method": FitRag(OverlapScorer())},
    "CompressingRetriever": {"compressors": []},
    "CorrectiveRouter": {"correct": len, "incorrect": len},
    "FaissRetriever": {"index": "a folder, read at the first query"},
    "RetrievalGateMiddleware": {"gate": WordGate(), "tools": ["notes"]},
    "SlimPLMRetriever": ROLES,
}
ALONE = ("FaissRetriever", "WebSearchRetriever")
SAYS = {"reader": "read", "retriever": "retriever|base", "strip_threshold": "threshold"}
SAYS |= {"llm": "llm|generate", "incorrect": "incorrect|ambiguous"}
OF_BOTH = {
    "BiLabelReranker": [
        {"top_n": 0, "weight": 1.5, "scorer": 3, "topn": 3},
        {"scorer": LLM},
        {"top_n": "many", "weight": math.nan, "scorer": OverlapScorer},
    ],
    "SubDocumentCompressor": [
        {"max_tokens": 0, "window": 0, "max_share": 9, "weight": -1, "count_tokens": 3},
        {"scorer": 3, "detector": object(), "max_token": 3},
        {"scorer": LLM, "count_tokens": "nope"},
    ],
    "KnowledgeRefiner": [
        {"top_n": 0, "threshold": 2.0, "evaluator": 3, "split": 3, "sentences": 0, "n": 3},
        {"evaluator": LLM, "count_tokens": "nope"},
    ],
    "FitRagRetriever": [
        {"base": None, "top_n": 0, "window": 0, "scorer": object(), "gate": object()},
        {"base": 3, "max_tokens": -1, "max_token": 9, "max_share": 2, "count_tokens": "nope"},
        {"base": LLM, "detector": LLM, "scorer": LLM, "gate": LLM},
    ],
    "CorrectiveRetriever": [
        {"base": 3, "search": 3, "llm": 3, "evaluator": object(), "top_n": 0, "max_tokens": 0},
        {"thresholds": "no such preset", "strip_threshold": 2.0, "on_web_error": "ignore"},
        {"without": ["wrong"], "split": 3, "count_tokens": 3, "pages": 3},
        {"search": LLM, "evaluator": LLM, "thresholds": 0.5},
    ],
    "MethodRetriever": [
        {"method": None, "search": 3, "llm": 3},
        {"method": FitRag},
        {"method": "fitrag"},
    ],
    "SlimPLMRetriever": [
        {"k": 0, "proxy": 3, "judge": 3, "rewriter_prompt": "short", "on_error": "degrade"},
        {"rounds": 3, "judge": Overlap()},
    ],
    "WebSearchRetriever": [{"search": 3}, {"search": PageSearch}, {"search": None}],
    "ITRGRetriever": [{"mode": "repeat", "stop": "never", "demonstrations": [3], "rounds": 0}],
}
OF_LANGCHAIN = {
    "FitRagRetriever": [
        {"k": 0, "max_tokens": True, "weight": True},
        {"k": True, "max_tokens": "2", "weight": "2"},
        {"k": "2"},
    ],
    "BiLabelReranker": [{"top_n": True}, {"top_n": "2"}],
    "CorrectiveRetriever": [{"min_score": True}, {"min_score": "2"}],
    "SlimPLMRetriever": [{"rrf_k": True}, {"rrf_k": "2"}],
    "KnowledgeRouter": [
        {"known": None, "unknown": 3, "gate": object(), "drafter": object(), "threshold": 1.5},
        {"known": 3, "gate": WordGate, "on_error": "ignore", "allow_other_model": 3, "gates": 1},
    ],
    "MethodRunnable": [
        {"method": None, "retriever": 3, "llm": 3, "reader": object(), "template": "no such"},
        {"template": 3, "models": 3},
        {"retriever": LLM, "reader": LLM},
    ],
    "BiLabelCrossEncoder": [{"weight": 2, "scorer": object()}, {"scorer": LLM}],
    "CompressingRetriever": [{"base": LLM}],
    "CorrectiveRouter": [
        {"incorrect": None, "evaluator": 3},
        {"evaluator": OverlapEvaluator(thresholds=None)},
    ],
    "FaissRetriever": [{"index": None}, {"index": 3}, {"index": Overlap}],
    "RetrievalGate": [
        {"gate": LLM, "drafter": Overlap(), "threshold": True},
        {"threshold": "2"},
    ],
    "RetrievalGateMiddleware": [
        {"tools": [], "message": " ", "question": "text", "gate": object(), "threshold": 3},
        *({"tools": bad} for bad in (3, [""], [3])),
    ],
}
OF_LLAMA_INDEX = {
    "FaissRetriever": [{"index": 3, "similarity_top_k": 0}, {"index": Overlap}],
    "FitRagRetriever": [{"base": NodeRetriever}, {"base": OverlapRetriever()}],
    "ITRGRetriever": [{"llm": 3}],
    "CorrectiveRouterQueryEngine": [
        {"base": 3, "correct": NodeRetriever(), "ambiguous": 3, "incorrect": None},
        {"evaluator": 3, "thresholds": 0.5},
    ],
    "KnowledgeRouterQueryEngine": [
        {"gate": 3, "drafter": 3, "threshold": 2, "on_error": "ignore", "allow_other_model": 1},
        {"retrieve": NodeRetriever(), "llm": 3, "template": "{nothing}", "streaming": "yes"},
    ],
    "KnowledgeSelector": [
        {"gate": 3, "drafter": 3, "threshold": 2, "on_error": "ignore", "allow_other_model": 1},
        {"known": 1, "unknown": 0},
        {"known": -1, "unknown": "1"},
        {"known": 0.5, "gate": LLM, "drafter": Overlap()},
    ],
    "MethodQueryEngine": [
        {"method": None, "retriever": 3, "llm": 3, "reader": 3, "template": "{question}"},
        {"retriever": LLM, "reader": LLM},
    ],
}
WRONG = [
    pytest.param(ours, kind, name, value, id=f"{ours.__name__[20:]}.{kind}.{name}")
    for ours, kinds in (
        (langchain, OF_BOTH),
        (llama_index, OF_BOTH),
        (langchain, OF_LANGCHAIN),
        (llama_index, OF_LLAMA_INDEX),
    )
    for kind, rows in kinds.items()
    for row in rows
    for name, value in row.items()
]


@pytest.mark.parametrize(("ours", "kind", "name", "value"), WRONG)
def test_a_wrong_argument_is_refused_at_once(ours, kind, name, value):
    over_base = kind.endswith("Retriever") or kind == "CorrectiveRouterQueryEngine"
    given = {"base": BASES[ours]} if over_base and kind not in ALONE else {}
    value = LLMS[ours] if value is LLM else value
    with pytest.raises((ValueError, TypeError), match=SAYS.get(name, name)):
        getattr(ours, kind)(**{**given, **NEEDED.get(kind, {}), name: value})
