"""What a drop-in of either framework refuses, at construction and at the call, by what was wrong.

The wrong options of a method are those of `tests/methods/test_wrong_options.py`: every drop-in
that has the option refuses the same values.
"""

import inspect
import math
from dataclasses import fields

import pytest
from decision_fakes import OverlapEvaluator, PageSearch, WordGate
from fakes import QUESTIONS, FixedGate, OverlapRetriever, OverlapScorer
from first_contact import LLMS, Overlap, retrievers
from frameworks import BOTH
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, SystemMessage
from langchain_core.prompts import PromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import create_retriever_tool
from langchain_fakes import OverlapBase
from llama_fakes import NodeRetriever
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import QueryBundle
from round_fakes import Judge, Proxy, Rewriter
from test_wrong_options import WRONG as OF_METHODS

from fitrag_integrations import compress, langchain, llama_index, rerank
from fitrag_integrations.errors import PortError
from fitrag_integrations.langchain.base.convert import to_pages
from fitrag_integrations.methods import AskGate, Decider, FitRag, PTrueGate
from fitrag_integrations.methods.fitrag.functional import Reranking
from fitrag_integrations.methods.fitrag.method import TokenReducer

LANGCHAIN, LLAMA_INDEX = BOTH
SCORER, EVALUATOR, METHOD = OverlapScorer(), OverlapEvaluator(), FitRag(OverlapScorer())
ENGINE = RetrieverQueryEngine.from_args(NodeRetriever(), llm=MockLLM())
LLM = object()
"""A language model, which writes and does nothing else."""
ALONE = ("FaissRetriever", "WebSearchRetriever")
NEEDED = {
    "CorrectiveRetriever": {"evaluator": EVALUATOR},
    "CorrectiveRouterQueryEngine": {"correct": ENGINE, "incorrect": ENGINE},
    "KnowledgeRefiner": {"evaluator": EVALUATOR},
    "KnowledgeRouter": {"known": len, "unknown": len, "gate": WordGate()},
    "KnowledgeRouterQueryEngine": {"gate": WordGate(), "retrieve": ENGINE, "llm": MockLLM()},
    "KnowledgeSelector": {"gate": WordGate()},
    "MethodQueryEngine": {"method": METHOD, "retriever": NodeRetriever(), "llm": MockLLM()},
    "MethodRetriever": {"method": METHOD},
    "MethodRunnable": {"method": METHOD},
    "CompressingRetriever": {"compressors": []},
    "CorrectiveRouter": {"correct": len, "incorrect": len},
    "FaissRetriever": {"index": PageSearch()},
    "RetrievalGate": {"gate": WordGate()},
    "RetrievalJudge": {"evaluator": EVALUATOR},
    "RetrievalGateMiddleware": {"gate": WordGate(), "tools": ["notes"]},
    "SlimPLMRetriever": {"proxy": Proxy(), "judge": Judge(), "rewriter": Rewriter()},
    "WebSearchRetriever": {"search": PageSearch()},
}
SAYS = {"reader": "read", "retriever": "retriever|base", "strip_threshold": "threshold"}
SAYS |= {"llm": "llm|generate", "incorrect": "incorrect|ambiguous"}
DECIDED = ("KnowledgeRouterQueryEngine", "KnowledgeSelector")  # by the options of a decider
CUT = {FitRag, TokenReducer, Reranking}  # share their options
OF_BOTH = {
    "BiLabelReranker": [{"topn": 3, "scorer": LLM}, {"top_n": "many", "scorer": OverlapScorer}],
    "SubDocumentCompressor": [{"max_token": 3, "scorer": LLM, "weight": math.nan}],
    "KnowledgeRefiner": [{"n": 3, "evaluator": 3, "count_tokens": "nope"}, {"evaluator": LLM}],
    "FitRagRetriever": [
        {"base": None, "max_token": 9, "max_share": 2, "count_tokens": "nope"},
        {"base": 3, "scorer": object()},
        {"base": LLM, "detector": LLM, "scorer": LLM, "gate": LLM},
    ],
    "CorrectiveRetriever": [
        {"base": 3, "search": 3, "llm": 3, "evaluator": object(), "thresholds": "no such preset"},
        {"split": 3, "count_tokens": 3, "pages": 3, "strip_threshold": 2.0},
        {"search": LLM, "evaluator": LLM, "without": ["wrong"]},
    ],
    "MethodRetriever": [
        {"method": None, "search": 3, "llm": 3},
        {"method": FitRag},
        {"method": "fitrag"},
    ],
    "SlimPLMRetriever": [{"rewriter_prompt": "short", "rounds": 3, "judge": Overlap()}],
    "WebSearchRetriever": [{"search": 3}, {"search": PageSearch}, {"search": None}],
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
    "KnowledgeRouter": [{"known": None, "unknown": 3, "gates": 1}, {"known": 3, "unknown": None}],
    "MethodRunnable": [
        {"method": None, "retriever": 3, "llm": 3, "reader": object(), "template": "no such"},
        {"template": "{documents}", "models": 3, "retriever": LLM, "reader": LLM},
        {"template": 3},
    ],
    "BiLabelCrossEncoder": [{"weight": 2, "scorer": object()}, {"scorer": LLM}],
    "CompressingRetriever": [{"base": LLM, "compressors": [object()]}],
    "CorrectiveRouter": [
        {"incorrect": None, "evaluator": 3},
        {"evaluator": OverlapEvaluator(thresholds=None)},
    ],
    "FaissRetriever": [{"index": None}, {"index": 3}, {"index": Overlap}],
    "RetrievalGate": [{"gate": LLM, "drafter": Overlap(), "threshold": True}, {"threshold": "2"}],
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
        {"retrieve": NodeRetriever(), "llm": 3, "template": "{nothing}", "streaming": "yes"}
    ],
    "KnowledgeSelector": [
        {"known": 1, "unknown": 0},
        {"known": -1, "unknown": "1"},
        {"known": 0.5, "gate": LLM, "drafter": Overlap()},
    ],
    "MethodQueryEngine": [
        {"method": None, "retriever": 3, "llm": 3, "reader": 3, "template": "{question}"},
        {"retriever": LLM, "reader": LLM},
    ],
}


