"""`fitrag score`: the two labels of every passage (FIT-RAG, section 4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fitrag_integrations.commands import models, options
from fitrag_integrations.commands.batch import Verb
from fitrag_integrations.commands.progress import run_verb
from fitrag_integrations.commands.rows import passages_of, question_of
from fitrag_integrations.flow import Flow, Traced
from fitrag_integrations.methods.reducer import score_port
from fitrag_integrations.ports import Scorer
from fitrag_integrations.types import BiLabelScore

Scores = list[BiLabelScore]


def score(
    source: options.Input,
    target: options.Output,
    model: options.Model = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    batch_tokens: options.BatchTokens = None,
    overwrite: options.Overwrite = False,
    strict: options.Strict = False,
    quiet: options.Quiet = False,
    json: options.AsJson = False,
) -> None:
    """Score each passage of each row.

    Reads question and passages[{title, text}]; adds scores[{has_answer, llm_prefer}], both in
    [0, 1], in the order of the passages.
    """
    chosen = options.ModelOptions(model, device, dtype, batch_tokens)
    how = options.RunOptions(overwrite, strict, quiet, json)
    run_verb("score", lambda: score_verb(models.load_scorer(chosen)), source, target, how)


def score_verb(scorer: Scorer) -> Verb[Scores]:
    """Score the passages of a row in one ask."""
    port = score_port(scorer)

    def flow(row: Mapping[str, Any]) -> Flow[Scores]:
        question, passages = question_of(row), passages_of(row)
        return (yield from port.ask([(question, passage) for passage in passages]))

    return Verb(flow, _fields, ("scores",), {"scores": []})


def _fields(traced: Traced[Scores]) -> dict[str, Any]:
    labels = [{"has_answer": s.has_answer, "llm_prefer": s.llm_prefer} for s in traced.value]
    return {"scores": labels}
