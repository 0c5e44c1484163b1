"""`fit` searches with the retrievers of both frameworks, and with ours, alike."""

from fakes import QUESTIONS, OverlapRetriever
from langchain_fakes import OverlapBase
from llama_fakes import NodeRetriever

from fitrag_integrations.training.fitted.fitting import finder


def test_every_retriever_finds_the_same():
    found = [
        finder(retriever, 3)(list(QUESTIONS))
        for retriever in (OverlapBase(), NodeRetriever(), OverlapRetriever())
    ]
    texts = [[[(p.title, p.text) for p in own] for own in each] for each in found]
    assert texts[0] == texts[1] == texts[2]
    assert all(len(own) == 3 for own in found[0])
    called = finder(lambda queries: OverlapRetriever().retrieve(queries), 2)(QUESTIONS[:1])
    assert [p.text for p in called[0]] == [p.text for p in found[2][0][:2]]
