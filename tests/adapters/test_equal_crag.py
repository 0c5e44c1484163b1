"""Both frameworks over the same evaluator and search: equal strips, actions, metadata, traces."""

import asyncio

import pytest
from decision_fakes import OverlapEvaluator, PageSearch
from fakes import PASSAGES, QUESTIONS
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from llama_fakes import NodeRetriever, ScriptedLLM, node
from test_equal_frameworks import document, documents, of_documents, of_nodes, steps

from fitrag_integrations import langchain, llama_index
from fitrag_integrations.errors import SearchError
from fitrag_integrations.methods import Crag
from fitrag_integrations.methods.crag.evaluator import ActionThresholds

ASKED = (*QUESTIONS, "Who wrote the many films of Milan?", "Which ferry sails to Corran Head?")
QUOTA = SearchError("the quota is spent", kind="quota")

SETTINGS = [
    {},
    {"top_n": 1, "sentences": 1},
    {"max_tokens": 40},
    {"strip_threshold": 0.9},
    {"thresholds": ActionThresholds(0.99, -0.99)},
    {"without": ["ambiguous"]},
    {"refine": False, "rewrite": False, "select": False},
]


def pair(search=PageSearch, evaluators=None, **settings):
    evaluators = evaluators or (OverlapEvaluator(), OverlapEvaluator())
    one = langchain.CorrectiveRetriever(
        base=RunnableLambda(documents), evaluator=evaluators[0], search=search(), **settings
    )
    other = llama_index.CorrectiveRetriever(
        NodeRetriever(), evaluator=evaluators[1], search=search(), **settings
    )
    return one, other


def marks(found):
    """Give what says that an excerpt is from the web, of documents or nodes."""
    return [tuple(each.metadata.get(name) for name in ("web", "url", "trust")) for each in found]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("question", ASKED)
def test_corrective_retrievers_give_equal_strips(settings, question):
    one, other = pair(**settings)
    kept, found = one.invoke(question), other.retrieve(question)
    assert of_documents(kept) == of_nodes(found)
    assert marks(kept) == marks(found)
    assert of_documents(asyncio.run(one.ainvoke(question))) == of_nodes(found)
    assert of_nodes(asyncio.run(other.aretrieve(question))) == of_nodes(found)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_batches_are_equal_and_make_equal_calls(settings):
    evaluators = OverlapEvaluator(), OverlapEvaluator()
    one, other = pair(evaluators=evaluators, **settings)
    found = [*map(of_nodes, other.retrieve_many(ASKED))]
    assert [*map(of_documents, one.batch(list(ASKED)))] == found
    assert evaluators[0].batches == evaluators[1].batches


def test_failures_are_told_alike():
    def failing():
        return PageSearch(error=QUOTA)

    one, other = pair(failing)
    kept, found = one.invoke(ASKED[-1]), other.retrieve(ASKED[-1])
    assert of_documents(kept) == of_nodes(found)
    assert kept.context.details["web_error"]["kind"] == "quota"
    assert other.last_run.value.details["web_error"]["kind"] == "quota"
    one, other = pair(failing, on_web_error="raise")
    with pytest.raises(SearchError):
        one.invoke(ASKED[-1])
    with pytest.raises(SearchError):
        other.retrieve(ASKED[-1])


@pytest.mark.parametrize("question", ASKED)
def test_traces_are_equal(question):
    method = Crag(OverlapEvaluator())
    runnable = langchain.MethodRunnable(
        method=method, retriever=RunnableLambda(documents), search=PageSearch()
    )
    retriever = llama_index.MethodRetriever(NodeRetriever(), method=method, search=PageSearch())
    one, (other,) = runnable.invoke(question), retriever.trace_many([question])
    (again,) = asyncio.run(retriever.atrace_many([question]))
    assert steps(one) == steps(other) == steps(again)
    assert one.value.action == other.value.action == again.value.action
    assert one.value.to_dict()["details"] == other.value.to_dict()["details"]
    assert one.value.notes == other.value.notes


@pytest.mark.parametrize(
    "settings", [{}, {"top_n": 1}, {"threshold": -1.0, "top_n": None}, {"max_tokens": 40}], ids=str
)
@pytest.mark.parametrize("question", ASKED)
def test_refiners_give_equal_strips(settings, question):
    one = langchain.KnowledgeRefiner(evaluator=OverlapEvaluator(), **settings)
    other = llama_index.KnowledgeRefiner(evaluator=OverlapEvaluator(), **settings)
    kept = one.compress_documents([*map(document, PASSAGES)], question)
    found = other.postprocess_nodes([*map(node, PASSAGES)], query_str=question)
    assert of_documents(kept) == of_nodes(found)


@pytest.mark.parametrize("rewrite", [False, True])
@pytest.mark.parametrize("question", ASKED)
def test_web_searches_give_equal_pages(rewrite, question):
    one = langchain.WebSearchRetriever(search=PageSearch(), rewrite=rewrite)
    other = llama_index.WebSearchRetriever(PageSearch(), rewrite=rewrite)
    kept, found = one.invoke(question), other.retrieve(question)
    assert [d.page_content for d in kept] == [n.text for n in found]
    assert marks(kept) == marks(found)
    assert kept[0].metadata["fitrag"] == found[0].metadata["fitrag"]


@pytest.mark.parametrize("question", ASKED)
def test_routers_take_the_same_action(question):
    llm, evaluators = ScriptedLLM(), (OverlapEvaluator(), OverlapEvaluator())
    engine = llama_index.MethodQueryEngine(Crag(evaluators[0]), NodeRetriever(), llm=llm)
    one = langchain.CorrectiveRouter(
        correct=RunnablePassthrough(),
        incorrect=RunnablePassthrough(),
        base=RunnableLambda(documents),
        evaluator=evaluators[0],
    )
    other = llama_index.CorrectiveRouterQueryEngine(
        NodeRetriever(), correct=engine, incorrect=engine, evaluator=evaluators[1]
    )
    got = one.invoke(question)
    told = other.query(question).metadata["fitrag"]
    again = asyncio.run(other.aquery(question)).metadata["fitrag"]
    assert got["action"] == told["action"] == again["action"]
    assert got["grades"] == told["details"]["grades"]
    assert asyncio.run(one.ainvoke(question)) == got
    responses = other.query_many(list(ASKED))
    assert [each["action"] for each in one.batch(list(ASKED))] == [
        each.metadata["fitrag"]["action"] for each in responses
    ]
