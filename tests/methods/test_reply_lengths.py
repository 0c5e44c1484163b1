"""Each method says how long a reply it wants, and one that was cut off is noted."""

import copy
import pickle

import pytest

from fitrag_integrations.flow import run
from fitrag_integrations.methods import ITRG, IKnow, SlimPLM
from fitrag_integrations.methods.answering import Answering
from fitrag_integrations.methods.baselines import Direct, GenRead, SelfEval
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


class Judging:
    def judge(self, questions, drafts):
        return [False for _ in questions]


class Gate:
    draft_tokens = 128

    def p_known(self, questions, drafts):
        return [0.9 for _ in questions]


def retrieve(queries):
    return [[Passage("d", "The Danube ends in the Black Sea.")] for _ in queries]


@pytest.mark.parametrize(
    ("made", "text", "asked"),
    [
        (lambda model: ITRG(rounds=1, answers="last"), "It.", [(200, False), (15, True)]),
        (lambda model: GenRead(document_tokens=300), "It.", [(300, False), (256, True)]),
        (lambda model: SlimPLM(model, Judging(), rewrite=False), "It.", [(512, False)]),
        (lambda model: SlimPLM(Model(), Judging(), rewriter=model), "It.", [(512, False)]),
        (lambda model: IKnow(Gate(), drafter=model), "It.", [(128, False)]),
        (lambda model: SelfEval(model, draft=False), "Yes", [(None, True)]),
    ],
    ids=["itrg", "genread", "proxy", "rewriter", "gate", "self-eval"],
)
def test_a_reply_is_asked_for_as_long_as_it_is_read(made, text, asked):
    model = Model(text=text)
    run(made(model)(QUESTION, Ports(retrieve, None, model)))
    marks = [LimitedPrompt(prompt) for prompt in model.asked]
    assert [(mark.tokens, mark.one_line) for mark in marks] == asked


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
    told = [note for note in context.notes if note.startswith(noted)]
    assert told and "`max_new_tokens`" in told[0], context.notes
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
