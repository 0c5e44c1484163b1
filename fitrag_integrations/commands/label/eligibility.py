"""`fitrag label eligibility`: from which combinations of sub-documents is the answer right?

The rows and the options; `eligibility_labelling` holds the run.
"""

from __future__ import annotations

import json as json_
import random
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from fitrag_integrations.commands.engine import models, options
from fitrag_integrations.commands.engine.batch import check_names
from fitrag_integrations.commands.engine.rows import read_rows
from fitrag_integrations.commands.label.asked import EMBEDDED
from fitrag_integrations.commands.label.askers import load_asker
from fitrag_integrations.commands.label.bilabel import check, check_files, found_in, open_journal
from fitrag_integrations.commands.label.combinations import Combining, EligibilityLabelling
from fitrag_integrations.commands.label.engine import Rows, plan_file
from fitrag_integrations.core import jsonl
from fitrag_integrations.errors import InputError
from fitrag_integrations.methods.fitrag.reducer import TokenReducer
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.training.asking_llm import PROMPT
from fitrag_integrations.training.eligibility.rows import KINDS
from fitrag_integrations.training.labels.ask_combinations import AskCombinations
from fitrag_integrations.training.labels.budget import Account

BOTH = "both"


def label_eligibility(
    rows: Annotated[
        list[Path], typer.Argument(help="Rows of question, answers and passages: .jsonl(.gz).")
    ],
    out: Annotated[str, typer.Option("--out", help="Where to write: .jsonl or .jsonl.gz.")],
    pool: Annotated[
        Path | None, typer.Option(help="Passages (title, text) in which BM25 finds candidates.")
    ] = None,
    index: Annotated[
        Path | None, typer.Option(help="Folder of `fitrag index` to find candidates in.")
    ] = None,
    depth: Annotated[int, typer.Option(min=1, help="Passages a question before reranking.")] = 100,
    top_n: Annotated[int, typer.Option(min=1, help="Passages the reranker keeps.")] = 10,
    window: options.Window = 3,
    stride: options.Stride = 1,
    per_passage: options.PerPassage = 1,
    most: Annotated[int, typer.Option(min=1, help="Windows to combine, the best ones.")] = 10,
    combinations: Annotated[
        str, typer.Option(help="random (the paper's), prefixes (as at inference) or both.")
    ] = BOTH,
    draws: Annotated[int, typer.Option(min=1, help="Random draws a question.")] = 24,
    overlap: Annotated[
        float, typer.Option(min=0, max=1, help="Share of members two draws may have in common.")
    ] = 0.8,
    scorer: Annotated[
        str | None, typer.Option(help="Bi-label scorer's folder.", show_default="the embedded one")
    ] = None,
    llm: Annotated[
        str,
        typer.Option(
            help="Who reads: embedded, a reader's or causal model's folder or hub name, a "
            "LangChain PROVIDER:MODEL, or with --url the server's name for the model."
        ),
    ] = EMBEDDED,
    url: Annotated[
        str | None, typer.Option(help="OpenAI-compatible server; its key from OPENAI_API_KEY.")
    ] = None,
    api: Annotated[str, typer.Option(help="The server's endpoint: chat or completions.")] = "chat",
    prompt: Annotated[
        Path | None,
        typer.Option(help="File with another prompt, with {question} and {passage} in it."),
    ] = None,
    patterns: Annotated[
        bool, typer.Option("--patterns", help="Answers are regular expressions (CuratedTREC).")
    ] = False,
    concurrency: Annotated[int, typer.Option(min=1, help="Prompts asked at once.")] = 8,
    retries: Annotated[int, typer.Option(min=0, help="Further tries of a failed prompt.")] = 4,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds for a try.")] = 60.0,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Longest answer, in tokens.")] = 64,
    limit: Annotated[int, typer.Option(min=0, help="Questions to label, 0 all.")] = 0,
    max_failures: Annotated[
        int, typer.Option(min=0, help="Stop after so many in a row; 0 never.")
    ] = 100,
    seed: Annotated[int, typer.Option(help="Seed of the questions' order and the draws.")] = 13,
    device: options.Device = None,
    dtype: options.Dtype = None,
    batch_tokens: options.BatchTokens = None,
    overwrite: options.Overwrite = False,
    strict: options.Strict = False,
    quiet: options.Quiet = False,
    json: options.AsJson = False,
) -> None:
    """Label combinations of sub-documents: does the LLM answer right from them?

    The rows of FIT-RAG's eligible augmentation detector (section 4.4.2). Adds needs_retrieval,
    false where the LLM is right without any passage, and combinations[{kinds, scores, eligible,
    has_answer, share, answer}] of the others. A run that was stopped goes on where it stopped.
    """
    for path in rows:
        check_names(str(path), out)
    check_files(pool, prompt)
    check(out, pool, index, url, api, None, 0.0)
    if combinations not in (*KINDS, BOTH):
        allowed = ", ".join((*KINDS, BOTH))
        raise InputError.of("--combinations", given=combinations, allowed=allowed)
    most_each = per_passage or None
    reducer = TokenReducer(window=window, stride=stride, per_passage=most_each, detector=False)
    how = options.ModelOptions(None, device, dtype, batch_tokens)
    text = PROMPT if prompt is None else prompt.read_text(encoding="utf-8")
    plan = {
        "llm": llm,
        "prompt": text,
        "max-new-tokens": max_new_tokens,
        "depth": depth,
        "pool": None if pool is None else plan_file(pool),
        "index": None if index is None else str(index),
        "top-n": top_n,
        "window": window,
        "stride": stride,
        "per-passage": per_passage,
        "most": most,
        "combinations": combinations,
        "draws": draws,
        "overlap": overlap,
        "scorer": scorer,
        "patterns": patterns,
        "seed": seed,
    }
    given = list(read_rows(chain.from_iterable(jsonl.read_lines(str(path)) for path in rows)))
    random.Random(seed).shuffle(given)
    given = given[: limit or None]
    target = Path(out)
    journal = open_journal(target, plan, overwrite=overwrite)
    try:
        asking = {"concurrency": concurrency, "retries": retries, "timeout": timeout}
        asker = load_asker(llm, url, api, text, max_new_tokens, how, asking)
        judge = models.load_scorer(options.ModelOptions(scorer, device, dtype, batch_tokens))
        account = Account(
            approximate_tokens,
            max_failures=max_failures,
            longest=max_new_tokens,
            tokens=journal.tokens,
        )
        kinds = KINDS if combinations == BOTH else (combinations,)
        labelling = EligibilityLabelling(
            AskCombinations(asker),
            journal,
            account,
            at_once=16 * depth,
            tell=None if quiet else _tell,
            combining=Combining(judge, reducer, top_n, most, kinds, draws, overlap, seed),
            about={
                "scorer": getattr(judge, "name", ""),
                "window": window,
                "stride": stride,
                "per_passage": most_each,
            },
        )
        making = Rows(found_in(pool, index, how, depth), depth=depth, patterns=patterns)
        labelling.write(given, target, making)
    finally:
        journal.close()
    counts = _counts(target)
    if not quiet:
        typer.echo(f"{dict(counts)}; {account}", err=True)
    if json:
        summary = {"output": out, **counts, "asked": account.asked, "tokens": account.tokens}
        typer.echo(json_.dumps({**summary, "stopped": account.stopped or None}))
    if account.stopped:
        _tell(f"stopped: {account.stopped}")
    if strict and (counts["errors"] or account.stopped):
        raise typer.Exit(1)


def _tell(told: str) -> None:
    typer.echo(f"fitrag label eligibility: {told}", err=True)


def _counts(path: Path) -> Counter[str]:
    """Count questions, those known without retrieval, combinations, and error rows."""
    counts: Counter[str] = Counter(questions=0, known=0, combinations=0, eligible=0, errors=0)
    for row in read_rows(jsonl.read_lines(str(path))):
        one: dict[str, Any] = row.given
        if one.get("error") is not None:
            counts["errors"] += 1
            continue
        counts["questions"] += 1
        counts["known"] += not one["needs_retrieval"]
        counts["combinations"] += len(one["combinations"])
        counts["eligible"] += sum(c["eligible"] == 1 for c in one["combinations"])
    return counts
