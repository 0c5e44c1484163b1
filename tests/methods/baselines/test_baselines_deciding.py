"""The baselines that decide first: gates, neighbours, reflections, doubts and weights."""

import math

import pytest
from baseline_fakes import spelled
from by_hand import finished
from gate_fakes import DigitDrafter, LengthGate

from fitrag_integrations.errors import InputError, PortError
from fitrag_integrations.flow import run
from fitrag_integrations.methods.baselines import (
    Continuation,
    Flare,
    Gated,
    Reflection,
    Replug,
    SelfEval,
    SelfRag,
    SkrKnn,
    Targ,
    Vanilla,
)
from fitrag_integrations.methods.baselines.flare import masked
from fitrag_integrations.methods.baselines.replug import UNSCORED, softmax
from fitrag_integrations.methods.baselines.self_rag import critique, retrieval_share
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Passage

QUESTION = "Who designed bridge 7?"
ONE = Passage("1", "Ilse Marbach designed it.")
TWO = Passage("2", "The bridge is of stone.")
PORTS = Ports(lambda queries: [[ONE, TWO] for _ in queries], None, lambda prompts: ["Yes"])


class Bank:
    def __init__(self, *known):
        self.known, self.asked = list(known), []

    def neighbours(self, questions, k):
        self.asked.append((list(questions), k))
        return [self.known[:k] for _ in questions]


@pytest.mark.parametrize(
    ("known", "retrieve"), [((True, True, False), False), ((True, False), True), ((False,), True)]
)
def test_neighbours_vote_and_a_tie_retrieves(known, retrieve):
    bank = Bank(*known)
    context = run(SkrKnn(bank, k=3)(QUESTION, PORTS)).value
    assert context.decision.retrieve is retrieve and bank.asked == [([QUESTION], 3)]
    assert context.decision.p_known == pytest.approx(sum(known) / len(known))
    assert bool(context.excerpts) is retrieve and context.method == "skrknn"


def test_a_bank_that_fails_retrieves_and_says_so():
    context = run(SkrKnn(Bank())(QUESTION, PORTS)).value
    assert context.decision.retrieve and "no neighbour to vote" in context.decision.why
    assert isinstance(run(SkrKnn(Bank(), on_error="raise")(QUESTION, PORTS)).outcome, PortError)
    with pytest.raises(InputError, match="bank` must be"):
        SkrKnn(3)


def test_self_eval_asks_before_it_retrieves():
    flow = SelfEval()(QUESTION, PORTS)
    (prompt,) = flow.send(None).items
    assert f"Question: {QUESTION}\nCan you answer this question correctly" in prompt
    assert flow.send(["No, I cannot."]).port.name == "retrieve"
    context = finished(flow, [[ONE]])
    assert context.decision.p_known == 0.0 and context.excerpts
    flow = SelfEval()(QUESTION, PORTS)
    flow.send(None)
    context = finished(flow, ["Yes"])
    assert context.excerpts == () and not context.decision.retrieve


def test_self_eval_can_judge_its_own_answer_with_probabilities():
    class Sure:
        def p_yes(self, prompts):
            return [0.6 for _ in prompts]

        def generate(self, prompts):
            return ["Ilse" for _ in prompts]

    trace = run(SelfEval(Sure(), draft=True, threshold=0.7)(QUESTION, PORTS))
    assert [step.port for step in trace.steps] == ["draft", "p_yes", "retrieve"]
    assert trace.value.decision.p_known == 0.6


def test_a_callable_writes_the_draft_it_is_asked_about():
    asked = []

    def write(prompts):
        asked.extend(prompts)
        return ["Ilse did" if "Yes or No" not in prompt else "Yes" for prompt in prompts]

    run(SelfEval(write, draft=True)(QUESTION, PORTS))
    assert len(asked) == 2 and "Proposed answer: Ilse did" in asked[1]


def test_a_model_that_cannot_write_has_no_draft_to_ask_about():
    class OnlyYes:
        def p_yes(self, prompts):
            return [0.9] * len(prompts)

    with pytest.raises(InputError, match="draft` must be .*a model that also writes"):
        SelfEval(OnlyYes(), draft=True)


def test_any_gate_before_any_method():
    context = run(
        Gated(LengthGate(draft_tokens=0), Vanilla(), threshold=0.9)(QUESTION, PORTS)
    ).value
    assert (context.method, context.draft, context.details["answers"]) == ("gated", "Yes", True)
    assert context.decision.retrieve
    with pytest.raises(InputError, match="method` must be"):
        Gated(LengthGate(), 3)


