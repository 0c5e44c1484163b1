"""Gates, routers and whole methods of both frameworks: equal decisions, drafts, prompts, answers.

What only one framework has is in `test_langchain_gates.py` and `test_llama_index_gates.py`.
"""

import asyncio

import pytest
from decision_fakes import AsyncWordGate, BrokenGate, OverlapEvaluator, WordGate
from fakes import QUESTIONS, LongestWordReader, OverlapScorer
from frameworks import BOTH
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from llama_fakes import NodeRetriever, ScriptedLLM
from llama_index.core.llms import LLMMetadata
from llama_index.core.query_engine import CustomQueryEngine

from fitrag_integrations import langchain, llama_index
from fitrag_integrations.errors import InputError, PortError, ThresholdMismatchError
from fitrag_integrations.methods import Crag, FitRag, IKnow
from fitrag_integrations.methods.ik.gates import DRAFT_PROMPT
from fitrag_integrations.types import Draft
from fitrag_integrations.values.thresholds import FittedThreshold

KNOWN, UNKNOWN, _ = QUESTIONS
METHOD = FitRag(OverlapScorer())
ASKED = (*QUESTIONS, "Who wrote the many films of Milan?", "Which ferry sails to Corran Head?")


class Drafter:
    """Draft the question's last word; blank for the question ``blank``."""

    def __init__(self, blank="", name="tiny"):
        self.blank, self.name, self.batches = blank, name, []

    def draft(self, questions):
        self.batches.append(len(questions))
        return [Draft(" " if q == self.blank else q.split()[-1]) for q in questions]

    def rescore(self, questions, drafts):
        return [Draft(draft) for draft in drafts]


class Named(ScriptedLLM):
    """A language model with a name."""

    name: str = "small"

    @property
    def metadata(self):
        return LLMMetadata(model_name=self.name)


def pair(settings):
    """Make both routers, each with gates and models of its own, and the model both write with."""
    llm = ScriptedLLM()
    write = RunnableLambda(lambda prompt: llm.complete(prompt).text)
    unknown = langchain.MethodRunnable(method=METHOD, retriever=BOTH[0].base(), llm=write)
    engine = llama_index.MethodQueryEngine(METHOD, NodeRetriever(), llm=llm)
    one = langchain.KnowledgeRouter(llm=write, unknown=unknown, **settings())
    other = llama_index.KnowledgeRouterQueryEngine(retrieve=engine, llm=llm, **settings())
    return one, other, llm


def decided(made, question, how="sync"):
    """Give the decision of a router of either framework."""
    if isinstance(made, langchain.KnowledgeRouter):
        found = asyncio.run(made.adecide(question)) if how == "async" else made.decide(question)
        return found.to_dict()
    found = asyncio.run(made.aquery(question)) if how == "async" else made.query(question)
    return found.metadata["fitrag"]["decision"]


def steps(traced):
    return [(step.port, step.count) for step in traced.steps]


@pytest.mark.parametrize(
    "settings",
    [
        lambda: {"gate": WordGate()},
        lambda: {"gate": AsyncWordGate()},
        lambda: {"gate": WordGate(), "threshold": 0.95},
        lambda: {"gate": WordGate(threshold=None), "threshold": 0.1},
        lambda: {"gate": WordGate(draft_tokens=32), "drafter": Drafter()},
        lambda: {"gate": WordGate(draft_tokens=32), "drafter": Drafter(blank=QUESTIONS[0])},
        lambda: {"gate": BrokenGate(bad="Danube")},
    ],
)
def test_every_way_takes_the_same_decision_and_gives_the_same_answer(settings):
    one, other, _ = pair(settings)
    given = list(QUESTIONS)
    decisions = [decided(one, question) for question in given]
    batches = [other.query_many(given), asyncio.run(other.aquery_many(given))]
    batches += [
        [other.query(question) for question in given],
        [asyncio.run(other.aquery(question)) for question in given],
    ]
    told = [[each.metadata["fitrag"]["decision"] for each in batch] for batch in batches]
    assert told == [decisions] * 4
    assert [decided(one, question, "async") for question in given] == decisions
    answers = [
        one.batch(given),
        asyncio.run(one.abatch(given)),
        [one.invoke(question) for question in given],
        [asyncio.run(one.ainvoke(question)) for question in given],
        ["".join(one.stream(question)) for question in given],
    ]
    responses = [[response.response for response in each] for each in batches]
    assert [[*map(str, each)] for each in answers] == responses[:1] * 5
    assert responses == responses[:1] * 4
    for question, decision in zip(given, decisions, strict=True):
        key = {"key": "unknown" if decision["retrieve"] else "known", "input": question}
        assert one.as_key().invoke(question) == key == asyncio.run(one.as_key().ainvoke(question))


