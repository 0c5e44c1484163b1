"""Retrieve as CRAG does: judge, refine, and search the web where needed (CRAG, section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from fitrag_integrations.langchain.base.fields import Counter, Kept, Splitter
from fitrag_integrations.langchain.base.retriever import Searching
from fitrag_integrations.methods.compose.fitted import FromFitted
from fitrag_integrations.methods.crag.method import Crag
from fitrag_integrations.types import Action
from fitrag_integrations.values.thresholds import ActionThresholds


class CorrectiveRetriever(FromFitted, Searching):
    """Retriever that grades what ``base`` returns, refines it, and searches the web if it is not
    good (CRAG).

    Strips of the documents come first, then those of the web, each in the order of its documents.
    Those of the web carry ``url``, ``web`` and ``trust``. The ``context`` of the result has the
    action, the thresholds, the notes, and ``web_error`` if the search failed. Without an ``llm``
    the keywords of the search are words of the question.

    Example:
        >>> retriever = CorrectiveRetriever(base=store.as_retriever(), search=my_search_tool)
        >>> retriever.invoke("How often does the night bus leave?").context.action
    """

    made: ClassVar[type[Crag]] = Crag

    evaluator: Kept[Any] = None
    """Object with `evaluate(pairs)`, a bi-label scorer, or a callable; None is the bundled one."""
    thresholds: Kept[ActionThresholds | str | None] = None
    """None are the evaluator's own; a text names a preset of the paper."""
    top_n: int | None = Crag.top_n
    """Strips kept of what was retrieved, and as many of what the web gave; None is no limit."""
    strip_threshold: float | None = None
    """Grade that a strip has to reach, in [-1, 1]; None is the evaluator's, else the paper's."""
    sentences: int | None = None
    """Maximum sentences of a strip; None is what the evaluator was fitted on, else three."""
    max_tokens: int | None = None
    """Token budget of both sources together; None is no limit."""
    count_tokens: Kept[Counter | None] = None
    """Counts the tokens of a text; None estimates them."""
    split: Kept[Splitter | None] = None
    """Returns the [start, end) of the sentences of a text; None is the built-in one."""
    on_web_error: Literal["degrade", "raise"] = "degrade"
    """A failed search: "degrade" notes it, "raise" raises it."""
    allow_other_model: bool = False
    """Accept thresholds that were fitted for another evaluator."""
    without: Sequence[Action | str] = ()
    """Actions that give way to ambiguous (Tables 2 and 11 of the paper)."""
    refine: bool = True
    """False keeps retrieved documents whole (Table 3)."""
    rewrite: bool = True
    """False searches for the question itself (Table 3)."""
    select: bool = True
    """False keeps all that the web gave (Table 3)."""
    min_score: float | None = None
    """Grade below which nothing is kept, in [-1, 1]; None always keeps one strip."""
    on_incorrect: Literal["warn", "drop", "keep"] = "warn"
    """What to do where all that was retrieved is graded incorrect and the web gave nothing. "warn"
    keeps the best of it, and the prompt says that it was judged not to answer the question; "drop"
    keeps nothing, and the prompt says that nothing was found; "keep" keeps it and says so in a note
    only."""
    deduplicate: bool = True
    """Keep equal texts, and text that chunks of one source share, once."""
