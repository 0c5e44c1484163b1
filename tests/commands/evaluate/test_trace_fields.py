"""What is kept of a trace can be written as JSON and shown again."""

import json

from fitrag_integrations.commands.evaluate.contenders import trace_fields
from fitrag_integrations.flow import Traced
from fitrag_integrations.methods.answering import Answered
from fitrag_integrations.types import Action, Context, Excerpt, Passage, RetrievalDecision

MILL = Passage("m", "It rains. The mill stands on the Sill. It pours.", "Mills", metadata={"n": 1})


def answered():
    context = Context(
        "On which river does the mill stand?",
        (Excerpt(MILL, 10, 38, 1.5),),
        decision=RetrievalDecision(True, 0.25, 0.6, "not known"),
        action=Action.CORRECT,
        details={"rounds": [{"round": 1, "new": ["m"], "document": "A mill.", "answer": "Sill"}]},
    )
    return Traced(Answered("the Sill", context, "prompt"))


def test_tells_what_was_decided_and_kept():
    kept = trace_fields(answered())
    assert list(kept) == ["explained", "decision", "action", "excerpts", "rounds"]
    assert kept["action"] == "correct"
    assert kept["decision"]["why"] == "not known"
    passage = {"id": "m", "title": "Mills", "text": MILL.text}
    assert kept["excerpts"] == [{"passage": passage, "start": 10, "end": 38, "score": 1.5}]
    assert kept["rounds"] == [{"document": "A mill.", "answer": "Sill"}]
    assert kept == json.loads(json.dumps(kept))
    failed = trace_fields(Traced(ValueError("away")))
    assert list(failed) == ["explained"] and "away" in failed["explained"]
