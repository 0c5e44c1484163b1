"""CRAG's inference (CRAG, section 4, Algorithm 1): evaluate, act, refine, search where needed.

The language model that answers is left to the caller, who gets a ``Context`` to prompt it with.
The steps lie beside it: ``judge`` (evaluate and act), ``search``, and ``refiner``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, partial
from typing import Annotated, Literal

from fitrag_integrations.core.checks import Checked, Count, Share, check_text
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.crag.evaluator import (
    STEPS,
    ActionJudge,
    GradedList,
    check_without,
    merged_action,
)
from fitrag_integrations.methods.crag.refiner import TOP_N, Refined, Refiner, StripSource
from fitrag_integrations.methods.crag.search import Searched, search_web
from fitrag_integrations.methods.defaults import EMBEDDED_EVALUATOR, script_note
from fitrag_integrations.ports import Ports
from fitrag_integrations.text.question import asked_note
from fitrag_integrations.text.sentences import SentenceSplitter
from fitrag_integrations.text.tokens import CountTokens
from fitrag_integrations.types import Action, Context, Excerpt, Passage
from fitrag_integrations.values.selected import Selection
from fitrag_integrations.values.thresholds import ActionThresholds, Grade
from fitrag_integrations.values.windows import best_copies, usable

KEPT_ANYWAY = "nothing came from the web: what was retrieved is kept, though graded low"
DROPPED = "nothing to refer to: all that was retrieved is graded incorrect, and dropped"
WARNING = (
    "An evaluator judged that none of these passages answers the question. If that is so, say that "
    "you do not know the answer."
)
NOTHING = "nothing to refer to"


@dataclass(frozen=True)
class Crag(Checked):
    """Run corrective retrieval for a question.

    Args:
        evaluator: An object with ``evaluate(pairs)``, a bi-label scorer, or a callable; None is the
            bundled one.
        thresholds: None are the evaluator's own; a text names a preset of the paper.
        top_n: Strips kept of what was retrieved, and as many of what the web gave.
        strip_threshold: Grade that a strip has to reach, in [-1, 1], as in ``Refiner``.
        sentences: Maximum sentences of a strip, as in ``Refiner``.
        max_tokens: Token budget of both sources together, as in ``Refiner``.
        count_tokens: Tokenizer of the budget, as in ``Refiner``.
        split: Sentence splitter, as in ``Refiner``.
        on_web_error: "degrade" notes a failed search, "raise" raises it.
        on_incorrect: What to do where all that was retrieved is graded incorrect, and the web gave
            nothing or, in all of its strips, what is graded lower, or incorrect too. "warn" keeps
            the best of what was retrieved, and the prompt says that it was judged not to answer the
            question; "drop" drops it; "keep" keeps it and says so in a note only.
        allow_other_model: Accept thresholds that were fitted for another evaluator.
        without: Steps and actions to leave out, for the paper's ablations. Without "refine",
            retrieved passages stay whole; without "rewrite", the question itself is searched for;
            without "select", all that the web gave is kept (Table 3). Without "correct" or
            "incorrect", the action is ambiguous instead; without "ambiguous", ``upper`` alone parts
            correct from incorrect (Tables 2 and 11).
        min_score: Lowest ``relevance_score`` kept, in [0, 1], as in ``Refiner``.
        deduplicate: Keep equal texts, and text that chunks of one source share, once.

    Raises:
        InputError: If an option is out of range.
        ThresholdMismatchError: If thresholds were fitted for another evaluator.

    Example:
        >>> Crag(top_n=3, on_incorrect="drop").on_incorrect
        'drop'
    """

    evaluator: object = None
    _: KW_ONLY
    thresholds: ActionThresholds | str | None = None
    top_n: Count | None = TOP_N
    strip_threshold: Grade | None = None
    sentences: Count | None = None
    max_tokens: Count | None = None
    count_tokens: CountTokens = None
    split: SentenceSplitter | None = None
    on_web_error: Literal["degrade", "raise"] = "degrade"
    allow_other_model: bool = False
    without: Annotated[Iterable[str], check_without] = ()
    min_score: Share | None = None
    on_incorrect: Literal["warn", "drop", "keep"] = "warn"
    deduplicate: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.refiner, self._judge

    @cached_property
    def refiner(self) -> Refiner:
        """Return the refiner in use."""
        return Refiner(
            self.evaluator,
            top_n=self.top_n,
            threshold=self.strip_threshold,
            sentences=self.sentences,
            max_tokens=self.max_tokens,
            count_tokens=self.count_tokens,
            split=self.split,
            min_score=self.min_score,
            deduplicate=self.deduplicate,
        )

    @cached_property
    def _judge(self) -> ActionJudge:
        return ActionJudge(
            self.evaluator,
            thresholds=self.thresholds,
            allow_other_model=self.allow_other_model,
        )

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Return the flow that ends in the context for one question.

        The excerpts of the retrieved documents come first, then those of the web, each in the order
        of their documents. If the action is Incorrect and the web returned nothing,
        ``on_incorrect`` decides on the retrieved documents, and a note reports it.

        Args:
            question: Question.
            ports: Ports of the question.

        Raises:
            InputError: If the question is blank.
        """
        context = Context(check_text("question", question, blank=False), method="crag")

        # evaluate what was retrieved (section 4.2)
        (found,) = yield from ports.retrieve.ask([question])
        selection = Selection()
        retrieved, notes = usable(
            found, deduplicate=self.deduplicate, scored=True, selection=selection
        )
        if not retrieved:  # the last note says that there is nothing to refer to: the web may help
            notes = (*notes[:-1], "nothing with text was retrieved")
        foreign = script_note(self.evaluator, EMBEDDED_EVALUATOR, question, retrieved)
        notes = (*asked_note(question), *notes, *foreign)
        judged = yield from self._judge(question, retrieved)
        notes += judged.notes
        pairs = list(zip(retrieved, judged.grades, strict=True))
        graded = [Excerpt.whole(passage, score=score) for passage, score in pairs]
        for at in reversed([at for at, why in enumerate(judged.refused) if why]):
            selection.drop([graded.pop(at)], "refused", judged.refused[at])
        selection.scored(graded)
        if self.deduplicate:
            graded, repeated = best_copies(graded, of=len(found), selection=selection)
            notes += repeated

        # act (section 4.3): search the web unless it is correct (section 4.5)
        action, web = merged_action(judged.action, self.without), Searched()
        if action is not Action.CORRECT:
            web = yield from search_web(
                question,
                ports,
                rewriting="rewrite" not in self.without,
                on_error=self.on_web_error,
            )
        internal, external = graded, [Excerpt.whole(page) for page in web.passages]
        notes += web.notes
        if action is Action.INCORRECT and graded:
            internal = [] if external or self.on_incorrect == "drop" else graded
            if not external:
                notes += (KEPT_ANYWAY if internal else DROPPED,)

        # refine both to what matters (section 4.4)
        web_source = StripSource(external, "the web", whole="select" in self.without)
        refined = partial(self.refiner.refined, question, thresholds=judged.thresholds)
        if len(internal) < len(graded):  # the better text stays, which the paper discards
            trial = Selection()
            known = yield from refined([web_source], selection=trial)
            best = max(one.score for one in graded)
            enough = max(best, judged.thresholds.lower)
            of_web = max((one.score for one in known.graded), default=enough)
            if external and self.on_incorrect != "drop" and of_web < enough:
                internal = graded
                notes += (
                    f"the best of the web is graded {of_web:.2f}, under {enough:.2f}: what was "
                    f"retrieved, graded {best:.2f}, is not dropped for it",
                )
            else:
                selection.drop(graded, "action", f"graded {action}")
                selection.merge(trial)
        if len(internal) == len(graded):
            own_source = StripSource(internal, "what was retrieved", whole="refine" in self.without)
            known = yield from refined([own_source, web_source], selection=selection)
        notes += known.notes
        if not known.excerpts and not any(note.startswith(NOTHING) for note in notes):
            notes += (f"{NOTHING}: neither retrieval nor the web left anything",)
        doubted = action is Action.INCORRECT and internal and self.on_incorrect == "warn"
        warned: dict[str, object] = {"warning": WARNING} if doubted else {}
        return replace(
            context,
            excerpts=known.excerpts,
            queries=web.queries,
            action=action,
            notes=notes,
            details=self._details(judged, [*found, *web.passages], web, known) | warned,
            selection=selection.rows(known.excerpts),
        )

    def _details(
        self, judged: GradedList, given: Sequence[Passage], web: Searched, known: Refined
    ) -> dict[str, object]:
        pages = set(map(id, web.passages))
        from_web = [at for at, one in enumerate(known.excerpts) if id(one.passage) in pages]
        strips = sum(id(strip.passage) in pages for strip in known.graded)
        off = [str(name) for name in (*Action, *STEPS) if name in self.without]
        return {
            "grades": list(judged.grades),
            "thresholds": judged.thresholds.to_dict(),
            **({"verdict": str(judged.action), "without": off} if off else {}),
            **web.details,
            "strips": {"retrieved": len(known.graded) - strips, "web": strips},
            "kept": {"retrieved": len(known.excerpts) - len(from_web), "web": len(from_web)},
            "from_web": from_web,
            **known.details,
            "tokens_in": self.refiner.tokens_in(given),
            "tokens_out": self.refiner.cost(known.excerpts),
        }
