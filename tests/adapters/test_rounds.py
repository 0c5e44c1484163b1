"""SlimPLMRetriever and ITRGRetriever in both frameworks."""

from fakes import QUESTIONS
from frameworks import BOTH
from langchain_core.runnables import RunnableLambda
from langchain_fakes import OverlapBase, Recorder
from llama_fakes import NodeRetriever, ScriptedLLM
from round_fakes import CLAIMS, LEFT_OPEN, Judge, Proxy, Rewriter, Writer

from fitrag_integrations.langchain import MethodRunnable, SlimPLMRetriever
from fitrag_integrations.llama_index import MethodQueryEngine
from fitrag_integrations.methods import ITRG

KNOWN, OPEN = QUESTIONS[0], QUESTIONS[1]


def slimplm(framework, **fields):
    made = {"base": framework.base(), "proxy": Proxy(), "judge": Judge(), "rewriter": Rewriter()}
    return framework.ours.SlimPLMRetriever(**{**made, **fields})


def itrg(framework, writer=None, **fields):
    writer = writer or Writer()
    llm = writer.runnable() if repr(framework) == "langchain" else writer
    made = {"base": framework.base(), "llm": llm, "rounds": 3}
    return framework.ours.ITRGRetriever(**{**made, **fields})


async def test_a_known_question_is_not_retrieved_for(framework):
    made = slimplm(framework, base=framework.base(bad=KNOWN))
    assert (await framework.in_every_way(made, KNOWN))[0] == []


async def test_an_open_question_is_retrieved_for_by_its_claims(framework):
    pieces, context = await framework.in_every_way(slimplm(framework, k=2), OPEN)
    assert len(pieces) == 2
    assert (context.method, context.queries) == ("slimplm", (LEFT_OPEN,))
    assert [verdict["known"] for verdict in context.details["verdicts"]] == [False, True]


async def test_batches_share_every_call(framework):
    for make in (slimplm, itrg):
        retriever = make(framework)
        alone = [framework.pieces(framework.ask(retriever, question)) for question in QUESTIONS]
        for found in (
            framework.many(retriever, QUESTIONS),
            await framework.amany(retriever, QUESTIONS),
        ):
            assert [*map(framework.pieces, found)] == alone
    parts = {"proxy": Proxy(), "judge": Judge(), "rewriter": Rewriter()}
    framework.many(slimplm(framework, **parts), QUESTIONS)
    assert [part.calls for part in parts.values()] == [[3], [3, 4], [2]]
    writer = Writer()
    framework.many(itrg(framework, writer), QUESTIONS)
    assert writer.calls[0] == 3


async def test_language_models_take_every_role(framework):
    made = slimplm(
        framework,
        proxy=framework.says("a guess"),
        judge=framework.says("Known (False)"),
        rewriter=framework.says(CLAIMS),
    )
    _, context = await framework.in_every_way(made, KNOWN)
    assert context.queries == (LEFT_OPEN, "length of the river")
    made = slimplm(framework, rewriter=None, llm=framework.says(CLAIMS))
    _, context = await framework.in_every_way(made, OPEN)
    assert context.queries == (LEFT_OPEN,)
    _, context = await framework.in_every_way(slimplm(framework, rewriter=None), OPEN)
    assert context.notes == (
        "no rewriter and no generate port were given: the question itself is retrieved for",
    )
    made = framework.ours.ITRGRetriever(
        base=framework.base(), llm=framework.says("A document."), rounds=2
    )
    _, context = await framework.in_every_way(made, OPEN)
    assert context.details["document"] == "A document."


def test_models_run_below_the_retriever_and_share_its_base():
    recorder, base = Recorder(), OverlapBase()
    retriever = SlimPLMRetriever(
        base=base,
        proxy=RunnableLambda(lambda prompt: "a guess"),
        judge=RunnableLambda(lambda prompt: "Known (False)").with_config(run_name="judge"),
        rewriter=RunnableLambda(lambda prompt: CLAIMS),
    )
    assert len(retriever.batch(list(QUESTIONS), config={"callbacks": [recorder]})) == 3
    assert base.batches == [6]  # both claims of each question, in one call
    judged = recorder.named("judge")
    assert {recorder.parent_of(run) for run in judged} == {"SlimPLMRetriever"}
    assert len(judged) == 9  # each question, and its two claims


async def test_rounds_and_their_texts_are_in_the_context(framework):
    writer = Writer()
    pieces, context = await framework.in_every_way(itrg(framework, writer, k=3), OPEN)
    assert len(pieces) == 3
    assert context.details["rounds"][1]["query"] == f"{OPEN} Document 1."
    assert context.details["document"] == writer.written[-1]


def test_in_langchain_a_call_chooses_how_many():
    assert len(itrg(BOTH[0], k=3).invoke(OPEN, k=1)) == 1
    assert len(itrg(BOTH[0], k=None, base=OverlapBase()).invoke(OPEN)) == 5


def test_a_writer_that_fails_on_one_question_leaves_the_others(framework):
    good = framework.many(itrg(framework), [KNOWN, QUESTIONS[2]])
    made = itrg(framework, Writer(bad="Danube"))
    first, _, last = framework.many(made, QUESTIONS)
    assert [*map(framework.pieces, (first, last))] == [*map(framework.pieces, good)]
    assert (
        "the language model wrote no document"
        in framework.context(made, framework.ask(made, OPEN)).notes[0]
    )
    strict = itrg(framework, Writer(bad="Danube"), on_error="raise")
    failed = framework.many(strict, QUESTIONS, return_exceptions=True)
    assert [isinstance(each, RuntimeError) for each in failed] == [False, True, False]


async def test_an_answer_the_method_wrote_is_not_written_again():
    method = ITRG(rounds=1, answers="last")
    writer = Writer()
    runnable = MethodRunnable(method=method, retriever=OverlapBase(), llm=writer.runnable())
    assert [*runnable.stream(OPEN)] == ["Document 2."]  # the prompt for the answer shows the first
    assert [word async for word in runnable.astream(OPEN)] == ["Document 2."]
    assert runnable.invoke(OPEN) == "Document 2."
    assert len(writer.written) == 6  # a document and an answer each
    llm = ScriptedLLM()
    whole = MethodQueryEngine(method, NodeRetriever(), llm=llm).query(OPEN)
    streaming = MethodQueryEngine(method, NodeRetriever(), llm=llm, streaming=True)
    assert [*streaming.query(OPEN).response_gen] == [whole.response]
    response = await streaming.aquery(OPEN)
    assert [word async for word in response.async_response_gen()] == [whole.response]
    assert len(llm.prompts) == 6
