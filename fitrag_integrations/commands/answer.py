"""`fitrag answer`: a whole method, by default FIT-RAG's Algorithm 1, and the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fitrag_integrations.commands import lines, models, options
from fitrag_integrations.commands.answering import ADDS, Answers, answer_fields
from fitrag_integrations.commands.batch import Verb
from fitrag_integrations.commands.progress import run_verb
from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Traced, run
from fitrag_integrations.methods import FitRag
from fitrag_integrations.methods._defaults import EMBEDDED_GENERATOR
from fitrag_integrations.methods.answering import Answered, Answering
from fitrag_integrations.methods.composing import method_from
from fitrag_integrations.ports import Method

FIELDS = ("top_n", "max_tokens", "window", "stride", "weight", "tokenizer")


def answer(
    context: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="QUESTION_OR_INPUT", help="A question in words, or rows to read as elsewhere."
        ),
    ],
    target: Annotated[
        str | None,
        typer.Argument(metavar="[OUTPUT]", help="Where rows go; leave it out with a question."),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME_OR_FILE",
            help="Method, such as crag, or a .toml file that puts one together.",
            show_default="fitrag",
        ),
    ] = None,
    index: Annotated[
        Path | None, typer.Option(help="Index to search where a row has no passages of its own.")
    ] = None,
    k: Annotated[int, typer.Option("--k", min=1, help="Passages to take from the index.")] = 20,
    top_n: Annotated[int, typer.Option(min=1, help="Passages the reranker keeps.")] = 10,
    max_tokens: options.MaxTokens = None,
    window: options.Window = 3,
    stride: options.Stride = 1,
    weight: options.Weight = 0.5,
    tokenizer: options.Tokenizer = "approximate",
    llm: Annotated[
        str | None,
        typer.Option(
            metavar="PROVIDER:MODEL",
            help="LangChain chat model that answers, and writes what a method has written.",
            show_default="the extractive reader",
        ),
    ] = None,
    reader: Annotated[
        str | None,
        typer.Option(help="Reader's name or folder.", show_default="the embedded one"),
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Encoder of the index.", show_default="its own")
    ] = None,
    model: options.Model = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    batch_tokens: options.BatchTokens = None,
    overwrite: options.Overwrite = False,
    strict: options.Strict = False,
    quiet: options.Quiet = False,
    json: options.AsJson = False,
) -> None:
    """Answer questions from passages: rerank, reduce, prompt and read or generate.

    Reads question and, without --index, passages[{title, text}]; adds context, prompt, answer
    and trace. A question in place of the files is answered and explained on standard output.

    With --method, options such as --top-n that were given are the method's own fields; models are
    named in the file, and --device, --dtype and --batch-tokens are those of the reader. Without
    --llm, a small language model that comes with the package writes what the method has written.
    """
    if llm is not None and reader is not None:
        raise InputError.of("--reader", given=reader, allowed="nothing, where --llm answers")
    is_question = target is None and _is_question(source)
    if is_question and index is None:
        raise InputError.of("--index", given=None, allowed="the index a question is answered from")
    if target is None and not is_question:
        raise InputError.of("output", given=None, allowed="a .jsonl or .jsonl.gz file, or -")
    if method is not None and model is not None:
        raise InputError.of("--model", given=model, allowed="nothing, where --method names models")
    chosen = options.ModelOptions(model, device, dtype, batch_tokens)

    def whole() -> Method:
        if method is not None:
            return method_from(method, **_given(context))
        return FitRag(
            models.load_scorer(chosen),
            top_n=top_n,
            window=window,
            stride=stride,
            max_tokens=max_tokens,
            count_tokens=models.token_counter(tokenizer),
            weight=weight,
        )

    def load() -> Answers:
        reading = options.ModelOptions(reader, device, dtype, batch_tokens)
        searching = options.ModelOptions(encoder)
        found = None if index is None else models.load_retriever(index, searching, k=k)
        generate: Any = None if method is None else EMBEDDED_GENERATOR
        if llm is not None:
            generate = models.batched(models.load_chat_model(llm))
        answering = Answering(whole(), reader=models.load_reader(reading) if llm is None else None)
        return Answers(answering, found, generate)

    if target is None:
        _tell(run(load()({"question": source})), as_json=json)
        return
    how = options.RunOptions(overwrite, strict, quiet, json)
    run_verb("answer", lambda: Verb(load(), answer_fields, ADDS), source, target, how)


def _given(context: typer.Context) -> dict[str, Any]:
    """Give the fields that were set on the command line, under the names methods know."""
    sources = {name: context.get_parameter_source(name) for name in FIELDS}
    given = {name for name, source in sources.items() if source and source.name != "DEFAULT"}
    names = {"tokenizer": "count_tokens"}
    return {names.get(name, name): context.params[name] for name in FIELDS if name in given}


def _is_question(source: str) -> bool:
    return source != lines.STREAM and not source.endswith((".jsonl", ".jsonl.gz"))


def _tell(traced: Traced[Answered], *, as_json: bool) -> None:
    """Print the answer and how it was come by."""
    import json

    answered = traced.value
    if as_json:
        fields: dict[str, Any] = answer_fields(traced)
        typer.echo(json.dumps({"question": answered.context.question, **fields}))
        return
    typer.echo(answered.text or "(no answer)")
    typer.echo("")
    typer.echo(Traced(answered.context, traced.steps).explain())