@pytest.mark.parametrize("question", QUESTIONS[:2])
def test_the_model_gets_equal_prompts(question):
    one, other, llm = pair(lambda: {"gate": WordGate()})
    one.invoke(question)
    other.query(question)
    assert llm.prompts[0] == llm.prompts[1]
    assert ("background passage" in llm.prompts[0]) == ("Amarcord" in question)


def test_32_questions_make_one_gate_batch_and_one_batch_of_drafts():
    questions = [f"{QUESTIONS[i % 3]} {i}" for i in range(32)]
    gates = [WordGate(draft_tokens=32), WordGate(draft_tokens=32)]
    drafters = [Drafter(), Drafter()]
    made = [{"gate": g, "drafter": d} for g, d in zip(gates, drafters, strict=True)]
    one, other, _ = pair(lambda: made.pop(0))
    one.batch(questions)
    other.query_many(questions)
    assert [gate.batches for gate in gates] == [drafter.batches for drafter in drafters]
    assert gates[0].batches == gates[1].batches == [32]
    assert gates[0].drafts == gates[1].drafts
    asyncio.run(one.abatch(questions))
    asyncio.run(other.aquery_many(questions))
    assert gates[0].batches == gates[1].batches == [32, 32]


def test_the_frameworks_models_write_equal_drafts():
    gates, llm = [WordGate(draft_tokens=32), WordGate(draft_tokens=32)], ScriptedLLM()
    made = [{"gate": gates[0], "drafter": RunnableLambda(lambda asked: llm.complete(asked).text)}]
    made.append({"gate": gates[1], "drafter": llm})
    one, other, _ = pair(lambda: made.pop(0))
    one.invoke(KNOWN)
    other.query(KNOWN)
    assert llm.prompts == [DRAFT_PROMPT.format(question=KNOWN)] * 2
    assert llm.prompts[0] == f"Question: {KNOWN}\nAnswer:"
    assert gates[0].drafts == gates[1].drafts == [f"Answer to Question: {KNOWN}"]


class Failing(ScriptedLLM):
    """A language model that is down."""

    def _answer(self, prompt):
        raise RuntimeError("the model is down")


class Short(WordGate):
    def p_known(self, questions, drafts):
        return []


@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"gate": BrokenGate()}, "the gate failed (RuntimeError: the gate is broken)"),
        ({"gate": WordGate(draft_tokens=4), "drafter": Failing()}, "the drafter failed"),
        ({"gate": WordGate(draft_tokens=4), "drafter": lambda prompts: [" \n"]}, "the drafter"),
        ({"gate": Short()}, "the gate failed (PortError"),
    ],
)
def test_what_fails_is_retrieved_for_and_told_or_raised(settings, why, how):
    for made in pair(lambda: settings)[:2]:
        decision = decided(made, KNOWN, how)
        assert (decision["retrieve"], decision["p_known"]) == (True, None)
        assert decision["why"].startswith(why)
        assert "gave 0 answers" in decision["why"] or "Port" not in why
    for strict in pair(lambda: {**settings, "on_error": "raise"})[:2]:
        with pytest.raises((RuntimeError, InputError, PortError)):
            decided(strict, KNOWN, how)


