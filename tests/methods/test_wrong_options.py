"""Wrong options of every method, and a blank question, are rejected by the name of the field."""

import re

import pytest
from baseline_fakes import World
from by_eye import ByEye
from gate_fakes import DigitDrafter, LengthGate

from fitrag_integrations.errors import InputError, PortError
from fitrag_integrations.flow import run
from fitrag_integrations.methods import (
    ITRG,
    AskGate,
    Crag,
    Decider,
    Direct,
    FitRag,
    IKnow,
    MarginGate,
    Over,
    Refiner,
    SlimPLM,
)
from fitrag_integrations.methods.fitrag.functional import Reranking
from fitrag_integrations.methods.fitrag.method import TokenReducer
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Passage

DEFAULTS = {
    Crag: {"evaluator": ByEye()},
    Refiner: {"evaluator": ByEye()},
    AskGate: {"model": lambda prompts: prompts},
    MarginGate: {"drafter": DigitDrafter()},
    Over: {"method": Direct(), "retriever": Direct()},
}


def with_text_judge(**options):
    return SlimPLM(judge=lambda prompts: prompts, **options)


WRONG = [
    (Crag, "top_n", 0),
    (Crag, "strip_threshold", 3, "threshold` must be"),
    (Crag, "sentences", 0),
    (Crag, "max_tokens", 0),
    (Crag, "on_web_error", "ignore"),
    (Crag, "without", ["correct", "ambiguous", "incorrect"]),
    (Crag, "without", "sometimes"),
    (Crag, "without", ["refine", "filter"]),
    (Crag, "without", None),
    (Crag, "thresholds", 0.5),
    (Crag, "thresholds", "trivia"),
    (Decider, "gate", object()),
    (Decider, "gate", LengthGate),
    (Decider, "drafter", 3),
    (Decider, "drafter", DigitDrafter),
    (Decider, "threshold", 1.5),
    (Decider, "threshold", "half"),
    (Decider, "on_error", "ignore"),
    (Decider, "allow_other_model", 1),
    (AskGate, "model", 3),
    (AskGate, "drafter", 3),
    *((MarginGate, "drafter", wrong) for wrong in (lambda prompts: prompts, DigitDrafter)),
    (MarginGate, "threshold", 2.0),
    (MarginGate, "draft_tokens", -1),
    *((Over, "method", wrong) for wrong in (None, 3)),
    *((Over, "retriever", wrong) for wrong in (None, Direct)),
    (Direct, "k", 0),
    (Direct, "k", -1),
    (Direct, "k", 1.5),
    (Direct, "k", True),
    (FitRag, "top_n", 0),
    (FitRag, "top_n", 2.5),
    (FitRag, "window", 0),
    (FitRag, "weight", 1.5),
    (FitRag, "max_tokens", 0),
    (FitRag, "count_tokens", 3, "count_tokens` must be .*lambda text: len"),
    (FitRag, "gate", object()),
    (FitRag, "detector", object()),
    (FitRag, "scorer", "t5"),
    (IKnow, "method", 3),
    (IKnow, "gate", 3),
    (IKnow, "on_error", "skip"),
    (ITRG, "mode", "rewrite"),
    (ITRG, "stop", "never"),
    (ITRG, "stop", ("empty", "later")),
    (ITRG, "stop", None),
    (ITRG, "answers", "all"),
    (ITRG, "on_error", "ignore"),
    (ITRG, "rounds", 0),
    (ITRG, "k", 1.5),
    (ITRG, "document_tokens", True),
    (ITRG, "answer_tokens", -1),
    (ITRG, "count_tokens", 3),
    (ITRG, "demonstrations", "Q, D, A"),
    (ITRG, "demonstrations", 5),
    (ITRG, "demonstrations", [("Q", "D")], r"demonstrations\[0\]` must be"),
    (ITRG, "demonstrations", [("Q", " ", "A")], r"demonstrations\[0\].document` must be"),
    (Refiner, "top_n", 0),
    (Refiner, "threshold", 2),
    (Refiner, "sentences", 0),
    (Refiner, "max_tokens", 0),
    (Refiner, "split", 3),
    (Refiner, "count_tokens", 3),
    (Reranking, "top_n", 0),
    (Reranking, "weight", 1.5),
    (Reranking, "min_score", 2.5),
    (Reranking, "scorer", "t5"),
    (SlimPLM, "k", 0),
    (SlimPLM, "per_query", 0),
    (SlimPLM, "max_queries", 0),
    (SlimPLM, "max_tokens", 0),
    (SlimPLM, "max_draft", None),
    (SlimPLM, "rrf_k", -1),
    (SlimPLM, "threshold", 2),
    (with_text_judge, "threshold", 0.5),
    (SlimPLM, "on_error", "ignore"),
    (SlimPLM, "when_all_known", "ask"),
    (SlimPLM, "filter", 1),
    (SlimPLM, "rewrite", None),
    (SlimPLM, "proxy", 3),
    (SlimPLM, "judge", LengthGate),
    (SlimPLM, "rewriter", "paper"),
    (SlimPLM, "rewriter_prompt", "mine"),
    (SlimPLM, "count_tokens", 3),
    *(
        (TokenReducer, "max_share", wrong, "max_share` must be a number above 0 and at most 1, got")
        for wrong in (0, 1.5, -1, "half", float("nan"))
    ),
    (TokenReducer, "detector", "embedded"),
    (TokenReducer, "detector", True),
]


@pytest.mark.parametrize(
    "case",
    WRONG,
    ids=lambda case: re.sub(" at 0x.+>", ">", f"{case[0].__name__}.{case[1]}={case[2]!r}"),
)
def test_a_wrong_option_is_rejected_at_construction(case):
    kind, field, value, *message = case
    with pytest.raises(InputError, match=message[0] if message else f"{field}` must be"):
        kind(**{**DEFAULTS.get(kind, {}), field: value})


@pytest.mark.parametrize(
    "flow",
    [
        lambda ports: Crag(ByEye())(" ", ports),
        lambda ports: Decider(LengthGate())("  "),
        lambda ports: FitRag(lambda pairs: [])(" ", ports),
        lambda ports: ITRG()(" ", ports),
        lambda ports: Refiner(ByEye())(" ", [Passage("a", "Text.")]),
        lambda ports: SlimPLM(judge=LengthGate())(" ", ports),
    ],
)
def test_a_blank_question_is_rejected(flow):
    assert isinstance(run(flow(World().ports)).outcome, InputError)


def test_a_missing_retriever_or_language_model_is_reported():
    with pytest.raises(PortError, match="needs a retrieve port"):
        _ = run(Crag(ByEye())("Who?", Ports())).value
    with pytest.raises(InputError, match="pass `llm=`"):
        _ = run(ITRG()("Who?", Ports(World()))).value
