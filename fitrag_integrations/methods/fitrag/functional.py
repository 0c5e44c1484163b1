"""FIT-RAG's reranker and compressor as plain functions over texts (section 4.4).

``rerank`` and ``compress``, exported by ``fitrag_integrations`` itself, work like the components of
both frameworks and have the same defaults.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from fitrag_integrations.core.checks import check_keywords, check_text
from fitrag_integrations.core.record import Row, check_mapping
from fitrag_integrations.core.show import visible
from fitrag_integrations.defaults import DEFAULTS, Auto
from fitrag_integrations.errors import InputError, shown
from fitrag_integrations.flow import Traced, run
from fitrag_integrations.methods.explaining import Compression, Step, explained
from fitrag_integrations.methods.fitrag.method import Reranking, TokenReducer
from fitrag_integrations.methods.metadata import retitled, title_in
from fitrag_integrations.ports import Detector
from fitrag_integrations.text.tokens import CountTokens
from fitrag_integrations.types import Context, Excerpt, Passage


def explain_compression(
    question: str,
    passages: Sequence[Passage],
    **settings: Any,
) -> Compression:
    """Compress passages as `TokenReducer` does (FIT-RAG, section 4.4.2), and return the reasons.

    Args:
        question: The question; not blank.
        passages: Passages to compress.
        **settings: Arguments of `compress`, such as `max_tokens`, `scorer` and `window`.

    Raises:
        InputError: If the question is blank or a setting is wrong.
    """
    check_keywords("explain_compression", settings, TokenReducer.__dataclass_fields__)
    return run(explained(TokenReducer(**settings), question, passages)).value


Text: TypeAlias = str | Passage | Row
"""A text, a `Passage`, or a mapping with `text` and perhaps `title`, `source` and `id`."""


class Excerpts(list[Excerpt]):
    """List of the excerpts that `rerank` or `compress` kept, best first, with the run.

    A slice or a copy is a plain list.

    Attributes:
        indices: For each excerpt, the index of its text in the input, from 0.
        traced: The run: its steps, and the `Context` it ended in.
    """

    def __init__(
        self, excerpts: Iterable[Excerpt], indices: Sequence[int], traced: Traced[Context]
    ) -> None:
        super().__init__(excerpts)
        self.indices = tuple(indices)
        self.traced = traced

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (list(self), self.indices, self.traced)

    @property
    def context(self) -> Context:
        """Return the context: the excerpts with notes on what was left out, and `prompt()`."""
        return self.traced.value

    @property
    def answerable(self) -> float | None:
        """Return the probability that some text answers the query, in [0, 1]; None if unknown."""
        return self.context.answerable

    def explain(self, *, dropped: bool = False) -> str:
        """Return a few lines: what was kept, what was left out, and the steps.

        Args:
            dropped: List everything that was dropped, with the reason.
        """
        return self.traced.explain(dropped=dropped)

    def __repr__(self) -> str:
        """Return what was kept, an excerpt a line, and how much was dropped."""
        return visible("\n".join(self.context.trace_lines()))

    def _repr_html_(self) -> str:
        """Show every passage whole with what was kept marked; all of it is escaped."""
        return self.context._repr_html_()


def rerank(
    query: str,
    texts: Iterable[Text],
    *,
    top_n: int | None = DEFAULTS.top_n,
    weight: float = DEFAULTS.weight,
    prior: float | None = None,
    min_score: float | None = DEFAULTS.min_score,
    scorer: Any = None,
    deduplicate: bool = DEFAULTS.deduplicate,
    title_keys: Sequence[str] | None = None,
) -> Excerpts:
    """Return the texts that best answer a query, best first (FIT-RAG, section 4.4.1).

    Args:
        query: The question; not blank.
        texts: Strings, `Passage` objects, or mappings with `text` and perhaps `title`, `source`
            and `id`. A string gets its index as id.
        top_n: Maximum number of texts returned; None returns all but blank ones.
        weight: Weight of ``llm_prefer`` against ``has_answer``, in [0, 1].
        prior: Weight, in [0, 1], of the order given, shared words and identifiers; None is 0.1 for
            the bundled scorer, 0 for another.
        min_score: Lowest score kept, in [0, 1]; None keeps all.
        scorer: A `Scorer`, a function of pairs, or a framework's cross-encoder; None is the
            bundled one.
        deduplicate: Keep texts that are equal, and text that chunks of one source share, once.
        title_keys: Metadata keys whose values are read as a text's title, in this order; None reads
            those of `TITLE_KEYS` where a mapping has no `title`.

    Returns:
        One `Excerpt` for each text kept, with `text`, `score`, `start`, `end` and `passage`, the
        input. `indices` of the list are the positions of the texts in the input.

    Raises:
        InputError: If the query is blank, or a text or an option is not of an allowed kind.
        TypeError: If there is no option of that name.

    Example:
        >>> from fitrag_integrations import rerank
        >>> texts = ["The Rhine rises in the Alps.", "The Danube rises in the Black Forest."]
        >>> best = rerank("Where does the Danube rise?", texts, top_n=1)
        >>> best[0].text, best.indices
        ('The Danube rises in the Black Forest.', (1,))
    """
    step = Reranking(
        scorer,
        top_n=top_n,
        weight=weight,
        prior=prior,
        min_score=min_score,
        deduplicate=deduplicate,
    )
    return _chosen(step, query, as_passages(texts, title_keys))


def compress(
    query: str,
    texts: Iterable[Text],
    *,
    max_tokens: int | None = DEFAULTS.max_tokens,
    max_share: float | Auto | None = "auto",
    window: int | None = None,
    count_tokens: CountTokens = None,
    detector: Detector | Literal[False] | None = None,
    top_n: int | None = DEFAULTS.top_n,
    weight: float = DEFAULTS.weight,
    prior: float | None = None,
    min_score: float | None = DEFAULTS.min_score,
    scorer: Any = None,
    deduplicate: bool = DEFAULTS.deduplicate,
    title_keys: Sequence[str] | None = None,
) -> Excerpts:
    """Return the sentences of texts that best answer a query, best first (FIT-RAG, section 4.4.2).

    Args:
        query: The question; not blank.
        texts: Strings, `Passage` objects, or mappings with `text` and perhaps `title`, `source`
            and `id`. A string gets its index as id.
        max_tokens: Maximum number of tokens of the excerpts as a prompt shows them, numbers and
            titles included; None keeps a fraction of the input's tokens.
        max_share: That fraction, in (0, 1]; None keeps all; "auto" is the fraction in `DEFAULTS`
            without `max_tokens` and `window`.
        window: Sentences of an excerpt; None is one for a scorer that judges sentences, such as
            the bundled one, else three.
        count_tokens: Counts the tokens of a text; None estimates them.
        detector: Decides when the excerpts are enough; None is the bundled one where it fits the
            scorer and the windows, False keeps all.
        top_n: Maximum number of texts that excerpts are taken from; None takes all.
        weight: Weight of ``llm_prefer`` against ``has_answer``, in [0, 1].
        prior: As in `rerank`.
        min_score: Lowest score kept, in [0, 1]; None keeps all.
        scorer: As in `rerank`.
        deduplicate: As in `rerank`.
        title_keys: As in `rerank`.

    Returns:
        Excerpts, each with its `score`. The `text` of one is the exact slice
        `passage.text[start:end]` of an input; of a list item, a table row or code, `text` is that
        slice (`body`) after slices of the same input that it is read with (`lead`), such as the
        table's header. Slices that do not touch are joined by a gap marked `…`. `indices` of the
        list are the positions of these texts in the input; `context.prompt()` is the text for a
        language model.

    Raises:
        InputError: If the query is blank, or a text or an option is not of an allowed kind.
        TypeError: If there is no option of that name.

    Example:
        >>> from fitrag_integrations import compress
        >>> text = "The Danube is long. It rises in the Black Forest. Ten countries share it."
        >>> kept = compress("Where does the Danube rise?", [text], max_tokens=12)
        >>> kept[0].text, kept[0].start, kept[0].end
        ('It rises in the Black Forest.', 20, 49)
    """
    step = TokenReducer(
        scorer=scorer,
        top_n=top_n,
        weight=weight,
        prior=prior,
        min_score=min_score,
        deduplicate=deduplicate,
        window=window,
        max_tokens=max_tokens,
        max_share=max_share,
        count_tokens=count_tokens,
        detector=detector,
    )
    return _chosen(step, query, as_passages(texts, title_keys))


def _chosen(step: Step, query: str, passages: Sequence[Passage]) -> Excerpts:
    """Run a step, and find each excerpt's place in the input."""
    traced = run(step.context(check_text("query", query, blank=False), passages))
    place = {passage: at for at, passage in reversed(list(enumerate(passages)))}
    kept = traced.value.excerpts
    return Excerpts(kept, [place[excerpt.passage] for excerpt in kept], traced)