@pytest.mark.parametrize(
    ("kind", "known"),
    [("margin", 0.3125), ("entropy", math.exp(-0.25)), ("likelihood", math.exp(-0.5))],
)
def test_targ_measures_the_first_tokens(kind, known):
    context = run(Targ(DigitDrafter(), kind=kind)(QUESTION, PORTS)).value
    assert context.decision.p_known == pytest.approx(known)
    assert context.method == "targ" and context.details["kind"] == kind
    with pytest.raises(InputError, match="kind` must be"):
        Targ(DigitDrafter(), kind="variance")


class Spoken:
    """Go on in the ways of a script; keep what was asked."""

    def __init__(self, *script):
        self.script, self.asked = list(script), []

    def continue_with_logprobs(self, prompts, beginnings):
        self.asked += zip(prompts, beginnings, strict=True)
        return [self.script.pop(0)]


def mixed(*pairs):
    """Make a continuation of (token, probability) pairs."""
    tokens = tuple(token for token, _ in pairs)
    return Continuation("".join(tokens), tokens, tuple(math.log(p) for _, p in pairs))


def test_flare_looks_up_the_sentence_it_doubts():
    first = mixed(("It is old.", 0.95), (" Ida", 0.3), (" designed", 0.5), (" it.", 0.9))
    second = mixed(("Ilse", 0.2), (" designed", 0.9), (" it.", 0.9), (" All know.", 0.99))
    model = Spoken(first, second)
    trace = run(Flare(model)(QUESTION, PORTS))
    context = trace.value
    assert [step.port for step in trace.steps] == ["continue", "retrieve", "continue"]
    assert context.queries == ("designed it.",), "without what is less likely than 0.4"
    (plain, begun), (shown, taken) = model.asked
    assert plain == f"Question: {QUESTION}\nAnswer:" and begun == ""
    assert "1. Ilse Marbach designed it.\n2. The bridge" in shown and taken == "It is old."
    assert context.draft == "It is old. Ilse designed it. All know."
    assert [excerpt.passage for excerpt in context.excerpts] == [ONE, TWO]
    assert context.details == {"retrievals": 1, "sentences": 3, "answers": True}


def test_flare_that_is_sure_never_retrieves():
    context = run(Flare(Spoken(spelled("Ilse did. All know.", -0.1)))(QUESTION, PORTS)).value
    assert context.draft == "Ilse did. All know." and context.queries == ()


def test_flare_asks_the_question_where_all_is_masked_and_ends_after_its_rounds():
    doubt = [spelled(f"First {n}. Second {n}.", -3.0) for n in range(3)]
    trace = run(Flare(Spoken(*doubt), rounds=2)(QUESTION, PORTS))
    assert trace.value.queries == (QUESTION, QUESTION)
    assert trace.value.draft == "First 1. First 2. Second 2."
    assert trace.value.notes == ("the model doubted more after 2 retrievals",)


def test_flare_ends_where_the_model_repeats_itself():
    context = run(Flare(Spoken(spelled("It is old. It is old. So.", -0.1)))(QUESTION, PORTS)).value
    assert context.draft == "It is old." and "repeated itself" in context.notes[0]


def test_flare_refuses_a_model_without_token_probabilities():
    with pytest.raises(InputError, match="a model with token probabilities"):
        Flare(lambda prompts: prompts)
    outcome = run(Flare(Spoken(Continuation("Ilse did.")))(QUESTION, PORTS)).outcome
    assert isinstance(outcome, PortError) and "no token probabilities" in str(outcome)


def test_tokens_are_masked_and_blanks_closed():
    assert masked([("Ida", 0.39), (" was", 0.4), (" in", 0.1), (" Besk.", 1.0)], 0.4) == "was Besk."


SUPPORTED = {"[Fully supported]": 0.5, "[Partially supported]": 0.25}
SUPPORTED["[No support / Contradictory]"] = 0.25


