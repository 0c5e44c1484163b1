"""`fitrag label claims`: a large model takes answers apart, for a small one to learn it from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from fitrag_integrations.commands import options
from fitrag_integrations.commands.batch import Verb
from fitrag_integrations.commands.label_known import EMBEDDED, LLM, Out, load_llm
from fitrag_integrations.commands.progress import run_verb
from fitrag_integrations.commands.rows import question_of
from fitrag_integrations.errors import PortError
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.slimplm_steps import UNREAD, Rewriter, heuristic_answer
from fitrag_integrations.models import RemoteGenerator
from fitrag_integrations.ports import Ports

ADDS = ("draft", "questions", "claims", "grammar", "repairs", "llm")
MOST_DRAFT = 4000  # characters


def label_claims(
    source: Annotated[
        str, typer.Argument(help="Rows of question and draft: .jsonl, .jsonl.gz, or -.")
    ],
    out: Out,
    llm: LLM = EMBEDDED,
    url: Annotated[str | None, typer.Option(help="OpenAI-compatible server of the --llm.")] = None,
    prompt: Annotated[str, typer.Option(help="instruct, paper or released.")] = "instruct",
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Longest rewriting.")] = 512,
    device: options.Device = None,
    dtype: options.Dtype = None,
    batch_tokens: options.BatchTokens = None,
    overwrite: options.Overwrite = False,
    strict: options.Strict = False,
    quiet: options.Quiet = False,
    json: options.AsJson = False,
) -> None:
    """Take heuristic answers apart into claims and queries (SlimPLM, section 3.3).

    Reads question and draft, the heuristic answer; where a row has none the model writes it. Adds
    draft, questions and claims, each with text, query and search, the grammar they were read in,
    repairs, and llm. What cannot be read becomes an error row. The key of a server is read from
    OPENAI_API_KEY.
    """
    rewriter_prompt = Rewriter(prompt=prompt).prompt  # tells of a wrong name before any loading

    def load() -> Verb[dict[str, Any]]:
        model: Any
        if url is None:
            how = {"device": device, "dtype": dtype, "batch_tokens": batch_tokens}
            model = load_llm(llm, max_new_tokens=max_new_tokens, stop=("\n\n",), **how)
            return claims_verb(model, rewriter_prompt, name=model.name)
        model = RemoteGenerator(
            url,
            llm,
            api="chat",
            api_key=os.environ.get("OPENAI_API_KEY"),
            max_new_tokens=max_new_tokens,
            draft_tokens=256,
        )
        return claims_verb(model, rewriter_prompt, name=llm)

    run_verb("label claims", load, source, out, options.RunOptions(overwrite, strict, quiet, json))


def claims_verb(model: Any, prompt: Any = "instruct", *, name: str) -> Verb[dict[str, Any]]:
    """Have a model take each answer apart; it writes the answers that are missing."""
    rewriter = Rewriter(model, prompt=prompt)

    def flow(row: Mapping[str, Any]) -> Flow[dict[str, Any]]:
        question, draft = question_of(row), row.get("draft")
        if not isinstance(draft, str) or not draft.strip():
            heuristic = yield from heuristic_answer(question, model, most=MOST_DRAFT, strict=True)
            draft = heuristic.text
        leads, written = yield from rewriter(question, draft, Ports())
        if not leads.grammar:
            raise PortError(f"{UNREAD}: {written[:80]!r}")
        return {"draft": draft, **leads.to_dict(), "llm": name}

    return Verb(flow, lambda traced: traced.value, ADDS, dict.fromkeys(ADDS))