def options():
    """Give what the drop-ins of both frameworks refuse because their methods do."""
    for each in BOTH:
        for name in each.ours.__all__:
            made = getattr(getattr(each.ours, name), "made", Decider if name in DECIDED else None)
            own = {field.name for field in fields(made) if field.init} if made else ()
            for kind, field, value, *says in OF_METHODS:
                if field in own and value != "embedded" and (kind is made or {kind, made} <= CUT):
                    yield each, name, field, value, *says


def told():
    """Give what a drop-in alone refuses."""
    tables = (OF_BOTH, OF_BOTH, OF_LANGCHAIN, OF_LLAMA_INDEX)
    for each, kinds in zip((*BOTH, *BOTH), tables, strict=True):
        for name, rows in kinds.items():
            for field, value in (pair for row in rows for pair in row.items()):
                yield each, name, field, value


def made_of(framework, name, **options):
    """Make a component of what it needs, and the options."""
    over_base = name.endswith("Retriever") or name == "CorrectiveRouterQueryEngine"
    base = {"base": framework.base()} if over_base and name not in ALONE else {}
    return getattr(framework.ours, name)(**{**base, **NEEDED.get(name, {}), **options})


@pytest.mark.parametrize(
    "row", [*options(), *told()], ids=lambda row: f"{row[0]}.{row[1]}.{row[2]}={type(row[3])}"
)
def test_a_wrong_argument_is_refused_at_once(row):
    framework, name, field, value, *says = row
    value = LLMS[framework] if value is LLM else value
    with pytest.raises((ValueError, TypeError), match="|".join([SAYS.get(field, field), *says])):
        made_of(framework, name, **{field: value})


KINDS = ("Retriever", "Reranker", "Compressor", "Refiner", "Engine", "Selector", "Runnable")
KINDS += ("RetrievalGate", "Router", "CrossEncoder", "Embedding", "Embeddings", "Judge")


@pytest.mark.parametrize(
    ("framework", "name"),
    [(each, name) for each in BOTH for name in each.ours.__all__ if name.endswith(KINDS)],
    ids=str,
)
def test_what_there_is_not_cannot_be_set(framework, name):
    made = made_of(framework, name)
    with pytest.raises((ValueError, AttributeError), match="max_token"):
        made.max_token = 20


def test_a_wrong_base_or_search_is_named_as_the_caller_does():
    for name, given in (("base", {"base": 3}), ("search", {"base": print, "search": 3})):
        with pytest.raises(ValueError, match=f"`{name}` must be a Runnable or a callable, got 3"):
            langchain.CorrectiveRetriever(**given)


# --- at the call

