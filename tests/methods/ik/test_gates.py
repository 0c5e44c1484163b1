"""Gates without training, with every number computed by hand."""

import asyncio
import math

import pytest
from gate_fakes import DigitDrafter

from fitrag_integrations.errors import InputError, PortError, ThresholdMismatchError
from fitrag_integrations.flow import run
from fitrag_integrations.methods import (
    AskGate,
    Decider,
    EntropyGate,
    IKnow,
    LikelihoodGate,
    MarginGate,
    PTrueGate,
)
from fitrag_integrations.ports import Gate, Ports
from fitrag_integrations.types import Draft
from fitrag_integrations.values.thresholds import FittedThreshold

MEASURED = Draft("a b", (math.log(0.5), math.log(0.125)), (0.25, 0.75), (0.5, 1.5))


class Fixed:
    """Give one draft for everything; keep what was asked."""

    name = "fixed"

    def __init__(self, draft=MEASURED):
        self.answer = draft
        self.drafted, self.rescored = [], []

    def draft(self, questions):
        self.drafted.append(list(questions))
        return [self.answer for _ in questions]

    def rescore(self, questions, drafts):
        self.rescored.append(list(drafts))
        return [self.answer for _ in questions]


class Sure:
    """Say yes to what has 'Rota' in the prompt; write the same answer to all questions."""

    name = "sure"

    def __init__(self):
        self.prompts, self.drafted = [], 0

    def p_yes(self, prompts):
        self.prompts += prompts
        return [0.9 if "Rota" in prompt else 0.2 for prompt in prompts]

    def generate(self, prompts):
        self.drafted += len(prompts)
        return ["Nino Rota" for _ in prompts]


@pytest.mark.parametrize(
    ("kind", "known"),
    [
        (MarginGate, 0.5),  # (0.25 + 0.75) / 2
        (EntropyGate, math.exp(-1.0)),  # (0.5 + 1.5) / 2 nats
        (LikelihoodGate, 0.25),  # sqrt(0.5 * 0.125)
    ],
)
def test_each_measures_the_drafts_tokens(kind, known):
    drafter = Fixed()
    gate = kind(drafter)
    assert isinstance(gate, Gate)
    assert gate.p_known(["q", "r", "s"], ["", "given", " "]) == pytest.approx([known] * 3)
    assert (drafter.drafted, drafter.rescored) == ([["q", "s"]], [["given"]])
    assert asyncio.run(gate.ap_known(["q"], ["given"])) == pytest.approx([known])


@pytest.mark.parametrize("kind", [MarginGate, EntropyGate, LikelihoodGate])
def test_a_certain_model_gives_one(kind):
    gate = kind(Fixed(Draft("a", (0.0,), (1.0,), (0.0,))))
    assert gate.p_known(["q"], [""]) == [1.0]


def test_a_draft_without_numbers_fails_alone_and_names_the_fallback():
    class Half(Fixed):
        def rescore(self, questions, drafts):
            return [Draft(draft) if draft == "bare" else MEASURED for draft in drafts]

    found = MarginGate(Half()).p_known(["q", "r"], ["bare", "full"])
    assert isinstance(found[0], PortError) and found[1] == 0.5
    assert "Half returned no token probabilities, which MarginGate requires; see AskGate" in str(
        found[0]
    )
    decision = run(Decider(MarginGate(Fixed(Draft("bare"))))("q")).value.decision
    assert decision.retrieve and "see AskGate" in decision.why


def test_a_draft_written_for_the_caller_is_rescored_and_kept():
    drafter = DigitDrafter()
    trace = run(Decider(EntropyGate(drafter, draft_tokens=8))("Is it 3?"))
    assert [step.port for step in trace.steps] == ["draft", "gate"]
    assert drafter.rescored == [["xxxx"]] and trace.value.draft == "xxxx"


def test_p_true_shows_the_model_its_own_answer():
    model = Sure()
    context = run(IKnow(PTrueGate(model))("Who wrote it?", Ports())).value
    assert (context.decision.p_known, context.draft) == (0.9, "Nino Rota")
    (prompt,) = model.prompts
    assert "Question: Who wrote it?\nProposed answer: Nino Rota\n" in prompt


def test_p_true_without_a_draft_writes_one_or_asks_about_the_question_alone():
    model = Sure()
    assert PTrueGate(model).p_known(["q", "r"], ["", "Verdi"]) == [0.9, 0.2]
    assert model.drafted == 1
    assert PTrueGate(model, draft_tokens=0).p_known(["Who?"], [""]) == [0.2]
    assert "without looking it up" in model.prompts[-1] and model.drafted == 1


def test_fewer_drafts_than_questions_are_told():
    with pytest.raises(InputError, match="drafts` must be"):
        MarginGate(Fixed()).p_known(["q"], [])


def test_p_true_refuses_a_model_without_probabilities_and_names_the_fallback():
    with pytest.raises(InputError, match="'p_yes' method; AskGate asks a model without one"):
        PTrueGate(lambda prompts: prompts)


@pytest.mark.parametrize(
    ("reply", "known"),
    [("Yes", 1.0), ("**Yes**, it is", 1.0), ("<think>No?</think>Yes.", 1.0), ("FALSE", 0.0)],
)
def test_asking_reads_the_first_word(reply, known):
    assert AskGate(lambda prompts: [reply for _ in prompts]).p_known(["q"], ["d"]) == [known]


@pytest.mark.parametrize("reply", ["", "Perhaps", "Yes or No", "Yes/No", "Yes. No.", "No. Yes!"])
def test_a_reply_that_is_neither_or_both_retrieves(reply):
    gate = AskGate(lambda prompts: [reply for _ in prompts], draft_tokens=0)
    decision = run(Decider(gate)("q")).value.decision
    assert decision.retrieve and decision.p_known is None
    assert "asked for Yes or No, the model gave" in decision.why and reply in decision.why


@pytest.mark.parametrize(
    "gate", [lambda **more: MarginGate(Fixed(), **more), lambda **more: PTrueGate(Sure(), **more)]
)
def test_a_fitted_threshold_belongs_to_its_model(gate):
    other, own = FittedThreshold(0.3, model="other"), FittedThreshold(0.3, model="fixed")
    with pytest.raises(ThresholdMismatchError, match="'other'"):
        gate(fitted=other)
    assert gate(fitted=other, allow_other_model=True).threshold == 0.3
    assert gate(fitted=other, threshold=0.4).threshold == 0.4
    if isinstance(gate(), MarginGate):
        assert run(Decider(gate(fitted=own))("q")).value.decision.threshold == 0.3
    allowed = gate(fitted=other, allow_other_model=True)
    assert run(Decider(allowed)("q")).value.decision.threshold == 0.3
