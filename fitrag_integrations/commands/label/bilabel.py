"""`fitrag label bilabel`: is the answer in a passage, and does the model answer right from it?

The rows and the options; `labelling` holds the run.
"""

from __future__ import annotations

import json as json_
import random
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from fitrag_integrations.commands.engine import models, options
from fitrag_integrations.commands.engine.batch import check_names
from fitrag_integrations.commands.engine.rows import read_rows
from fitrag_integrations.commands.label.asked import EMBEDDED
from fitrag_integrations.commands.label.askers import load_asker
from fitrag_integrations.commands.label.engine import Found, Labelling, Rows, plan_file
from fitrag_integrations.core import jsonl
from fitrag_integrations.errors import InputError
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.training.asking_llm import PROMPT
from fitrag_integrations.training.labels.budget import Account
from fitrag_integrations.training.labels.journal import AnswerJournal
from fitrag_integrations.training.rows import passage_row, read_jsonl


def label_bilabel(
    rows: Annotated[
        list[Path], typer.Argument(help="Rows of question and answers: .jsonl or .jsonl.gz.")
    ],
    out: Annotated[str, typer.Option("--out", help="Where to write: .jsonl or .jsonl.gz.")],
    pool: Annotated[
        Path | None, typer.Option(help="Passages (title, text) in which BM25 finds candidates.")
    ] = None,
    index: Annotated[
        Path | None, typer.Option(help="Folder of `fitrag index` to find candidates in.")
    ] = None,
    depth: Annotated[int, typer.Option(min=1, help="Passages a question.")] = 50,
    llm: Annotated[
        str,
        typer.Option(
            help="Who reads the passages: embedded, a reader's or causal model's folder or hub "
            "name, a LangChain PROVIDER:MODEL, or with --url the server's name for the model."
        ),
    ] = EMBEDDED,
    url: Annotated[
        str | None, typer.Option(help="OpenAI-compatible server; its key from OPENAI_API_KEY.")
    ] = None,
    api: Annotated[str, typer.Option(help="The server's endpoint: chat or completions.")] = "chat",
    model: Annotated[str | None, typer.Option(help="Reader's folder; the same as --llm.")] = None,
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
    max_questions: Annotated[
        int,
        typer.Option(
            "--limit", "--max-questions", min=0, help="Questions to label (--max-questions), 0 all."
        ),
    ] = 0,
    price_read: Annotated[float, typer.Option(min=0, help="Per million prompt tokens.")] = 0.0,
    price_written: Annotated[float, typer.Option(min=0, help="Per million answer tokens.")] = 0.0,
    max_cost: Annotated[
        float | None, typer.Option(min=0, help="Stop before all runs cost more; needs prices.")
    ] = None,
    max_failures: Annotated[
        int, typer.Option(min=0, help="Stop after so many in a row; 0 never.")
    ] = 100,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Ask again what an earlier run got no answer to.")
    ] = False,
    unanswered: Annotated[
        bool,
        typer.Option("--unanswered", help="Take rows without answers whose `passage` has one."),
    ] = False,
    seed: Annotated[
        int | None, typer.Option(help="Shuffle the questions.", show_default="their order")
    ] = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    batch_tokens: options.BatchTokens = None,
    overwrite: options.Overwrite = False,
    strict: options.Strict = False,
    quiet: options.Quiet = False,
    json: options.AsJson = False,
) -> None:
    """Label passages: is the answer in them, and does the LLM answer right from them?

    The two labels of FIT-RAG's scorer (section 4.2.1). Each question brings its own passages, or
    they are found in --pool or --index. Adds to each has_answer, llm_prefer (null where the LLM
    gave no answer; llm_error says why) and answer. A run that was stopped, however it was, goes on
    where it stopped and asks nothing again that was answered.
    """
    for path in rows:
        check_names(str(path), out)
    check_files(pool, prompt)
    check(out, pool, index, url, api, max_cost, price_read + price_written)
    how = options.ModelOptions(None, device, dtype, batch_tokens)
    text = PROMPT if prompt is None else prompt.read_text(encoding="utf-8")
    name = model or llm
    plan = {
        "llm": name,
        "prompt": text,
        "max-new-tokens": max_new_tokens,
        "depth": depth,
        "pool": None if pool is None else plan_file(pool),
        "index": None if index is None else str(index),
        "patterns": patterns,
        "unanswered": unanswered,
        "seed": seed,
    }
    given = list(read_rows(chain.from_iterable(jsonl.read_lines(str(path)) for path in rows)))
    if seed is not None:
        random.Random(seed).shuffle(given)
    given = given[: max_questions or None]
    target = Path(out)
    journal = open_journal(target, plan, overwrite=overwrite)
    try:
        asking = {"concurrency": concurrency, "retries": retries, "timeout": timeout}
        asker = load_asker(name, url, api, text, max_new_tokens, how, asking)
        if retry_failed and asker.keeps:  # the answers are in the journal: only the rest is asked
            target.unlink(missing_ok=True)
        account = Account(
            approximate_tokens,
            price_read=price_read,
            price_written=price_written,
            max_cost=max_cost,
            max_failures=max_failures,
            longest=max_new_tokens,
            tokens=journal.tokens,
        )
        find = found_in(pool, index, how, depth)
        tell = None if quiet else lambda told: typer.echo(f"fitrag label bilabel: {told}", err=True)
        labelling = Labelling(asker, journal, account, at_once=4 * concurrency, tell=tell)
        found = Rows(find, depth=depth, patterns=patterns, unanswered=unanswered)
        counts = labelling.run(given, target, found)
    finally:
        journal.close()
    if not quiet:
        typer.echo(str(counts), err=True)
        typer.echo(f"{account}; {counts.errors} error rows", err=True)
    if json:
        cost = {"asked": account.asked, "tokens": account.tokens, "cost": account.cost}
        summary = {"output": out, **counts.to_dict(), **cost, "stopped": account.stopped or None}
        typer.echo(json_.dumps(summary))
    if account.stopped:
        typer.echo(f"fitrag label bilabel: stopped: {account.stopped}", err=True)
    if strict and (counts.errors or account.stopped):
        raise typer.Exit(1)


