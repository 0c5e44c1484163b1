"""`fitrag compress`: the sub-documents worth reading (FIT-RAG, section 4.4.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fitrag_integrations.commands.engine import models, options
from fitrag_integrations.commands.engine.batch import Verb
from fitrag_integrations.commands.engine.options import Files, ModelOptions, RunOptions, Searching
from fitrag_integrations.commands.engine.progress import run_plan
from fitrag_integrations.commands.engine.rows import passages_of, question_of
from fitrag_integrations.commands.engine.searching import searched
from fitrag_integrations.core.option import Option
from fitrag_integrations.core.record import Row
from fitrag_integrations.defaults import DEFAULTS, ONE_PASS
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.compressing import Reducing
from fitrag_integrations.ports import Scorer
from fitrag_integrations.types import Excerpt

ADDS = ("excerpts", "tokens_in", "tokens_out")
EMPTY = {"excerpts": [], "tokens_in": 0, "tokens_out": 0}


@dataclass(frozen=True)
class CompressPlan:
    """Reduce the passages of each row to their best excerpts, as FitRag does.

    Keeps single sentences of the 10 best passages, 0.4 of the tokens; `fitrag doctor --defaults`
    lists every default. --window 3 selects the paper's windows. With --max-tokens, that alone
    limits what is kept.

    Reads question and, without --index, passages[{title, text}]; adds excerpts[{passage, start,
    end, score}], best first, passage being its place in the list and start and end characters of
    its text; and tokens_in and tokens_out, counted on what a prompt would show.
    """

    files: Files
    max_tokens: options.MaxTokens = None
    window: options.CutWindow = None
    stride: options.CutStride = None
    top_n: options.CutTopN = None
    per_passage: options.CutPerPassage = None
    max_share: options.CutShare = None
    detector: options.Detector = None
    scoring: Annotated[
        str | None,
        Option(
            "How excerpts are scored: one_pass, from one reading of their passage, or windows, "
            "each as a text of its own.",
            default="one_pass for a scorer that can, without --window",
        ),
    ] = None
    one_pass: Annotated[bool, Option("The same as --scoring one_pass.")] = False
    deduplicate: Annotated[
        bool,
        Option("Keep equal texts only once.", name="--deduplicate/--no-deduplicate"),
    ] = DEFAULTS.deduplicate
    explain: Annotated[
        bool, Option("Add `selection`: why each passage and sentence was kept or dropped.")
    ] = False
    weight: options.Weight = DEFAULTS.weight
    tokenizer: options.Tokenizer = DEFAULTS.tokenizer
    search: Searching = Searching()
    model: ModelOptions = ModelOptions()
    how: RunOptions = RunOptions()

    def run(self) -> None:
        """Reduce them."""
        self.reducing()  # refuses what does not fit together before a model loads
        run_plan("compress", self)

    def verb(self) -> Verb[Any]:
        """Load the scorer."""
        step = self.reducing(models.load_scorer(self.model))
        return searched(compress_verb(step, explain=self.explain), self.search)

    def reducing(self, scorer: Scorer | None = None) -> Reducing:
        """Build the step; what is not given has the default of every other door."""
        given = {
            "window": self.window,
            "stride": self.stride,
            "max_share": self.max_share,
            "max_tokens": self.max_tokens,
            "scoring": ONE_PASS if self.one_pass else self.scoring,
        }
        settings: dict[str, Any] = {name: each for name, each in given.items() if each is not None}
        for name in ("top_n", "per_passage"):
            if (most := getattr(self, name)) is not None:
                settings[name] = most or None
        return Reducing(
            scorer=scorer,
            weight=self.weight,
            count_tokens=models.token_counter(self.tokenizer),
            detector=models.load_detector(self.detector),
            deduplicate=self.deduplicate,
            **settings,
        )


def compress_verb(step: Reducing, *, explain: bool = False) -> Verb[Row]:
    """Return the verb that reranks and reduces; `explain` adds a row for all that is dropped."""
    adds, empty = (*ADDS, "selection") if explain else ADDS, dict[str, Any](EMPTY)
    if explain:
        empty["selection"] = []
    return Verb(_Compressing(step, explain), lambda traced: traced.value, adds, empty)


@dataclass(frozen=True)
class _Compressing:
    step: Reducing
    explain: bool

    def __call__(self, row: Row) -> Flow[Row]:
        question, passages = question_of(row), passages_of(row)
        context = yield from self.step.context(question, passages)
        rows = [each.to_dict() for each in context.selection] if self.explain else []
        return {
            "excerpts": [
                {"passage": int(e.passage.id), "start": e.start, "end": e.end, "score": e.score}
                | ({"lead": [list(span) for span in e.lead]} if e.lead else {})
                for e in context.excerpts
            ],
            "tokens_in": self.step.cost([Excerpt.whole(p) for p in passages]),
            "tokens_out": self.step.cost(context.excerpts),
            **({"selection": rows} if self.explain else {}),
        }
