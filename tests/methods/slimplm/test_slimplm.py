"""SlimPLM driven by hand, every ask in its order; its ablations, its failures and lock step."""

import asyncio

import pytest
from by_hand import finished
from slim_fakes import CLAIMS, QUESTIONS, Judge, Proxy, Rewriter, World

from fitrag_integrations.errors import ThresholdMismatchError
from fitrag_integrations.flow import Port, arun_many, run, run_many
from fitrag_integrations.methods import Direct, SlimPLM
from fitrag_integrations.methods.prompts import (
    JUDGE,
    NO_RETRIEVAL,
    PROXY,
    RAG_LONG,
    RAG_SHORT,
    REWRITE,
    REWRITE_PAPER,
    REWRITE_RELEASED,
)
from fitrag_integrations.methods.slimplm.judge import KNOWN, UNKNOWN, UNREADABLE
from fitrag_integrations.methods.slimplm.method import ALONE, NOT_JUDGED, NOTHING_UNKNOWN
from fitrag_integrations.methods.slimplm.steps import ALL_KNOWN, NO_REWRITER, UNREAD
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Context, Draft, Excerpt, Passage
from fitrag_integrations.values.thresholds import FittedThreshold

QUESTION = "Who wrote the score of Amarcord, and where was he born?"
HEURISTIC = "Nino Rota of Milan wrote it."
WRITTEN = (
    "<Question> Who wrote the score of Amarcord? <Query> Amarcord composer "
    "<Claim> Nino Rota wrote it <Query> Amarcord score <Claim> Rota is of Milan <Query> Rota birth"
)
A, B, C = (Passage(name, f"Text of {name}.") for name in "abc")


def text_model(prompts):
    raise AssertionError("driven by hand")


PORTS = Ports(retrieve=text_model, generate=text_model)
BY_TEXT = {"proxy": text_model, "judge": text_model, "rewriter": text_model}


def asked(ask):
    return ask.port.name, list(ask.items)


def filled(template, question, draft):
    return template.render(Context(question, draft=draft))


def test_an_unknown_question_by_hand():
    flow = SlimPLM(**BY_TEXT, k=2)(QUESTION, PORTS)
    assert asked(flow.send(None)) == ("draft", [PROXY.render(Context(QUESTION))])
    assert asked(flow.send([HEURISTIC])) == ("judge", [filled(JUDGE, QUESTION, HEURISTIC)])
    ask = flow.send(["Known (False)"])
    assert asked(ask) == ("rewrite", [filled(REWRITE_PAPER, QUESTION, HEURISTIC)])
    ask = flow.send([WRITTEN])
    claims = [("Amarcord score", "Nino Rota wrote it"), ("Rota birth", "Rota is of Milan")]
    assert asked(ask) == ("judge", [filled(JUDGE, *pair) for pair in claims])
    ask = flow.send(["Known (True)", "Known (False)"])
    assert asked(ask) == ("retrieve", ["Amarcord composer", "Rota birth"])
    context = finished(flow, [[A, B], [B, C]])
    assert context.excerpts == (
        Excerpt.whole(B, score=1 / 62 + 1 / 61),
        Excerpt.whole(A, score=1 / 61),
    )
    assert context.queries == ("Amarcord composer", "Rota birth")
    assert (context.decision.retrieve, context.decision.why) == (True, UNKNOWN)
    assert (context.draft, context.method, context.notes) == (HEURISTIC, "slimplm", ())
    assert context.details == {
        "threshold": None,
        "grammar": "paper",
        "questions": [
            {
                "text": "Who wrote the score of Amarcord?",
                "query": "Amarcord composer",
                "search": None,
            }
        ],
        "claims": [{"text": claim, "query": query, "search": None} for query, claim in claims],
        "verdicts": [
            {"claim": claim, "query": query, "known": known, "p_known": None}
            for (query, claim), known in zip(claims, [True, False], strict=True)
        ],
        "retrieved": {"Amarcord composer": 2, "Rota birth": 2},
        "tokens": context.details["tokens"],
    }
    assert min(context.details["tokens"].values()) > 0
    assert Context.from_dict(context.to_dict()) == context


