"""LangChain's own suites over our retrievers."""

import importlib.util

import pytest
from fakes import QUESTIONS, OverlapScorer, WordEncoder
from langchain_fakes import OverlapBase, documents
from langchain_tests.integration_tests import RetrieversIntegrationTests

from fitrag_integrations.langchain import (
    BiLabelReranker,
    CompressingRetriever,
    FaissRetriever,
    FitRagRetriever,
    MethodRetriever,
)
from fitrag_integrations.methods import FitRag

FAISS = all(map(importlib.util.find_spec, ("faiss", "torch")))


class TestFitRagRetriever(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self):
        return FitRagRetriever

    @property
    def retriever_constructor_params(self):
        return {"base": OverlapBase(), "scorer": OverlapScorer()}

    @property
    def retriever_query_example(self):
        return QUESTIONS[0]


class TestFitRagRetrieverTopN(TestFitRagRetriever):
    @property
    def retriever_constructor_params(self):
        return {"base": OverlapBase(), "scorer": OverlapScorer(), "max_tokens": 800}


class TestMethodRetriever(TestFitRagRetriever):
    @property
    def retriever_constructor(self):
        return MethodRetriever

    @property
    def retriever_constructor_params(self):
        return {"base": OverlapBase(), "method": FitRag(OverlapScorer(), max_share=None)}


class TestCompressingRetriever(TestFitRagRetriever):
    @property
    def retriever_constructor(self):
        return CompressingRetriever

    @property
    def retriever_constructor_params(self):
        compressors = [BiLabelReranker(scorer=OverlapScorer())]
        return {"base": OverlapBase(), "compressors": compressors}


@pytest.mark.skipif(not FAISS, reason="needs faiss and torch")
class TestFaissRetriever(TestFitRagRetriever):
    @property
    def retriever_constructor(self):
        return FaissRetriever

    @property
    def retriever_constructor_params(self):
        return {"index": FaissRetriever.from_documents(documents(), WordEncoder()).index}