def as_passages(texts: Iterable[Text], title_keys: Sequence[str] | None = None) -> list[Passage]:
    """Convert each text to a passage.

    Args:
        texts: Strings, `Passage` objects or mappings.
        title_keys: Metadata keys of the title; None keeps the passage's own.

    Raises:
        InputError: If a text is invalid; names the first one.
    """
    if isinstance(texts, str | bytes | Mapping | Passage) or not isinstance(texts, Iterable):
        raise InputError.of("texts", given=texts, allowed="a list of texts, not a single one")
    return [retitled(_as_passage(at, text), title_keys) for at, text in enumerate(texts)]


def _as_passage(at: int, text: Text) -> Passage:
    if isinstance(text, Passage):
        return text
    if isinstance(text, str):
        return Passage(str(at), text)
    name = f"texts[{at}]"
    if not isinstance(text, Mapping):
        raise InputError(
            f"`{name}` must be a string, a Passage, or a dict with 'text', got {shown(text)}. "
            "Documents and nodes go to the classes in fitrag_integrations.langchain and "
            "fitrag_integrations.llama_index."
        )
    rest = dict(text)
    body = check_text(f"{name}['text']", rest.pop("text", None))
    title, source = (
        check_text(f"{name}[{key!r}]", rest.pop(key, None) or "") for key in ("title", "source")
    )
    given = rest.pop("id", None)
    own = str(at) if given is None else str(given)
    inner = check_mapping(f"{name}['metadata']", rest.pop("metadata", None) or {}) | rest
    return Passage(own, body, title or title_in({"source": source, **inner}), source, inner)
