"""Each method says how long a reply it wants, and one that was cut off is noted."""

import copy
import pickle

import pytest

from fitrag_integrations.flow import run
from fitrag_integrations.methods import ITRG, SlimPLM
from fitrag_integrations.methods.answering import Answering
from fitrag_integrations.methods.baselines import Direct, GenRead, SelfEval
from fitrag_integrations.methods.ik.decider import Decider
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Passage
from fitrag_integrations.values.prompt import Completion, LimitedPrompt

QUESTION = "In what sea does the Danube end?"


class Model:
    """Remember what was asked, and break off every reply."""

    def __init__(self, cut=None, text="It is the Black Sea."):
        self.asked, self.cut, self.text = [], cut, text

    def generate(self, prompts):
        self.asked += prompts
        return [Completion(self.text, self.cut) for _ in prompts]

    def lengths(self):
        return [LimitedPrompt(prompt).tokens for prompt in self.asked]

    def one_line(self):
        return [LimitedPrompt(prompt).one_line for prompt in self.asked]


class Gate:
    draft_tokens = 128

    def p_known(self, questions, drafts):
        return [0.9 for _ in questions]


def retrieve(queries):
    return [[Passage("d", "The Danube ends in the Black Sea.")] for _ in queries]


def test_itrg_asks_for_its_documents_and_answers_as_long_as_they_are():
    model = Model()
    run(ITRG(rounds=1, answers="last")(QUESTION, Ports(retrieve, None, model)))
    assert model.lengths() == [200, 15] and model.one_line() == [False, True]


def test_genread_asks_for_a_document_then_an_answer():
    model = Model()
    run(GenRead(document_tokens=300)(QUESTION, Ports(None, None, model)))
    assert model.lengths() == [300, 256] and model.one_line() == [False, True]


def test_slimplm_asks_for_whole_heuristic_answers_and_rewritings():
    proxy, rewriter = Model(), Model()
    method = SlimPLM(proxy, Model(text="Known (False)"), rewriter=rewriter)
    run(method(QUESTION, Ports(retrieve)))
    assert proxy.lengths() == [512] and proxy.one_line() == [False]
    assert rewriter.lengths() == [512]


def test_a_gate_gets_drafts_of_the_length_it_reads():
    model = Model()
    run(Decider(Gate(), drafter=model)(QUESTION))
    assert model.lengths() == [128]


def test_a_model_asked_whether_it_knows_writes_a_line():
    model = Model(text="Yes")
    run(SelfEval(model, draft=False)(QUESTION, Ports(retrieve)))
    assert model.one_line() == [True]


@pytest.mark.parametrize(
    ("method", "noted"),
    [
        (Answering(Direct()), "the answer was cut off at 9 tokens, all that"),
        (Answering(ITRG(rounds=1)), "round 1: the document was cut off at 9 tokens, all that"),
        (GenRead(), "the document was cut off at 9 tokens, all that"),
        (
            SlimPLM(Model(9), Model(text="Known (True)")),
            "the heuristic answer was cut off at 9 tokens, all that",
        ),
    ],
    ids=["answering", "itrg", "genread", "slimplm"],
)
def test_what_was_cut_off_is_noted(method, noted):
    ended = run(method(QUESTION, Ports(retrieve, None, Model(9))))
    context = getattr(ended.value, "context", ended.value)
    assert [note for note in context.notes if note.startswith(noted)], context.notes
    assert "cut off" in ended.explain()
    whole = run(method(QUESTION, Ports(retrieve, None, Model())))
    notes = getattr(whole.value, "context", whole.value).notes
    assert isinstance(method, SlimPLM) or not any("cut off" in note for note in notes)


def test_marks_survive_a_copy_and_marking_again():
    asked = LimitedPrompt("who?", tokens=7, one_line=True)
    for other in (pickle.loads(pickle.dumps(asked)), copy.deepcopy(asked), LimitedPrompt(asked)):
        assert (other, other.tokens, other.one_line) == ("who?", 7, True)
    assert LimitedPrompt(asked, tokens=9).tokens == 9 and LimitedPrompt("who?").tokens is None
    assert pickle.loads(pickle.dumps(Completion("so", 3))).cut == 3
