"""What no component can be asked is refused at the call, in both frameworks, by what was wrong.

What is refused at construction is in `test_wrong_arguments.py`; that a retriever finds nothing for
a blank question, in `test_travel.py`.
"""

import inspect

import pytest
from decision_fakes import OverlapEvaluator, WordGate
from fakes import QUESTIONS, FixedGate, OverlapScorer
from frameworks import BOTH
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, SystemMessage
from langchain_core.prompts import PromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_fakes import OverlapBase
from llama_index.core.llms import MockLLM

from fitrag_integrations import compress, langchain, llama_index, rerank
from fitrag_integrations.langchain.base.convert import to_pages
from fitrag_integrations.methods import AskGate, FitRag

QUESTION = QUESTIONS[0]
BLANK, NO_TEXT = ("", " \n"), (None, 3)
NO_QUESTION = ({}, {"text": QUESTION}, {"question": 3}, [], [AIMessage("Hello.")])
NO_QUESTION += ({"messages": []}, {"messages": [SystemMessage("Be brief.")]})
NO_TEXTS = (None, 7, "one text", b"bytes", [None], [7], [{}], [{"text": None}])
TOLD = "input|question|message|documents"
UNGRADED = ({"documents": []}, {"question": QUESTION, "documents": None})
UNGRADED += tuple({"question": QUESTION, "documents": bad} for bad in ("text", ["text"]))
SCORER, EVALUATOR = OverlapScorer(), OverlapEvaluator()


def ways(name, runnable, *values):
    """Return the rows of a runnable, one for each way to ask it."""
    calls = {"invoke": runnable.invoke, "ainvoke": runnable.ainvoke}
    calls["stream"] = lambda given: list(runnable.stream(given))
    return [(f"{name}.{way}", call, values, TOLD) for way, call in calls.items()]


def keeping(each, kind, way, question=True):
    """Return a call of a compressor with a question, or with documents."""
    made = getattr(each.ours, kind)(scorer=SCORER)
    if question:
        return lambda given: getattr(each, way)(made, each.given(), given)
    return lambda given: getattr(each, way)(made, given, QUESTION)


def based(found):
    """Ask a retriever whose base finds something else."""
    base = RunnableLambda(lambda _: found)
    return langchain.FitRagRetriever(base=base, scorer=SCORER).invoke(QUESTION)


def answered(reply, *, way="invoke", made=langchain.MethodRunnable, **given):
    """Ask a component whose model gives something else."""
    return [*getattr(made(llm=RunnableLambda(lambda _: reply), **given), way)(QUESTION)]


METHOD = {"method": FitRag(SCORER), "retriever": OverlapBase()}
GATED = {"made": langchain.KnowledgeRouter, "gate": FixedGate(0.9), "unknown": len}
ROUTED = langchain.KnowledgeRouter(gate=WordGate(), known=len, unknown=len)
CORRECTIVE = langchain.CorrectiveRouter(evaluator=EVALUATOR, correct=len, incorrect=len)
RETRIEVER = langchain.FitRagRetriever(base=OverlapBase(), scorer=SCORER)
JUDGED = langchain.RetrievalJudge(evaluator=EVALUATOR).invoke
GATE = langchain.RetrievalGate(gate=FixedGate(0.9)).invoke
COMPRESSORS = [(e, k) for e in BOTH for k in ("BiLabelReranker", "SubDocumentCompressor")]
RUNS = langchain.BiLabelReranker(scorer=SCORER).as_runnable().invoke
SILENT = (OverlapBase(), OverlapBase().with_config(tags=["mine"]), BOTH[1].base(), 3, MockLLM)
SILENT += (PromptTemplate.from_template("{x}"), FakeListChatModel)
SILENT += (RunnableLambda(lambda _: {"a": 1}).with_types(output_type=dict[str, int]),)
CALLS = [  # what is called, with which values, and what says so
    *(
        (
            f"{each}.{kind}.{way}, question",
            keeping(each, kind, way),
            (*BLANK, *NO_TEXT),
            "question|query",
        )
        for each, kind in COMPRESSORS
        for way in ("keep", "akeep")
    ),
    *(
        (
            f"{each}.{kind}, documents",
            keeping(each, kind, "keep", question=False),
            (["text"], [None], "text", None),
            "documents|nodes",
        )
        for each, kind in COMPRESSORS
    ),
    *ways("KnowledgeRouter", ROUTED, *BLANK, *NO_TEXT, *NO_QUESTION),
    *ways("CorrectiveRouter", CORRECTIVE, QUESTION, None, *NO_QUESTION, *UNGRADED),
    *ways("MethodRunnable", langchain.MethodRunnable(**METHOD), "", *NO_TEXT, *NO_QUESTION),
    *ways("MethodRunnable, llm", langchain.MethodRunnable(**METHOD, llm=str.upper), "", *NO_TEXT),
    ("RetrievalGate", GATE, (*NO_TEXT, *NO_QUESTION), TOLD),
    ("RetrievalJudge", JUDGED, (QUESTION, None, {"question": QUESTION}, *UNGRADED), TOLD),
    ("FitRagRetriever.invoke", RETRIEVER.invoke, NO_TEXT, "question"),
    ("FitRagRetriever.ainvoke", RETRIEVER.ainvoke, NO_TEXT, "question"),
    ("FitRagRetriever, k", lambda k: RETRIEVER.invoke(QUESTION, k=k), (0,), "k` must be"),
    ("FitRagRetriever, its base", based, ("text", None, ["text"], {"a": 1}), "documents"),
    ("as_runnable", RUNS, ({}, {"query": "q"}, "text", 3), "'documents' and 'question'|a question"),
    ("reply", lambda v: answered(v, **METHOD), NO_TEXT, "llm output` must be"),
    ("reply, router", lambda v: answered(v, **GATED), NO_TEXT, "llm output` must be"),
    ("streamed", lambda v: answered(v, way="stream", **GATED), NO_TEXT, "llm output` must be"),
    ("search results", to_pages, (3, None, [3]), "search result"),
    ("cite_documents", lambda v: langchain.cite_documents(v, "[1]"), ("a", [1], None), "documents"),
    ("cite_nodes", lambda v: llama_index.cite_nodes(v, "[1]"), ("a", [1], None), "nodes"),
    ("rerank", lambda v: rerank(QUESTION, v), NO_TEXTS, "^`texts"),
    ("compress", lambda v: compress(QUESTION, v), NO_TEXTS, "^`texts"),
    ("AskGate", AskGate, SILENT, "model"),
]


@pytest.mark.parametrize(
    ("call", "value", "says"),
    [
        pytest.param(call, value, says, id=f"{name}-{at}")
        for name, call, values, says in CALLS
        for at, value in enumerate(values)
    ],
)
async def test_a_wrong_call_is_refused_by_what_was_wrong(call, value, says):
    with pytest.raises(ValueError, match=says):
        found = call(value)
        if inspect.isawaitable(found):
            await found