QUESTION = QUESTIONS[0]
BLANK, NO_TEXT = ("", " \n"), (None, 3)
NO_QUESTION = ({}, {"text": QUESTION}, {"question": 3}, [], [AIMessage("Hello.")])
NO_QUESTION += ({"messages": []}, {"messages": [SystemMessage("Be brief.")]})
NO_TEXTS = (None, 7, "one text", b"bytes", [None], [7], [{}], [{"text": None}])
TOLD = "input|question|message|documents"
UNGRADED = ({"documents": []}, {"question": QUESTION, "documents": None})
UNGRADED += tuple({"question": QUESTION, "documents": bad} for bad in ("text", ["text"]))
COMPRESSORS = ("BiLabelReranker", "SubDocumentCompressor", "KnowledgeRefiner")


def ways(name, runnable, *values):
    """Return the rows of a runnable, one for each way to ask it."""
    calls = {"invoke": runnable.invoke, "ainvoke": runnable.ainvoke}
    calls["stream"] = lambda given: list(runnable.stream(given))
    return [(f"{name}.{way}", call, values, TOLD) for way, call in calls.items()]


def keeping(each, name):
    """Return the rows of a compressor: a wrong question in every way, and wrong documents."""
    made, given = made_of(each, name), each.given()
    query = "query" if each is LANGCHAIN else "query_str"
    blank, no_text = f"^`{query}` must be a string that is not blank", "quer"
    calls = {
        "keep": lambda asked: each.keep(made, given, asked),
        "akeep": lambda asked: each.akeep(made, given, asked),
        "explain": lambda asked: made.explain(given, **{query: asked}),
    }
    for way, call in calls.items():
        yield f"{each}.{name}.{way}, blank", call, BLANK, blank
        yield f"{each}.{name}.{way}, question", call, NO_TEXT, no_text
    wrong = (["text"], [None], "text", None)
    yield (
        f"{each}.{name}, documents",
        lambda v: each.keep(made, v, QUESTION),
        wrong,
        "documents|nodes",
    )


def bundled(name):
    """Return the rows of a postprocessor that is given a bundle, or both kinds of a query."""
    made, given = made_of(LLAMA_INDEX, name), LLAMA_INDEX.given()
    wrong = (None, QueryBundle(" \n"), "a plain string")
    yield f"{name}, bundle", lambda v: made.postprocess_nodes(given, query_bundle=v), wrong, "query"
    yield (
        f"{name}, abundle",
        lambda v: made.apostprocess_nodes(given, query_bundle=v),
        wrong,
        "query",
    )
    both = ({}, {"query_str": "a", "query_bundle": QueryBundle("a")})
    yield f"{name}, both", lambda v: made.explain(given, **v), both, "query"


def based(found):
    """Ask a retriever whose base finds something else."""
    base = RunnableLambda(lambda _: found)
    return langchain.FitRagRetriever(base=base, scorer=SCORER).invoke(QUESTION)


def answered(reply, *, way="invoke", made=langchain.MethodRunnable, **given):
    """Ask a component whose model gives something else."""
    return [*getattr(made(llm=RunnableLambda(lambda _: reply), **given), way)(QUESTION)]


