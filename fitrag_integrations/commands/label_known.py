"""`fitrag label ik` and `fitrag label necessity`: what does a language model know by itself?

The model answers each question closed-book, and a teacher says whether that was right. Rows go out
as they are read, so that a stopped run continues where its output ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, TypeAlias

import typer

from fitrag_integrations.commands import options
from fitrag_integrations.commands.batch import Verb
from fitrag_integrations.commands.progress import run_verb
from fitrag_integrations.commands.rows import question_of
from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.models import LocalGenerator
from fitrag_integrations.training import teachers

EMBEDDED = "embedded"
Questions: TypeAlias = Annotated[
    str, typer.Argument(help="Rows of question and answers: .jsonl, .jsonl.gz, or -.")
]
Out: TypeAlias = Annotated[str, typer.Option("--out", help="Where to write: .jsonl or .jsonl.gz.")]
LLM: TypeAlias = Annotated[
    str,
    typer.Option("--llm", help="Model whose knowledge is asked: a hub name, a folder, embedded."),
]
Tokens: TypeAlias = Annotated[int, typer.Option(min=1, help="Tokens of the answer kept as draft.")]
NewTokens: TypeAlias = Annotated[int | None, typer.Option(min=1, help="Longest answer.")]
Teach: TypeAlias = Callable[[str, str, Sequence[Any]], Flow[dict[str, Any]]]


def label_ik(
    source: Questions,
    out: Out,
    llm: LLM = EMBEDDED,
    draft_tokens: Tokens = 32,
    teacher: Annotated[str, typer.Option(help="match, recall or judge.")] = "match",
    judge: Annotated[
        str | None, typer.Option(help="Model of the judge.", show_default="the --llm")
    ] = None,
    max_new_tokens: NewTokens = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    batch_tokens: options.BatchTokens = None,
    overwrite: options.Overwrite = False,
    strict: options.Strict = False,
    quiet: options.Quiet = False,
    json: options.AsJson = False,
) -> None:
    """Label questions by whether the model answers them without retrieval (IK, section 3.1).

    Reads question and answers; adds draft (the answer's first tokens), answer, known and llm. The
    teacher is a whole-token match, more than half of a gold answer's tokens, or a language model
    that says Yes or No.
    """
    if teacher not in teachers.TEACHERS:
        allowed = ", ".join(teachers.TEACHERS)
        raise InputError.of("--teacher", given=teacher, allowed=allowed)
    how = {"device": device, "dtype": dtype, "batch_tokens": batch_tokens}

    def load() -> Verb[dict[str, Any]]:
        model = load_llm(llm, max_new_tokens=max_new_tokens, **how)
        reads = load_llm(judge or llm, **how) if teacher == "judge" else None
        return known_verb(model, teach(teacher, reads), draft_tokens=draft_tokens)

    run_verb("label ik", load, source, out, options.RunOptions(overwrite, strict, quiet, json))


def label_necessity(
    source: Questions,
    out: Out,
    llm: LLM = EMBEDDED,
    theta: Annotated[float, typer.Option(min=0, max=1, help="Share to exceed.")] = 0.5,
    draft_tokens: Tokens = 64,
    max_new_tokens: NewTokens = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    batch_tokens: options.BatchTokens = None,
    overwrite: options.Overwrite = False,
    strict: options.Strict = False,
    quiet: options.Quiet = False,
    json: options.AsJson = False,
) -> None:
    """Label questions by the share of gold answers in a proxy's answer (SlimPLM, equation 2).

    Reads question and answers, each a text or a list of its wordings; adds draft, answer, ratio,
    known (the ratio exceeds theta) and llm.
    """
    how = {"device": device, "dtype": dtype, "batch_tokens": batch_tokens}

    def load() -> Verb[dict[str, Any]]:
        model = load_llm(llm, max_new_tokens=max_new_tokens, **how)
        return known_verb(
            model, by_ratio(theta), draft_tokens=draft_tokens, adds=("ratio",), nested=True
        )

    shown = options.RunOptions(overwrite, strict, quiet, json)
    run_verb("label necessity", load, source, out, shown)


def load_llm(name: str, **how: Any) -> LocalGenerator:
    """Load the model that answers; `embedded` is the small one that ships with the package."""
    if name == EMBEDDED:
        return LocalGenerator.embedded(**how)
    return LocalGenerator.from_pretrained(name, **how)


def known_verb(
    model: LocalGenerator,
    teach: Teach,
    *,
    draft_tokens: int,
    adds: tuple[str, ...] = (),
    nested: bool = False,
) -> Verb[dict[str, Any]]:
    """Answer closed-book, cut the draft, and have the answer judged."""
    answering: Port[str, str] = Port.of("answer", model.answer, model.aanswer)
    cutting: Port[str, str] = Port.of("cut", _Cut(model, draft_tokens))

    def flow(row: Mapping[str, Any]) -> Flow[dict[str, Any]]:
        question, gold = question_of(row), teachers.gold_answers(row, nested=nested)
        (answer,) = yield from answering.ask([question])
        (draft,) = yield from cutting.ask([answer])
        judged = yield from teach(question, answer, gold)
        return {"draft": draft, "answer": answer, **judged, "llm": model.name}

    added = ("draft", "answer", *adds, "known", "llm")
    return Verb(flow, lambda traced: traced.value, added, dict.fromkeys(added))


class _Cut:
    """Cut answers to a draft; one object, so that the rows of a chunk share the call."""

    def __init__(self, model: LocalGenerator, count: int) -> None:
        self._model, self._count = model, count

    def __call__(self, texts: Sequence[str]) -> list[str]:
        return self._model.first_tokens(texts, self._count)


def teach(teacher: str, judge: LocalGenerator | None = None) -> Teach:
    """Make the flow by which a teacher labels an answer; `judge` reads where that is its name."""
    if teacher == "judge" and judge is not None:
        return partial(_by_judge, Port.of("judge", judge.p_yes, judge.ap_yes))
    return _by_match if teacher == "match" else _by_recall


def by_ratio(theta: float) -> Teach:
    """Make SlimPLM's label: strictly more than a share of the gold answers."""

    def taught(question: str, answer: str, gold: Sequence[Any]) -> Flow[dict[str, Any]]:
        yield from ()
        ratio = teachers.matching_ratio(answer, gold)
        return {"ratio": ratio, "known": ratio > theta}

    return taught


def _by_match(question: str, answer: str, gold: Sequence[Any]) -> Flow[dict[str, Any]]:
    yield from ()
    return {"known": teachers.match(answer, gold)}


def _by_recall(question: str, answer: str, gold: Sequence[Any]) -> Flow[dict[str, Any]]:
    yield from ()
    return {"known": teachers.recall(answer, gold) > 0.5}


def _by_judge(
    port: Port[str, float], question: str, answer: str, gold: Sequence[Any]
) -> Flow[dict[str, Any]]:
    if not answer:  # nothing to judge
        return {"known": False}
    (right,) = yield from port.ask([teachers.judge_prompt(question, answer, gold)])
    return {"known": right > 0.5}
