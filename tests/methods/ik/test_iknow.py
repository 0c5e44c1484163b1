"""The whole IK method, and direct retrieval under it."""

from gate_fakes import DigitDrafter, LengthGate

from fitrag_integrations.errors import PortError
from fitrag_integrations.flow import run
from fitrag_integrations.methods import Direct, IKnow
from fitrag_integrations.methods.prompts import NO_RETRIEVAL, RETRIEVAL
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Action, Context, Excerpt, Passage

OLD = Passage("old", "The bridge is from 1890.", "Bridge")
NEW = Passage("new", "A second bridge came in 1990.")
BLANK = Passage("blank", " \n")


def offering(*passages):
    calls = []

    def retrieve(queries):
        calls.append(list(queries))
        return [list(passages) for _ in queries]

    return Ports(retrieve), calls


def test_direct_keeps_all_passages_whole_and_in_order():
    ports, _ = offering(NEW, BLANK, OLD, NEW)
    context = run(Direct()("Which bridge?", ports)).value
    assert context.excerpts == (Excerpt.whole(NEW), Excerpt.whole(OLD))
    assert context.notes == (
        "1 of 4 passages left out: no text",
        "1 of 4 passages left out: repeated",
    )
    assert context.method == "direct" and context.details == {"usable": 2, "kept": 2}
    assert run(Direct(k=1)("Which bridge?", ports)).value.excerpts == (Excerpt.whole(NEW),)
    assert context.prompt() == RETRIEVAL.render(context)


def test_a_known_question_is_not_retrieved_for():
    ports, calls = offering(OLD)
    method = IKnow(LengthGate(), drafter=DigitDrafter())
    trace = run(method("How old is bridge 7?", ports))
    context = trace.value
    assert [step.port for step in trace.steps] == ["draft", "gate"] and calls == []
    assert (context.decision.retrieve, context.decision.p_known) == (False, 0.8)
    assert (context.excerpts, context.draft, context.method) == ((), "xxxxxxxx", "iknow")
    assert context.details == {"threshold": 0.5, "draft_tokens": 8}
    assert context.prompt() == NO_RETRIEVAL.render(context)
    assert "do not retrieve, p_known 0.80" in trace.explain()


def test_an_unknown_question_goes_on_with_the_method():
    ports, calls = offering(OLD, NEW)
    method = IKnow(LengthGate(draft_tokens=0), threshold=0.9)
    context = run(method("How old is bridge 7?", ports)).value
    assert calls == [["How old is bridge 7?"]]
    assert context.excerpts == (Excerpt.whole(OLD), Excerpt.whole(NEW))
    assert context.decision.retrieve and context.draft is None and context.method == "iknow"
    assert context.details == {"usable": 2, "kept": 2, "threshold": 0.9, "draft_tokens": 0}
    assert context.prompt() == RETRIEVAL.render(context)


def test_the_method_inside_keeps_its_action_its_queries_and_its_draft():
    def inner(question, ports):
        return Context(question, queries=("bridge",), action=Action.CORRECT, draft="its own")
        yield

    method = IKnow(LengthGate(), drafter=DigitDrafter(), threshold=1.0, method=inner)
    context = run(method("How old is bridge 7?", Ports())).value
    assert (context.action, context.queries) == (Action.CORRECT, ("bridge",))
    assert (context.draft, context.method) == ("its own", "iknow")


def test_a_dead_gate_is_visible_in_context_and_trace_and_the_question_is_retrieved_for():
    class Dead:
        def p_known(self, questions, drafts):
            raise PortError("connection refused")

    ports, _ = offering(OLD)
    trace = run(IKnow(Dead())("How old is bridge 7?", ports))
    assert trace.value.excerpts == (Excerpt.whole(OLD),)
    assert "gate failed (PortError: connection refused)" in trace.explain()
    strict = run(IKnow(Dead(), on_error="raise")("How old is bridge 7?", ports))
    assert isinstance(strict.outcome, PortError)
