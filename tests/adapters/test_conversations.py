"""A conversation becomes one question with ``condense``; without it, a note says what was left."""

from __future__ import annotations

import pytest
from fakes import FixedGate, LongestWordReader, OverlapScorer
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_fakes import OverlapBase, Recorder

from fitrag_integrations import langchain as lc
from fitrag_integrations.langchain.base.conversation import LEFT_OUT
from fitrag_integrations.methods import ActionThresholds, FitRag

ALONE = "Who wrote the score of Amarcord?"
TURNS = [
    HumanMessage("Which film did Fellini release in 1973?"),
    AIMessage("Amarcord."),
    HumanMessage("Who wrote its score?"),
]
FORMS = {
    "messages": TURNS,
    "state": {"messages": TURNS},
    "history": {"question": "Who wrote its score?", "chat_history": TURNS[:2]},
}
ONE = {"text": ALONE, "message": [HumanMessage(ALONE)], "state": {"messages": [("user", ALONE)]}}


def condense(prompt: str) -> str:
    assert "Fellini" in prompt and prompt.endswith("Rewritten question:")
    return f" {ALONE}\n"


def method(**fields):
    scorer = OverlapScorer()
    return lc.MethodRunnable(method=FitRag(scorer=scorer), retriever=OverlapBase(), **fields)


def corrective(**fields):
    return lc.CorrectiveRouter(
        evaluator=lambda pairs: [1.0 for _ in pairs],
        thresholds=ActionThresholds(0.5, -0.5),
        correct=lambda given: given["question"],
        incorrect=lambda given: "web",
        base=OverlapBase(),
        **fields,
    )


@pytest.mark.parametrize("form", FORMS)
def test_condense_makes_one_question(form):
    found = method(condense=condense).invoke(FORMS[form]).value
    assert found.question == ALONE and LEFT_OUT not in found.notes
    assert corrective(condense=condense).invoke(FORMS[form]) == ALONE
    decided = lc.RetrievalGate(gate=FixedGate(0.9), condense=condense).invoke(FORMS[form])
    assert LEFT_OUT not in decided["why"]


@pytest.mark.parametrize("form", FORMS)
def test_without_it_a_note_says_that_messages_were_left_out(form):
    found = method().invoke(FORMS[form]).value
    assert found.question == "Who wrote its score?" and found.notes[0] == LEFT_OUT
    answer = method(reader=LongestWordReader()).invoke(FORMS[form])
    assert answer.context.notes[0] == LEFT_OUT
    assert LEFT_OUT in lc.RetrievalGate(gate=FixedGate(0.9)).invoke(FORMS[form])["why"]
    recorder = Recorder()
    corrective().invoke(FORMS[form], {"callbacks": [recorder]})
    branch = [run for run in recorder.runs.values() if "fitrag" in (run.get("metadata") or {})]
    assert branch[0]["metadata"]["fitrag"]["notes"] == [LEFT_OUT]


@pytest.mark.parametrize("form", ONE)
def test_one_question_needs_neither(form):
    def never(prompt: str) -> str:
        raise AssertionError

    found = method(condense=never).invoke(ONE[form]).value
    assert found.question == ALONE and "messages" not in str(found.notes)
    assert LEFT_OUT not in lc.RetrievalGate(gate=FixedGate(0.9)).invoke(ONE[form])["why"]


@pytest.mark.parametrize(
    ("model", "note"),
    [(lambda prompt: "  ", "wrote nothing"), (lambda prompt: 1 / 0, "ZeroDivisionError")],
)
def test_a_model_that_fails_leaves_the_last_question_with_a_note(model, note):
    found = method(condense=model).invoke(TURNS).value
    assert found.question == "Who wrote its score?" and note in found.notes[0]


def test_a_router_condenses_for_its_gate_and_hands_the_conversation_on():
    seen = []

    class Gate(FixedGate):
        def p_known(self, questions, drafts):
            seen.extend(questions)
            return super().p_known(questions, drafts)

    router = lc.KnowledgeRouter(
        gate=Gate(0.1), known=lambda _: "", unknown=RunnableLambda(len), condense=condense
    )
    assert router.invoke(TURNS) == 3 and seen == [ALONE]