def open_journal(target: Path, plan: dict[str, Any], *, overwrite: bool) -> AnswerJournal:
    """Open the answers beside an output; raises `InputError` for an output that has none."""
    path = target.with_name(f"{target.name}.asked")
    if overwrite:
        target.unlink(missing_ok=True)
        path.unlink(missing_ok=True)
    has_rows = target.exists() and target.stat().st_size > 0
    if has_rows and not path.exists():
        allowed = f"an output with {path.name} beside it, another one, or --overwrite"
        raise InputError.of("output", given=str(target), allowed=allowed)
    return AnswerJournal(path, plan, replan=not has_rows)


def check(
    out: str,
    pool: Path | None,
    index: Path | None,
    url: str | None,
    api: str,
    max_cost: float | None,
    price: float,
) -> None:
    """Refuse options that contradict each other."""
    if out == jsonl.STREAM:
        raise InputError.of("--out", given=out, allowed="a file, which a stopped run can go on in")
    if pool is not None and index is not None:
        raise InputError.of("--index", given=str(index), allowed="one of --pool and --index")
    if api not in ("chat", "completions"):
        raise InputError.of("--api", given=api, allowed="chat or completions")
    if max_cost is not None and not price:
        allowed = "a cost with --price-read and --price-written"
        raise InputError.of("--max-cost", given=max_cost, allowed=allowed)


def check_files(pool: Path | None, prompt: Path | None) -> None:
    """Refuse files that are not there."""
    for field, path in (("--pool", pool), ("--prompt", prompt)):
        if path is not None and not path.is_file():
            raise InputError.of(field, given=str(path), allowed="a file that is there")


def found_in(
    pool: Path | None, index: Path | None, how: options.ModelOptions, depth: int
) -> Found | None:
    """Give the search of candidates; None where each row brings its own."""
    if index is not None:
        return models.load_retriever(index, how, k=depth).retrieve
    if pool is None:
        return None
    from fitrag_integrations.training.labels.negatives import searching

    return searching([passage_row(row) for row in read_jsonl(pool)], depth=depth)
