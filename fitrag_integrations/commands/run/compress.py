"""`fitrag compress`: the sub-documents worth reading (FIT-RAG, section 4.4.2)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from fitrag_integrations.commands.engine import models, options
from fitrag_integrations.commands.engine.batch import Verb
from fitrag_integrations.commands.engine.models import searched
from fitrag_integrations.commands.engine.progress import SearchingPlan
from fitrag_integrations.commands.engine.rows import passages_of, question_of
from fitrag_integrations.core.option import Option
from fitrag_integrations.core.record import Row
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.fitrag.method import TokenReducer
from fitrag_integrations.ports import Scorer
from fitrag_integrations.text.tokens import counter_for

EMPTY = {"excerpts": [], "offsets": "codepoints", "notes": [], "tokens_in": 0, "tokens_out": 0}
Offsets: TypeAlias = Literal["codepoints", "utf16"]


@dataclass(frozen=True)
class CompressPlan(SearchingPlan):
    """Reduce the passages of each row to their best excerpts, as FitRag does.

    Keeps single sentences of the best passages, up to a fraction of their tokens; `fitrag doctor
    --defaults` lists the numbers. --window 3 selects the paper's windows. --max-tokens replaces the
    fraction.

    Reads question and, without --index, passages[{title, text}]; adds excerpts[{passage, start,
    end, score, text}], best first. passage is the place in the list, start and end count in the
    unit that `offsets` names: codepoints, or with --offsets utf16 the units that JavaScript, Java
    and C# slice by. text is what a prompt shows: the spans in lead, if any, then the characters
    from start to end. Also adds notes on what was left out, and tokens_in and tokens_out, the
    tokens of the passages and of the excerpts in a prompt.
    """

    name: ClassVar = "compress"
    max_tokens: options.MaxTokens = None
    window: options.CutWindow = None
    top_n: Annotated[
        int | None,
        Option("Passages kept after reranking; 0: all.", min=0, default=f"{DEFAULTS.top_n}"),
    ] = None
    max_share: Annotated[
        float | None,
        Option(
            "Maximum fraction of the tokens kept.",
            min=0,
            max=1,
            default=f"{DEFAULTS.max_share:g} without --max-tokens and --window, else all",
        ),
    ] = None
    detector: Annotated[
        str | None,
        Option(
            "Eligibility detector: folder of `fitrag train eligibility`, or none.",
            default="the embedded one, if it is for these scores",
        ),
    ] = None
    deduplicate: Annotated[
        bool,
        Option("Keep one of several equal texts.", name="--deduplicate/--no-deduplicate"),
    ] = DEFAULTS.deduplicate
    explain: Annotated[
        bool,
        Option("Add `selection`, the reason why each passage and sentence was kept or dropped."),
    ] = False
    offsets: Annotated[Offsets, Option("Unit of start, end and lead: codepoints or utf16.")] = (
        "codepoints"
    )
    weight: Annotated[
        float,
        Option("Weight of llm_prefer; 0: has_answer alone, 1: llm_prefer alone.", min=0, max=1),
    ] = DEFAULTS.weight
    prior: Annotated[
        float | None,
        Option(
            "Weight of the order given, shared words and identifiers beside the scores.",
            min=0,
            max=1,
            default=f"{DEFAULTS.prior:g} with the embedded scorer, else 0",
        ),
    ] = None
    tokenizer: options.Tokenizer = DEFAULTS.tokenizer

    def verb(self) -> Verb:
        """Load the scorer."""
        step = self.reducing(models.load_scorer(self.model))
        return searched(
            compress_verb(step, explain=self.explain, offsets=self.offsets), self.search
        )

    def reducing(self, scorer: Scorer | None = None) -> TokenReducer:
        """Build the step; what is not given has the default of every other door."""
        given = {
            "window": self.window,
            "max_share": self.max_share,
            "max_tokens": self.max_tokens,
            "prior": self.prior,
        }
        settings: dict[str, Any] = {name: each for name, each in given.items() if each is not None}
        if self.top_n is not None:
            settings["top_n"] = self.top_n or None
        return TokenReducer(
            scorer=scorer,
            weight=self.weight,
            count_tokens=counter_for(self.tokenizer),
            detector=models.load_detector(self.detector),
            deduplicate=self.deduplicate,
            **settings,
        )


def compress_verb(
    step: TokenReducer, *, explain: bool = False, offsets: Offsets | None = "codepoints"
) -> Verb:
    """Return the verb that reranks and reduces.

    `explain` adds a row for all that is dropped. With `offsets` None, the row has `offsets` and
    `max_tokens` of its own.
    """
    empty = {**EMPTY, "offsets": offsets} | ({"selection": []} if explain else {})

    def flow(row: Row) -> Flow[Row]:
        question, passages = question_of(row), passages_of(row, blank=True)
        budget = row.get("max_tokens") if offsets is None else None
        reducing = step if budget is None else replace(step, max_tokens=budget)
        context = yield from reducing.context(question, passages)
        rows = [each.to_dict() for each in context.selection] if explain else []
        unit = offsets or row.get("offsets", "codepoints")
        units: dict[str, Callable[[int], int]] = {one.id: int for one in passages}
        if unit == "utf16":
            units = {one.id: utf16_places(one.text) for one in passages}
            for each in rows:
                move = units[each["passage"]]
                each |= {"start": move(each["start"]), "end": move(each["end"])}
        excerpts = []
        for one in context.excerpts:
            move = units[one.passage.id]
            *lead, (start, end) = ([move(first), move(last)] for first, last in one.spans)
            place = {"passage": int(one.passage.id), "start": start, "end": end}
            excerpts.append(
                place | {"score": one.score, "text": one.text} | ({"lead": lead} if lead else {})
            )
        return {
            "excerpts": excerpts,
            "offsets": unit,
            "notes": list(context.notes),
            "tokens_in": context.details["tokens_in"],
            "tokens_out": context.details["tokens_out"],
            "answerable": context.answerable,
            **({"selection": rows} if explain else {}),
        }

    return Verb(flow, tuple(empty), empty)


def utf16_places(text: str) -> Callable[[int], int]:
    """Return a function from a place in a text, in code points, to that in UTF-16 units."""
    wide = [at for at, letter in enumerate(text) if letter > "\uffff"]
    return lambda at: at + bisect_left(wide, at)
