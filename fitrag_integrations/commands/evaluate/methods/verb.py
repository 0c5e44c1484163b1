"""`fitrag evaluate methods`: several methods over the same questions, in one table."""

from __future__ import annotations

import json as json_
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fitrag_integrations.commands.engine import models, options
from fitrag_integrations.commands.engine.progress import progress_bar
from fitrag_integrations.commands.engine.rows import read_rows
from fitrag_integrations.commands.evaluate import options as evaluating
from fitrag_integrations.commands.evaluate.answers import prices_of
from fitrag_integrations.commands.evaluate.methods.contenders import (
    Contender,
    answer_all,
    named_recipes,
    question_rows,
    setup_of,
)
from fitrag_integrations.commands.evaluate.provenance import Source, settings_of
from fitrag_integrations.commands.evaluate.tables import check_plot, draw
from fitrag_integrations.commands.run.answering import Answers
from fitrag_integrations.core import jsonl
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.evaluation.figures.methods import MethodFigures, methods_table
from fitrag_integrations.evaluation.figures.methods_result import (
    cost_of,
    method_figures,
    method_plots,
    method_rows,
)
from fitrag_integrations.evaluation.result import Result, check_result_name
from fitrag_integrations.methods.answer.answering import Answering
from fitrag_integrations.methods.answer.instruction import EQUAL, instruction_named
from fitrag_integrations.methods.defaults import EMBEDDED_GENERATOR

EVERY = (
    "direct,fitrag,crag,iknow,slimplm,itrg,vanilla,cot,genread,refeed,selfeval,selfask,flare,"
    "iterretgen,targ,replug"
)
"""What runs on what the package ships; skrknn wants a bank, selfrag a model of its own."""


