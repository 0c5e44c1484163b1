"""Both frameworks over the same gates: the same decisions, drafts, prompts and answers."""

import asyncio

import pytest
from decision_fakes import AsyncWordGate, BrokenGate, WordGate
from fakes import QUESTIONS, OverlapScorer
from frameworks import BOTH
from langchain_core.runnables import RunnableLambda
from llama_fakes import NodeRetriever, ScriptedLLM
from test_equal_frameworks import steps

from fitrag_integrations import langchain, llama_index
from fitrag_integrations.methods import FitRag, IKnow
from fitrag_integrations.methods.ik.gates import AskGate
from fitrag_integrations.types import Draft

METHOD = FitRag(OverlapScorer())


class Drafter:
    """Draft the question's last word; blank for the question ``blank``."""

    name = "tiny"

    def __init__(self, blank=""):
        self.blank = blank
        self.batches = []

    def draft(self, questions):
        self.batches.append(len(questions))
        return [Draft(" " if q == self.blank else q.split()[-1]) for q in questions]

    def rescore(self, questions, drafts):
        return [Draft(draft) for draft in drafts]


SETTINGS = [
    lambda: {"gate": WordGate()},
    lambda: {"gate": AsyncWordGate()},
    lambda: {"gate": WordGate(), "threshold": 0.95},
    lambda: {"gate": WordGate(threshold=None), "threshold": 0.1},
    lambda: {"gate": WordGate(draft_tokens=32), "drafter": Drafter()},
    lambda: {"gate": WordGate(draft_tokens=32), "drafter": Drafter(blank=QUESTIONS[0])},
    lambda: {"gate": BrokenGate(bad="Danube")},
]


def pair(settings, streaming=False):
    """Make both routers, each with gates and models of its own, and the model both write with."""
    llm = ScriptedLLM()
    write = RunnableLambda(lambda prompt: llm.complete(prompt).text)
    unknown = langchain.MethodRunnable(method=METHOD, retriever=BOTH[0].base(), llm=write)
    engine = llama_index.MethodQueryEngine(METHOD, NodeRetriever(), llm=llm)
    one = langchain.KnowledgeRouter(llm=write, unknown=unknown, **settings())
    other = llama_index.KnowledgeRouterQueryEngine(
        retrieve=engine, llm=llm, streaming=streaming, **settings()
    )
    return one, other, llm


def decided(response):
    return response.metadata["fitrag"]["decision"]


@pytest.mark.parametrize("settings", SETTINGS)
def test_every_way_takes_the_same_decision_and_gives_the_same_answer(settings):
    one, other, _ = pair(settings)
    given = list(QUESTIONS)
    decisions = [one.decide(question).to_dict() for question in given]
    batches = [other.query_many(given), asyncio.run(other.aquery_many(given))]
    batches += [
        [other.query(question) for question in given],
        [asyncio.run(other.aquery(question)) for question in given],
    ]
    assert [[decided(response) for response in each] for each in batches] == [decisions] * 4
    assert [asyncio.run(one.adecide(question)).to_dict() for question in given] == decisions
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


@pytest.mark.parametrize(
    ("reply", "known"),
    [
        ("The answer is Yes.", True),
        ("Answer: Yes", True),
        ("Yes. The draft is not true.", False),
        ("Yes, but I am not sure", False),
        ("Yes. That is incorrect.", False),
        ("**True**, although nobody has confirmed it.", False),
    ],
)
def test_a_yes_that_is_taken_back_does_not_skip_retrieval(reply, known):
    def says(prompts):
        return [reply for _ in prompts]

    one, other, _ = pair(lambda: {"gate": AskGate(says, draft_tokens=0)})
    assert one.decide(QUESTIONS[0]).retrieve is not known
    assert decided(other.query(QUESTIONS[0]))["retrieve"] is not known


def test_streams_are_equal():
    one, other, _ = pair(SETTINGS[0], streaming=True)
    response = other.query(QUESTIONS[0])
    assert "".join(response.response_gen) == "".join(one.stream(QUESTIONS[0]))
    assert decided(response) == one.decide(QUESTIONS[0]).to_dict()


@pytest.mark.parametrize("question", QUESTIONS[:2])
def test_the_model_gets_equal_prompts(question):
    one, other, llm = pair(SETTINGS[0])
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
    write = RunnableLambda(lambda prompt: llm.complete(prompt).text)
    one = langchain.KnowledgeRouter(
        gate=gates[0], drafter=write, known=str.upper, unknown=str.upper
    )
    other = llama_index.KnowledgeRouterQueryEngine(
        gates[1], drafter=llm, retrieve=pair(SETTINGS[0])[1], llm=llm
    )
    one.invoke(QUESTIONS[0])
    other.query(QUESTIONS[0])
    assert llm.prompts[0] == llm.prompts[1] == f"Question: {QUESTIONS[0]}\nAnswer:"
    assert gates[0].drafts == gates[1].drafts == [f"Answer to Question: {QUESTIONS[0]}"]


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_whole_method_leaves_equal_traces(question):
    llm = ScriptedLLM()
    write = RunnableLambda(lambda prompt: llm.complete(prompt).text)
    method = IKnow(WordGate(), method=METHOD)
    one = langchain.MethodRunnable(method=method, retriever=BOTH[0].base(), llm=write)
    other = llama_index.MethodQueryEngine(method, NodeRetriever(), llm=llm)
    answer, response = one.invoke(question), other.query(question)
    report = response.metadata["fitrag"]
    assert str(answer) == response.response
    assert [(s["port"], s["count"]) for s in report["steps"]] == steps(answer.traced)
    assert answer.context.decision.to_dict() == report["decision"]
