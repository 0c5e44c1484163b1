"""`fitrag compress`: the sub-documents worth reading (FIT-RAG, section 4.4.2)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

from fitrag_integrations.commands.engine import models, options
from fitrag_integrations.commands.engine.batch import Verb
from fitrag_integrations.commands.engine.options import Files, ModelOptions, RunOptions, Searching
from fitrag_integrations.commands.engine.progress import run_plan
from fitrag_integrations.commands.engine.rows import passages_of, question_of
from fitrag_integrations.commands.engine.searching import searched
from fitrag_integrations.core.option import Option
from fitrag_integrations.core.record import Row
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.fitrag.reducer import TokenReducer, score_port
from fitrag_integrations.methods.prompts import render_excerpts
from fitrag_integrations.ports import Scorer
from fitrag_integrations.types import Excerpt, Passage
from fitrag_integrations.values.selected import Selection
from fitrag_integrations.values.windows import by_score, usable

ADDS = ("excerpts", "tokens_in", "tokens_out")
SHARE = 0.5  # of the tokens, which single sentences of all passages may cost
EMPTY = {"excerpts": [], "tokens_in": 0, "tokens_out": 0}


@dataclass(frozen=True)
class CompressPlan:
    """Reduce the passages of each row to their best excerpts, half of the tokens.

    Single sentences, best first: the embedded scorer keeps more answers so than by the paper's
    windows, which are --window 3. With --max-tokens, that alone says how much is kept.

    Reads question and, without --index, passages[{title, text}]; adds excerpts[{passage, start,
    end, score}], best first, passage being its place in the list and start and end characters of
    its text; and tokens_in and tokens_out, counted on what a prompt would show.
    """

    files: Files
    max_tokens: options.MaxTokens = None
    window: options.CutWindow = None
    stride: options.Stride = 1
    top_n: Annotated[
        int | None, Option("Rerank and keep this many passages first.", min=1, default="all")
    ] = None
    per_passage: options.CutPerPassage = None
    max_share: options.CutShare = None
    detector: options.Detector = None
    one_pass: Annotated[bool, Option("Score windows in the pass that scores their passages.")] = (
        False
    )
    deduplicate: Annotated[
        bool,
        Option("Keep equal texts only once.", name="--deduplicate/--no-deduplicate"),
    ] = True
    explain: Annotated[
        bool, Option("Add `selection`: why each passage and sentence was kept or dropped.")
    ] = False
    weight: options.Weight = 0.5
    tokenizer: options.Tokenizer = "approximate"
    search: Searching = Searching()
    model: ModelOptions = ModelOptions()
    how: RunOptions = RunOptions()

    def run(self) -> None:
        """Reduce them."""
        self.reducer()  # refuses what does not fit together before a model loads
        run_plan("compress", self)

    def verb(self) -> Verb[Any]:
        """Load the scorer."""
        load = models.load_one_pass if self.one_pass else models.load_scorer
        verb = compress_verb(
            load(self.model), self.reducer(), top_n=self.top_n, explain=self.explain
        )
        return searched(verb, self.search)

    def reducer(self) -> TokenReducer:
        """Put together what cuts and chooses."""
        return TokenReducer(
            **cutting(self.window, self.per_passage, self.max_share, self.max_tokens),
            stride=self.stride,
            weight=self.weight,
            max_tokens=self.max_tokens,
            count_tokens=models.token_counter(self.tokenizer),
            detector=models.load_detector(self.detector),
            scoring="one_pass" if self.one_pass else "windows",
            deduplicate=self.deduplicate,
        )


def cutting(
    window: int | None, per_passage: int | None, max_share: float | None, max_tokens: int | None
) -> Row:
    """Fill in how passages are cut, where the options do not say it."""
    size = 1 if window is None else window
    most = per_passage if per_passage is not None else int(size > 1)
    if max_share is None and size == 1 and max_tokens is None:
        max_share = SHARE
    return {"window": size, "per_passage": most or None, "max_share": max_share}


def compress_verb(
    scorer: Scorer, reducer: TokenReducer, *, top_n: int | None = None, explain: bool = False
) -> Verb[Row]:
    """Rerank where `top_n` is given, then reduce; `explain` adds a row for all that is dropped."""
    adds, empty = (*ADDS, "selection") if explain else ADDS, dict[str, Any](EMPTY)
    flow = _Compressing(scorer, reducer, top_n=top_n, explain=explain)
    if explain:
        empty["selection"] = []
    return Verb(flow, lambda traced: traced.value, adds, empty)


@dataclass(frozen=True)
class _Compressing:
    scorer: Scorer
    reducer: TokenReducer
    _: KW_ONLY
    top_n: int | None
    explain: bool = False

    def __call__(self, row: Row) -> Flow[Row]:
        question, passages = question_of(row), passages_of(row)
        selection = Selection()
        kept = yield from self._reduced(question, passages, selection)
        rows = [each.to_dict() for each in selection.rows(kept)] if self.explain else []
        count = self.reducer.counter
        return {
            "excerpts": [
                {"passage": int(e.passage.id), "start": e.start, "end": e.end, "score": e.score}
                | ({"lead": [list(span) for span in e.lead]} if e.lead else {})
                for e in kept
            ],
            "tokens_in": count(render_excerpts([Excerpt.whole(p) for p in passages])),
            "tokens_out": count(render_excerpts(kept)),
            **({"selection": rows} if self.explain else {}),
        }

    def _reduced(
        self, question: str, passages: list[Passage], selection: Selection
    ) -> Flow[list[Excerpt]]:
        reducer, scoring = self.reducer.settled(score_port(self.scorer))
        asked = scoring.about(question)
        if self.top_n is None:
            reduction = yield from reducer.reduced(passages, asked, selection)
        else:
            given, _ = usable(passages, deduplicate=reducer.deduplicate, selection=selection)
            wholes, windows_of = yield from asked.passages(given, reducer.cut)
            selection.scored(wholes)
            ranked = by_score(wholes)
            selection.drop(ranked[self.top_n :], "top_n", f"top_n={self.top_n}")
            windows = yield from windows_of(ranked[: self.top_n])
            reduction = yield from reducer.chosen(windows, asked, selection)
        return list(reduction.kept)
