"""Every component of both frameworks shows itself in short, pickles, and copes with no question."""

import copy
import pickle

import pytest
from decision_fakes import OverlapEvaluator, PageSearch, WordGate
from fakes import QUESTIONS, LongestWordReader, OverlapScorer
from langchain_fakes import OverlapBase, documents
from llama_fakes import NodeRetriever, ScriptedLLM, node
from llama_index.core.query_engine import RetrieverQueryEngine
from round_fakes import Judge, Proxy, Rewriter

from fitrag_integrations import langchain, llama_index
from fitrag_integrations.methods import FitRag

QUESTION = QUESTIONS[1]
METHOD = FitRag(OverlapScorer())
NODES = [node(one) for one in OverlapBase().passages]


def whole_engine(**options):
    return llama_index.MethodQueryEngine(METHOD, NodeRetriever(), llm=ScriptedLLM(), **options)


COMPONENTS = {
    "FitRagRetriever(base=OverlapBase, scorer=OverlapScorer, window=1, max_tokens=800)": (
        lambda: langchain.FitRagRetriever(
            base=OverlapBase(), scorer=OverlapScorer(), window=1, max_tokens=800
        )
    ),
    "CorrectiveRetriever(base=OverlapBase, search=PageSearch, evaluator=OverlapEvaluator, "
    "max_tokens=90)": lambda: langchain.CorrectiveRetriever(
        base=OverlapBase(), search=PageSearch(), evaluator=OverlapEvaluator(), max_tokens=90
    ),
    "SlimPLMRetriever(k=2, base=OverlapBase, proxy=Proxy, judge=Judge, rewriter=Rewriter)": (
        lambda: langchain.SlimPLMRetriever(
            base=OverlapBase(), proxy=Proxy(), judge=Judge(), rewriter=Rewriter(), k=2
        )
    ),
    "BiLabelReranker(scorer=OverlapScorer, top_n=3)": (
        lambda: langchain.BiLabelReranker(top_n=3, scorer=OverlapScorer())
    ),
    "SubDocumentCompressor(scorer=OverlapScorer, weight=0.25)": (
        lambda: langchain.SubDocumentCompressor(weight=0.25, scorer=OverlapScorer())
    ),
    "KnowledgeRouter(gate=WordGate, threshold=0.7, known=RunnableLambda, unknown=RunnableLambda)": (
        lambda: langchain.KnowledgeRouter(gate=WordGate(), threshold=0.7, known=len, unknown=len)
    ),
    "FitRagRetriever(base=NodeRetriever, method=FitRag)": (
        lambda: llama_index.FitRagRetriever(NodeRetriever(), scorer=OverlapScorer(), top_n=3)
    ),
    "MethodQueryEngine(method=FitRag, retriever=NodeRetriever)": (
        lambda: whole_engine(reader=LongestWordReader())
    ),
    "KnowledgeRouterQueryEngine(gate=WordGate, retrieve=MethodQueryEngine)": (
        lambda: llama_index.KnowledgeRouterQueryEngine(
            WordGate(), retrieve=whole_engine(), llm=ScriptedLLM(), drafter=ScriptedLLM()
        )
    ),
    "CorrectiveRouterQueryEngine(base=NodeRetriever, correct=RetrieverQueryEngine, "
    "ambiguous=MethodQueryEngine, incorrect=MethodQueryEngine)": (
        lambda: llama_index.CorrectiveRouterQueryEngine(
            NodeRetriever(),
            correct=RetrieverQueryEngine.from_args(NodeRetriever(), llm=ScriptedLLM()),
            incorrect=whole_engine(),
            evaluator=OverlapEvaluator(),
        )
    ),
    "WebSearchRetriever(search=PageSearch)": lambda: llama_index.WebSearchRetriever(PageSearch()),
    "BiLabelReranker(top_n=2, weight=0.25, scorer=OverlapScorer)": (
        lambda: llama_index.BiLabelReranker(top_n=2, weight=0.25, scorer=OverlapScorer())
    ),
    "KnowledgeRefiner(evaluator=OverlapEvaluator, top_n=1)": (
        lambda: llama_index.KnowledgeRefiner(top_n=1, evaluator=OverlapEvaluator())
    ),
    "SubDocumentCompressor(scorer=OverlapScorer, window=2, max_tokens=40, count_tokens=len)": (
        lambda: llama_index.SubDocumentCompressor(
            max_tokens=40, window=2, count_tokens=len, scorer=OverlapScorer()
        )
    ),
}


def asked(made, question=QUESTION):
    """Ask a component in the words of its framework; what can be compared comes back."""
    if hasattr(made, "compress_documents"):
        return made.compress_documents(documents(), question)
    if hasattr(made, "postprocess_nodes"):
        return made.postprocess_nodes(NODES, query_str=question)
    if hasattr(made, "query"):
        return made.query(question).response
    return (made.retrieve if hasattr(made, "retrieve") else made.invoke)(question)


@pytest.mark.parametrize("shown", COMPONENTS)
def test_it_is_short_and_its_copies_do_the_same(shown):
    made = COMPONENTS[shown]()
    assert repr(made) == shown
    expected = asked(made)
    for twin in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert repr(twin) == shown
        assert asked(twin) == expected