@pytest.mark.parametrize(
    ("drafter", "others", "refused"),
    [
        (Drafter(name="small"), {}, True),
        (Named(), {}, True),
        (Named(name="large"), {}, False),
        (Named(name="unknown"), {}, False),  # it does not say
        (Drafter(name="small"), {"allow_other_model": True}, False),
        (Named(), {"threshold": 0.6}, False),
    ],
)
def test_a_threshold_of_another_model_is_refused(drafter, others, refused):
    gate = WordGate(draft_tokens=4)
    gate.fitted = FittedThreshold(0.6, "large")
    for made in pair(lambda: {"gate": gate, "drafter": drafter, **others})[:2]:
        if refused:
            with pytest.raises(ThresholdMismatchError, match="'large', given 'small'"):
                decided(made, KNOWN)
        else:
            assert not decided(made, KNOWN)["retrieve"]


class Picky(CustomQueryEngine):
    """Fail for one question."""

    def custom_query(self, query_str):
        if query_str == UNKNOWN:
            raise KeyError(query_str)
        return query_str


@pytest.mark.parametrize(
    ("gate", "error"), [(WordGate(known=()), KeyError), (BrokenGate("Danube"), RuntimeError)]
)
async def test_a_branch_or_gate_that_fails_is_its_questions_alone(gate, error):
    given, many = {"gate": gate, "on_error": "raise"}, list(QUESTIONS)
    known, picky = str.strip, Picky().custom_query
    routed = langchain.KnowledgeRouter(known=known, unknown=picky, **given)
    engine = llama_index.KnowledgeRouterQueryEngine(retrieve=Picky(), llm=ScriptedLLM(), **given)
    for found in (
        routed.batch(many, return_exceptions=True),
        await routed.abatch(many, return_exceptions=True),
        engine.query_many(many, return_exceptions=True),
        await engine.aquery_many(many, return_exceptions=True),
    ):
        assert [isinstance(each, error) for each in found] == [False, True, False]
        assert KNOWN in str(found[0])
    for ask in (routed.batch, engine.query_many):
        with pytest.raises(error, match="Danube|broken"):
            ask(many)
    with pytest.raises(error):
        list(routed.stream(UNKNOWN))


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(
    ("method", "reader"),
    [(METHOD, None), (METHOD, LongestWordReader()), (IKnow(WordGate(), method=METHOD), None)],
    ids=["fitrag", "read", "iknow"],
)
def test_whole_methods_leave_equal_traces_and_answers(question, method, reader):
    llm = ScriptedLLM()
    write = RunnableLambda(lambda prompt: llm.complete(prompt).text)
    one = langchain.MethodRunnable(
        method=method, retriever=BOTH[0].base(), llm=write, reader=reader
    )
    other = llama_index.MethodQueryEngine(method, NodeRetriever(), llm=llm, reader=reader)
    answer, response = one.invoke(question), other.query(question)
    report = response.metadata["fitrag"]
    assert str(answer) == response.response
    assert [(s["port"], s["count"]) for s in report["steps"]] == steps(answer.traced)
    assert llm.prompts[:1] == llm.prompts[1:]
    if reader:
        assert answer.score == report["answer"]["score"]
    if isinstance(method, IKnow):
        assert answer.context.decision.to_dict() == report["decision"]


@pytest.mark.parametrize("question", ASKED)
def test_corrective_routers_take_the_same_action(question):
    llm, evaluators = ScriptedLLM(), (OverlapEvaluator(), OverlapEvaluator())
    engine = llama_index.MethodQueryEngine(Crag(evaluators[0]), NodeRetriever(), llm=llm)
    branches = dict.fromkeys(("correct", "incorrect"), RunnablePassthrough())
    one = langchain.CorrectiveRouter(**branches, base=BOTH[0].base(), evaluator=evaluators[0])
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