WHOLE = {"method": METHOD, "retriever": OverlapBase()}
GATED = {"made": langchain.KnowledgeRouter, "gate": FixedGate(0.9), "unknown": len}
ROUTED = langchain.KnowledgeRouter(gate=WordGate(), known=len, unknown=len)
CORRECTIVE = langchain.CorrectiveRouter(evaluator=EVALUATOR, correct=len, incorrect=len)
RETRIEVER = langchain.FitRagRetriever(base=OverlapBase(), scorer=SCORER)
JUDGED = langchain.RetrievalJudge(evaluator=EVALUATOR).invoke
GATE = langchain.RetrievalGate(gate=FixedGate(0.9)).invoke
RUNS = langchain.BiLabelReranker(scorer=SCORER).as_runnable().invoke
NODES = llama_index.FitRagRetriever(NodeRetriever(), scorer=SCORER)
ENGINES = ("MethodQueryEngine", "KnowledgeRouterQueryEngine", "CorrectiveRouterQueryEngine")
NO_P = (FakeListChatModel(responses=["Yes"]).bind(stop=["x"]),)
SILENT = (OverlapBase(), OverlapBase().with_config(tags=["mine"]), NodeRetriever(), 3, MockLLM)
SILENT += (PromptTemplate.from_template("{x}"), FakeListChatModel)
SILENT += (RunnableLambda(lambda _: {"a": 1}).with_types(output_type=dict[str, int]),)
CALLS = [  # what is called, with which values, and what says so
    *(row for each in BOTH for name in COMPRESSORS for row in keeping(each, name)),
    *(row for name in COMPRESSORS for row in bundled(name)),
    *(
        (name, made_of(LLAMA_INDEX, name).retrieve, BLANK, "^`query_str` must be")
        for name in ("FitRagRetriever", "CorrectiveRetriever", "WebSearchRetriever")
    ),
    *((name, made_of(LLAMA_INDEX, name).query, BLANK, "^`query_str` must be") for name in ENGINES),
    *(
        (
            f"as_runnable, {key}",
            lambda v, key=key: RUNS({"documents": LANGCHAIN.given(), key: v}),
            BLANK,
            f"^`{key}` must be a string that is not blank",
        )
        for key in ("question", "query", "input")
    ),
    *ways("KnowledgeRouter", ROUTED, *BLANK, *NO_TEXT, *NO_QUESTION),
    *ways("CorrectiveRouter", CORRECTIVE, QUESTION, None, *NO_QUESTION, *UNGRADED),
    *ways("MethodRunnable", langchain.MethodRunnable(**WHOLE), "", *NO_TEXT, *NO_QUESTION),
    *ways("MethodRunnable, llm", langchain.MethodRunnable(**WHOLE, llm=str.upper), "", *NO_TEXT),
    (
        "MethodRunnable, no port",
        langchain.MethodRunnable(method=METHOD).invoke,
        (QUESTION,),
        "retr",
    ),
    ("RetrievalGate", GATE, (*NO_TEXT, *NO_QUESTION), TOLD),
    ("RetrievalJudge", JUDGED, (QUESTION, None, {"question": QUESTION}, *UNGRADED), TOLD),
    ("FitRagRetriever.invoke", RETRIEVER.invoke, NO_TEXT, "question"),
    ("FitRagRetriever.ainvoke", RETRIEVER.ainvoke, NO_TEXT, "question"),
    ("FitRagRetriever, k", lambda k: RETRIEVER.invoke(QUESTION, k=k), (0,), "k` must be"),
    ("FitRagRetriever, its base", based, ("text", None, ["text"], {"a": 1}), "documents"),
    ("many queries", NODES.retrieve_many, ("a string", [None], [3]), "quer"),
    ("as_runnable", RUNS, ({}, {"query": "q"}, "text", 3), "'documents' and 'question'|a question"),
    ("reply", lambda v: answered(v, **WHOLE), NO_TEXT, "llm output` must be"),
    ("reply, router", lambda v: answered(v, **GATED), NO_TEXT, "llm output` must be"),
    ("streamed", lambda v: answered(v, way="stream", **GATED), NO_TEXT, "llm output` must be"),
    ("search results", to_pages, (3, None, [3]), "search result"),
    ("cite_documents", lambda v: langchain.cite_documents(v, "[1]"), ("a", [1], None), "documents"),
    ("cite_nodes", lambda v: llama_index.cite_nodes(v, "[1]"), ("a", [1], None), "nodes"),
    ("rerank", lambda v: rerank(QUESTION, v), NO_TEXTS, "^`texts"),
    ("compress", lambda v: compress(QUESTION, v), NO_TEXTS, "^`texts"),
    ("rerank, query", lambda v: rerank(v, ["Rain."]), BLANK, "^`query` must be a string"),
    ("compress, query", lambda v: compress(v, ["A."]), BLANK, "^`query` must be a string"),
    ("AskGate", AskGate, SILENT, "model"),
    ("PTrueGate", PTrueGate, NO_P, "AskGate asks a model without one"),
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
    with pytest.raises((ValueError, PortError), match=says):
        found = call(value)
        if inspect.isawaitable(found):
            await found


@pytest.mark.parametrize("name", retrievers(LANGCHAIN))
def test_a_retriever_of_langchain_finds_nothing_for_a_blank_question_and_says_so(name):
    made = retrievers(LANGCHAIN)[name]
    for blank in BLANK:
        found = made.invoke(blank)
        assert found == [] and "blank" in found.context.notes[0]
    tool = create_retriever_tool(made, "search", "Search the pages.")
    assert tool.invoke({"query": " "}) == ""


def test_a_number_out_of_range_says_what_to_do():
    made = langchain.BiLabelReranker(scorer=lambda pairs: [4.5] * len(pairs))
    with pytest.raises(ValueError, match=r"scores\[0\]` must be .*by a sigmoid"):
        made.compress_documents(LANGCHAIN.given(), QUESTION)