def test_reflections_in_numbers():
    made = Reflection("x", {"[Relevant]": 0.6, "[Irrelevant]": 0.2, **SUPPORTED})
    expected = {"relevance": 0.75, "support": 0.625, "utility": 0.0}
    assert critique(made) == pytest.approx(expected), "nothing was said of the utility"
    useful = Reflection("x", {"[Utility:5]": 0.6, "[Utility:4]": 0.2, "[Utility:1]": 0.2})
    assert critique(useful)["utility"] == pytest.approx(0.6 + 0.1 - 0.2)
    assert retrieval_share(Reflection("x", {"[Retrieval]": 0.2, "[No Retrieval]": 0.6})) == 0.25
    assert retrieval_share(made) is None
    text = "[Retrieval]<paragraph>Ilse[Relevant] did.[Fully supported][Utility:5]</s>"
    assert Reflection(text).clean == "Ilse did."
    with pytest.raises(InputError, match="Reflection.tokens"):
        Reflection("x", {"[Relevant]": 1.5})


def test_self_rag_answers_from_each_passage_and_keeps_the_best():
    flow = SelfRag(lambda items: 1 / 0)(QUESTION, PORTS)
    ask = flow.send(None)
    assert (ask.port.name, ask.items) == ("reflect", [(QUESTION, None)])
    first = Reflection("Ida", {"[Retrieval]": 0.3, "[No Retrieval]": 0.6}, -1.0)
    assert flow.send([first]).port.name == "retrieve"
    assert flow.send([[TWO, ONE]]).items == [(QUESTION, TWO), (QUESTION, ONE)]
    poor = Reflection("Of stone.[Irrelevant]", {"[Relevant]": 0.1, "[Irrelevant]": 0.3}, -0.1)
    good = Reflection("[Relevant]Ilse[Utility:5]", {"[Relevant]": 0.9, **SUPPORTED}, -0.7)
    context = finished(flow, [poor, good])
    assert context.draft == "Ilse" and context.details["answers"]
    assert [excerpt.passage for excerpt in context.excerpts] == [ONE, TWO]
    assert [e.score for e in context.excerpts] == pytest.approx(
        [math.exp(-0.7) + 1.0 + 0.625, math.exp(-0.1) + 0.25]
    )
    assert context.decision.retrieve and context.decision.p_known == pytest.approx(2 / 3)
    assert "share of 0.333 > 0.2" in context.decision.why


def test_self_rag_that_needs_nothing_answers_at_once():
    flow = SelfRag(lambda items: 1 / 0, threshold=0.5)(QUESTION, PORTS)
    flow.send(None)
    context = finished(flow, [Reflection("Ida", {"[Retrieval]": 0.5, "[No Retrieval]": 0.5})])
    assert context.draft == "Ida" and context.excerpts == () and not context.decision.retrieve


def test_self_rag_without_a_passage_that_answers_keeps_the_first_answer():
    blank = [[Reflection("Ida")], [Reflection("[Relevant]"), Reflection()]]
    context = run(SelfRag(lambda items: blank.pop(0))(QUESTION, PORTS)).value
    assert context.draft == "Ida" and context.decision.retrieve
    assert context.notes[-1] == "no passage gave an answer: the one without them stands"
    with pytest.raises(InputError, match="model` must be"):
        SelfRag(3)
    with pytest.raises(InputError, match="weights` must be"):
        SelfRag(lambda items: [], weights=(1.0, -1.0, 0.5))


def test_replug_weighs_passages_by_their_scores():
    scored = [
        Passage(p.id, p.text, metadata={"retrieval_score": s}) for p, s in ((ONE, 1), (TWO, 0))
    ]
    items = []

    def ensemble(given):
        items.extend(given)
        return ["Ilse" for _ in given]

    ports = Ports(lambda queries: [scored])
    context = run(Replug(ensemble, temperature=0.5)(QUESTION, ports)).value
    ((prompts, weights),) = items
    assert weights == pytest.approx((math.e**2 / (math.e**2 + 1), 1 / (math.e**2 + 1)))
    assert [("Ilse" in prompt, "stone" in prompt) for prompt in prompts] == [(1, 0), (0, 1)]
    assert (context.draft, context.notes, context.method) == ("Ilse", (), "replug")
    assert [excerpt.score for excerpt in context.excerpts] == list(weights)
    assert softmax([800.0, 800.0]) == (0.5, 0.5)


def test_replug_without_scores_weighs_all_alike_and_says_so():
    context = run(Replug(lambda items: ["Ilse"])(QUESTION, PORTS)).value
    assert [excerpt.score for excerpt in context.excerpts] == [0.5, 0.5]
    assert context.notes == (UNSCORED,)
    empty = run(Replug(lambda items: [items[0][0][0]])(QUESTION, Ports(lambda q: [[]]))).value
    assert empty.excerpts == () and "nothing to refer to" in empty.notes[0]