def evaluate_methods(
    questions: Annotated[Path, typer.Argument(help="Rows of question and answers, a list.")],
    out: Annotated[Path, typer.Option(help="Answers, a line each; a stopped run continues there.")],
    methods: Annotated[
        str, typer.Option(help="Names or .toml files, with commas; the first is the baseline.")
    ] = EVERY,
    index: Annotated[
        Path | None, typer.Option(help="Index to search where a row has no passages of its own.")
    ] = None,
    k: Annotated[int, typer.Option("--k", min=1, help="Passages to take from the index.")] = 10,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Questions to ask.", show_default="all")
    ] = None,
    llm: Annotated[
        str | None,
        typer.Option(
            metavar="PROVIDER:MODEL",
            help="LangChain chat model that answers, and writes what methods have written.",
            show_default="the embedded reader and generator",
        ),
    ] = None,
    reader: Annotated[
        str | None, typer.Option(help="Reader's name or folder.", show_default="the embedded one")
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Encoder of the index.", show_default="its own")
    ] = None,
    tokenizer: options.Tokenizer = "approximate",
    template: Annotated[
        str, typer.Option(help="Prompt for all: equal, a template's name, or own for each its own.")
    ] = EQUAL,
    price_in: evaluating.PriceIn = None,
    price_out: evaluating.PriceOut = None,
    price_search: evaluating.PriceSearch = None,
    format: evaluating.OursFormat = "fitrag",
    split: evaluating.Split = None,
    traces: Annotated[
        bool, typer.Option("--traces", help="Keep in --out how each answer came about.")
    ] = False,
    result: evaluating.Result = None,
    plot: evaluating.Plot = None,
    resamples: Annotated[int, typer.Option(min=1, help="Bootstrap samples.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 0,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    json: options.AsJson = False,
) -> None:
    """Answer the same questions by several methods and set accuracy and cost side by side.

    Reads question, answers and, without --index, passages[{title, text}]. Accuracy is that of
    inclusion; the interval is that of the difference to the first method, over the same questions.
    A method that writes its own answer keeps it; for any other the reader or --llm answers, by one
    instruction for all, and a question judged known by the plain prompt its label was made with.
    The column noted is the share of questions on which something was degraded; --out tells what.
    """
    if llm is not None and reader is not None:
        raise InputError.of("--reader", given=reader, allowed="nothing, where --llm answers")
    if out.suffixes[-1:] != [".jsonl"] and out.suffixes[-2:] != [".jsonl", ".gz"]:
        raise InputError.of("--out", given=str(out), allowed="a .jsonl or .jsonl.gz file")
    check_plot(plot)
    check_result_name("--result", result)
    prices = prices_of(price_in, price_out, price_search)
    recipes = named_recipes(methods)
    instruction = instruction_named(template)
    indexed = index is not None
    asked = question_rows(questions, limit, indexed=indexed, format=format, split=split)
    count = models.token_counter(tokenizer)
    world = {"k": k, "index": index and str(index), "llm": llm, "reader": reader}
    world["template"] = template
    setups = {
        name: setup_of({**world, "encoder": encoder, "tokenizer": tokenizer, "method": recipe})
        for name, (recipe, _) in recipes.items()
    }
    found = None
    if index is not None:
        found = models.load_retriever(index, options.ModelOptions(encoder), k=k)
    generate: Any = EMBEDDED_GENERATOR
    if llm is not None:
        generate = models.batched(models.load_chat_model(llm))
    reading = None if llm is not None else models.load_reader(options.ModelOptions(reader))
    runs = [
        Contender(
            name,
            setups[name],
            Answers(Answering(method, reader=reading, template=instruction), found, generate),
        )
        for name, (_, method) in recipes.items()
    ]
    if overwrite:
        out.unlink(missing_ok=True)
    shown = not quiet
    with progress_bar("evaluate", len(asked) * len(runs), shown=shown) as advance:
        warm = llm is None
        advance(answer_all(runs, asked, out, count, advance, warm=warm, explained=traces))
    rows = [row.given for row in read_rows(jsonl.read_lines(str(out)))]
    table = methods_table(rows, resamples=resamples, seed=seed)
    figures = method_figures(table, prices)
    if result is not None:
        settings = settings_of(
            "methods",
            Source([str(questions)], asked),
            seed=seed,
            resamples=resamples,
            models={} if llm is not None else {"reader": reader},
            options={**world, "encoder": encoder, "tokenizer": tokenizer, "setups": setups}
            | {"methods": methods, "prices": prices and prices.to_dict()},
        )
        _result(figures, rows, table, prices, settings).write(result)
    if plot is not None:
        draw(method_plots(table, prices), plot)
    if json:
        typer.echo(json_.dumps({"questions": len(asked), "seed": seed, "methods": figures}))
        return
    show(table, len(asked), prices)


def _result(
    figures: Sequence[dict[str, Any]],
    rows: Sequence[dict[str, Any]],
    table: Sequence[MethodFigures],
    prices: Prices | None,
    settings: dict[str, Any],
) -> Result:
    questions = tuple(map(dict, method_rows(rows, prices)))
    return Result("methods", tuple(figures), questions, settings, method_plots(table, prices))


def show(table: Sequence[MethodFigures], questions: int, prices: Prices | None = None) -> None:
    """Print the table, with what a thousand questions cost where prices are given."""
    from rich.console import Console
    from rich.table import Table

    title = f"{questions} questions; calls, tokens and seconds are averages per question"
    drawn = Table(title=title, box=None, padding=(0, 2, 0, 0), title_justify="left")
    drawn.add_column("method", no_wrap=True)
    heads = ("accuracy", "to the first", "F1", "retrieved", "retriever", "LLM calls")
    for head in (*heads, "tokens in", "out", "seconds", "noted", "errors"):
        drawn.add_column(head, justify="right", no_wrap=True)
    if prices is not None:
        drawn.add_column("a thousand cost", justify="right", no_wrap=True)
    for line in table:
        drawn.add_row(
            line.method,
            f"{line.accuracy:.3f}",
            _difference(line),
            f"{line.f1:.3f}",
            f"{line.retrieval:.2f}",
            f"{line.retriever_calls:.2f}",
            f"{line.llm_calls:.2f}",
            f"{line.tokens_in:.0f}",
            f"{line.tokens_out:.0f}",
            f"{line.seconds:.3f}",
            f"{line.noted:.2f}",
            str(line.errors),
            *([] if prices is None else [f"{cost_of(line, prices):.3f}"]),
        )
    wide = None if sys.stdout.isatty() else 140 if prices is None else 160
    Console(width=wide).print(drawn)


def _difference(line: MethodFigures) -> str:
    if line.difference is None:
        return "-"
    return f"{line.difference:+.3f} ({line.low:+.3f} to {line.high:+.3f})"