def test_a_known_question_by_hand():
    flow = SlimPLM(**BY_TEXT)(QUESTION, PORTS)
    flow.send(None)
    flow.send([HEURISTIC])
    context = finished(flow, ["<Known(True)>"])
    assert (context.decision.retrieve, context.decision.why) == (False, KNOWN)
    assert (context.excerpts, context.queries, context.draft) == ((), (), HEURISTIC)
    assert context.details["tokens"]["rewrite"] == 0
    assert "background passage" in context.prompt()


@pytest.mark.parametrize("verdict", ["", "I am not sure.", "Known (True / False)", "Known (maybe)"])
def test_an_unparsable_verdict_retrieves(verdict):
    flow = SlimPLM(**BY_TEXT)(QUESTION, PORTS)
    flow.send(None)
    flow.send([HEURISTIC])
    assert flow.send([verdict]).port.name == "rewrite"
    flow.send([WRITTEN])
    ask = flow.send([verdict, "Known (True)"])
    assert asked(ask) == ("retrieve", ["Amarcord composer", "Amarcord score"])
    context = finished(flow, [[A], [B]])
    assert context.decision.why == UNREADABLE
    assert [each["known"] for each in context.details["verdicts"]] == [None, True]


RELEASED = f"Course answer: (({HEURISTIC}))\nQuestion: (({QUESTION})) [/INST]"


@pytest.mark.parametrize(
    ("method", "port", "prompt"),
    [
        (SlimPLM(text_model, text_model), "generate", filled(REWRITE, QUESTION, HEURISTIC)),
        (SlimPLM(**BY_TEXT, rewriter_prompt="released"), "rewrite", RELEASED),
        (SlimPLM(**BY_TEXT, rewriter_prompt=REWRITE_RELEASED), "rewrite", RELEASED),
    ],
    ids=["the caller's model by instruction", "by name", "ones own"],
)
def test_a_rewriter_is_asked_by_its_prompt(method, port, prompt):
    flow = method(QUESTION, PORTS)
    flow.send(None)
    flow.send([HEURISTIC])
    ask = flow.send(["Known (False)"])
    assert ask.port.name == port and ask.items[0].endswith(prompt)


class SureGate:
    """Know what is long."""

    threshold = 0.6
    name = "sure"

    def __init__(self, fitted=None):
        self.fitted = fitted

    def p_known(self, questions, drafts):
        return [0.7 if "long" in draft else 0.5 for draft in drafts]


def test_a_gate_is_a_judge():
    world = World(judge=None)
    kinds = {"proxy": world.proxy, "rewriter": world.rewriter}
    known = run(SlimPLM(judge=SureGate(), **kinds)(QUESTIONS[1], world.ports)).value
    assert (known.decision.retrieve, known.decision.p_known) == (False, 0.7)
    assert known.details["threshold"] == 0.6
    unsure = run(SlimPLM(judge=SureGate(), threshold=0.9, **kinds)(QUESTIONS[1], world.ports)).value
    assert (unsure.decision.retrieve, unsure.decision.threshold) == (True, 0.9)
    assert [each["p_known"] for each in unsure.details["verdicts"]] == [0.7, 0.5]
    assert len(world.library.asked[0]) == 3, "the threshold holds for claims as well"
    assert unsure.details["tokens"]["judge"] == 3


def test_a_threshold_for_another_model_is_refused():
    gate = SureGate(FittedThreshold(0.6, model="large"))
    proxy = Proxy()
    proxy.name = "small"
    world = World(proxy=proxy)
    method = SlimPLM(proxy, gate, rewriter=world.rewriter)
    with pytest.raises(ThresholdMismatchError):
        _ = run(method(QUESTIONS[1], world.ports)).value
    allowed = SlimPLM(proxy, gate, rewriter=world.rewriter, allow_other_model=True)
    assert not run(allowed(QUESTIONS[1], world.ports)).value.decision.retrieve
    proxy.name = "large"
    assert not run(method(QUESTIONS[1], world.ports)).value.decision.retrieve


def test_the_judges_own_drafter_is_the_proxy():
    gate = SureGate()
    gate.drafter = Proxy()
    context = run(SlimPLM(judge=gate)(QUESTIONS[3], Ports())).value
    assert context.draft == "river 3 is long"
    assert gate.drafter.asked == [[QUESTIONS[3]]]


def test_a_drafter_is_a_proxy():
    class Drafts:
        def draft(self, questions):
            return [Draft(" x ") for _ in questions]

        def rescore(self, questions, drafts):
            raise AssertionError

    world = World()
    context = run(SlimPLM(Drafts(), world.judge)(QUESTIONS[2], world.ports)).value
    assert context.draft == "x"


def solved(world, question=QUESTIONS[1], **options):
    method = SlimPLM(world.proxy, world.judge, rewriter=world.rewriter, **options)
    return run(method(question, world.ports)).value


def test_only_unknown_claims_and_the_questions_own_parts_are_asked():
    world = World()
    context = solved(world)
    assert world.library.asked == [["river 1 length", "river 1 miles"]]
    assert world.judge.asked[1] == [
        ("river 1 miles", "river 1 is long"),
        ("river 1 source", "river 1 is known"),
    ], "a claim that needs no search is not judged"
    assert context.excerpts[0].text == "River 1.", "what both lists have is first"
    assert len(context.excerpts) == 3


@pytest.mark.parametrize(
    ("off", "queries", "judgments"),
    [
        ("judge_question", ["river 2 length", "river 2 miles"], 1),
        ("rewrite", [QUESTIONS[1]], 1),
        ("filter", ["river 1 length", "river 1 miles", "river 1 source"], 1),
    ],
)
def test_an_ablation_leaves_out_its_step_alone(off, queries, judgments):
    world = World()
    context = solved(world, QUESTIONS[2 if off == "judge_question" else 1], **{off: False})
    assert world.library.asked == [queries] and len(world.judge.asked) == judgments
    assert context.decision.retrieve and context.details["without"] == [off]
    assert (context.decision.why == NOT_JUDGED) == (off == "judge_question")
    assert (world.rewriter.asked == []) == (off == "rewrite") and context.notes == ()


def test_without_judging_and_rewriting_nobody_answers_first():
    world = World()
    context = solved(world, judge_question=False, rewrite=False)
    assert world.calls == [0, 0, 0, 1]
    direct = run(Direct(5)(QUESTIONS[1], world.ports)).value
    assert [e.passage for e in context.excerpts] == [e.passage for e in direct.excerpts]


def test_limits():
    world = World()
    context = solved(world, max_queries=1, with_question=True, per_query=1, k=1)
    assert world.library.asked == [[QUESTIONS[1]]]
    assert context.queries == ()
    assert context.notes == ("2 of 3 queries left out by max_queries=1",)
    assert len(context.excerpts) == 1
    tight = solved(World(), max_tokens=12)
    assert 0 < len(tight.excerpts) < 3
    assert tight.notes[-1].endswith("excerpts left out by max_tokens=12")


NO_CLAIM = f"{UNREAD}: {ALONE}"
FAILED = "the {} failed (OSError: gone)"


@pytest.mark.parametrize(
    ("part", "given", "note", "queries"),
    [
        ("proxy", OSError("gone"), f"{FAILED.format('proxy')}: {ALONE}", ()),
        ("proxy", " ", None, ()),
        ("proxy", None, None, ()),
        ("rewriter", OSError("gone"), f"{FAILED.format('rewriter')}: {ALONE}", ()),
        ("rewriter", "", NO_CLAIM, ()),
        ("rewriter", "I would rather not.", NO_CLAIM, ()),
        ("rewriter", "<Query(a b)> " * 20_000, "repeated claims", ("a b",)),
        ("rewriter", CLAIMS[:157], "the last item was cut off", None),
        ("judge", None, "", ("river 5 length", "river 5 miles", "river 5 source")),
        ("judge", "perhaps", "", ("river 5 length", "river 5 miles", "river 5 source")),
        ("judge", OSError("gone"), FAILED.format("judge"), None),
        ("judge", 0.5, "the judge failed (PortError", None),
    ],
)
def test_one_question_degrades_and_the_others_are_untouched(part, given, note, queries):
    kind = {"proxy": Proxy, "rewriter": Rewriter, "judge": Judge}[part]
    plain, odd = World(judge=Judge(even=False)), World(judge=Judge(even=False))
    setattr(odd, part, kind({5: given}, even=False) if part == "judge" else kind({5: given}))
    expected, found = everyone(plain), everyone(odd)
    assert found[:5] + found[6:] == expected[:5] + expected[6:]
    context = found[5]
    assert context.decision.retrieve and context.excerpts
    assert queries is None or context.queries == queries
    if note is None:
        note = "the proxy failed (InputError: `heuristic answer` must be"
        assert context.decision.why.startswith(note)
    assert any(note in each for each in (*context.notes, context.decision.why))


def everyone(world, **options):
    method = SlimPLM(world.proxy, world.judge, rewriter=world.rewriter, **options)
    return [traced.value for traced in run_many([method(q, world.ports) for q in QUESTIONS])]


@pytest.mark.parametrize("part", ["proxy", "rewriter", "judge"])
def test_failures_are_raised_where_that_is_asked_for(part):
    kind = {"proxy": Proxy, "rewriter": Rewriter, "judge": Judge}[part]
    world = World(**{part: kind({1: OSError("gone")})})
    with pytest.raises(OSError, match="gone"):
        solved(world, on_error="raise")


def test_an_endless_answer_is_cut_off():
    world = World(proxy=Proxy({1: "again and " * 10_000}))
    context = solved(world, max_draft=100)
    assert len(context.draft) == 100
    assert "cut off after 100 of" in context.notes[0]
    assert len(world.rewriter.asked[0][0][1]) == 100
    assert context.details["tokens"]["proxy"] > 10_000, "all of it was paid for"


def test_what_is_all_known_is_not_retrieved_for_unless_that_is_asked_for():
    world = World(rewriter=Rewriter(text="<Claim(it is known)> <Query(a river)>"))
    context = solved(world)
    assert world.library.asked == [] and context.excerpts == ()
    assert context.notes == (ALL_KNOWN,)
    assert not context.decision.retrieve and context.decision.why == NOTHING_UNKNOWN
    assert context.prompt() == NO_RETRIEVAL.render(context)
    context = solved(world, when_all_known="retrieve")
    assert world.library.asked == [[QUESTIONS[1]]]
    assert context.notes == (f"{ALL_KNOWN}: {ALONE}",)


def test_what_the_judge_does_not_read_is_told():
    class Short(Judge):
        draft_tokens = 5

    world = World(proxy=Proxy({1: "one two three four five six seven"}), judge=Short())
    assert solved(world).notes[0] == (
        "the judge read the first 5 tokens of about 7 of the heuristic answer"
    )
    world = World(proxy=Proxy({1: "one two three"}), judge=Short())
    assert not any("the judge read" in note for note in solved(world).notes)


def test_without_any_rewriter_the_question_is_asked():
    world = World()
    context = run(SlimPLM(world.proxy, world.judge)(QUESTIONS[1], world.ports)).value
    assert world.library.asked == [[QUESTIONS[1]]]
    assert context.notes == (f"{NO_REWRITER}: {ALONE}",)


def test_32_questions_make_the_fewest_calls():
    world = World()
    found = everyone(world)
    assert world.calls == [1, 2, 1, 1]
    assert [len(world.proxy.asked[0]), len(world.rewriter.asked[0])] == [32, 16]
    assert [len(pairs) for pairs in world.judge.asked] == [32, 32]
    assert [context.decision.retrieve for context in found] == [False, True] * 16
    assert found == [solved(World(), question) for question in QUESTIONS]
    waiting = World()
    method = SlimPLM(waiting.proxy, waiting.judge, rewriter=waiting.rewriter)
    traces = asyncio.run(arun_many([method(q, waiting.ports) for q in QUESTIONS]))
    assert [traced.value for traced in traces] == found and waiting.calls == [1, 2, 1, 1]


def test_prompts_for_short_and_long_answers():
    context = Context(QUESTION, (Excerpt.whole(A),))
    for template, rule in ((RAG_SHORT, "every answer"), (RAG_LONG, "Invent nothing")):
        prompt = context.prompt(template)
        assert "Reference: [[[1. Text of a.]]]" in prompt
        assert f"((({QUESTION})))" in prompt and rule in prompt


def test_ports_may_be_given_as_models():
    port = Port.of("mine", lambda prompts: ["Known (True)"] * len(prompts))
    context = run(SlimPLM(port, port)(QUESTION, Ports())).value
    assert not context.decision.retrieve
