"""FIT-RAG's reranker (section 4.4.1): one order, and scores that fall with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import nextafter
from statistics import correlation

from fitrag_integrations.core.record import remade
from fitrag_integrations.text.bm25 import BM25
from fitrag_integrations.text.layout import named_exactly
from fitrag_integrations.types import Excerpt
from fitrag_integrations.values.excerpt import grouped
from fitrag_integrations.values.windows import by_score, only_links

NAMING = 3.0
"""What a passage gains by an identifier of the question, in units of `prior`."""
AGREES = 0.3
"""Agreement of an order with scores and shared words that a retriever's order mostly has."""
GIVEN = ("retrieval_score", "score", "relevance_score")
"""Where the score that a retriever gave is found in metadata."""
OF_PASSAGE = 0.8
"""Weight of a passage's score for its windows."""


def ranked(question: str, wholes: Sequence[Excerpt], prior: float) -> list[Excerpt]:
    """Sort scored passages, best first, also by what is known of them without a model.

    A passage ranks by ``(1 - prior) * score + prior * (t / a + 1 / b) / 2``, where ``a`` is its
    place, from 1, in the order given, ``b`` that by BM25 among all, and ``t`` how far the order
    given is to be trusted (`trust`). A scorer of meanings hardly reads an identifier: a passage
    that holds one of the question ranks by ``NAMING * prior`` more, the less the more passages do.
    Its score becomes that of the best behind it, if that is higher (`falling`).

    Args:
        question: The question.
        wholes: Passages with their scores, in the order in which they were retrieved.
        prior: Weight of both places, in [0, 1].
    """
    if not prior:
        return by_score(wholes)
    texts = [f"{one.passage.title} {one.passage.text}" for one in wholes]
    shared = BM25(texts)
    lexical = sorted(range(len(texts)), key=lambda at: -shared(question, texts[at]))
    places = {at: place for place, at in enumerate(lexical, 1)}
    named = named_exactly(question, texts)
    told = trust(wholes, [places[at] for at in range(len(texts))])
    mixed = [
        (1 - prior) * one.score
        + prior * ((told / (at + 1) + 1 / places[at]) / 2 + NAMING * named[at])
        for at, one in enumerate(wholes)
    ]
    order = sorted(range(len(wholes)), key=lambda at: (only_links(wholes[at]), -mixed[at]))
    return falling([wholes[at] for at in order])


def trust(wholes: Sequence[Excerpt], places: Sequence[int]) -> float:
    """Compute how reliable the order of passages is, in [0, 1].

    The order of a folder or of the rows of a file is not. It is 1 if the retriever's scores fall
    along it. Otherwise it is the correlation of the order with the sum of the places by score and
    by shared words, plus one divided by the number of passages, because few of them agree by
    chance, divided by ``AGREES``.

    Args:
        wholes: Passages, in the order given, with their scores.
        places: Place of each passage by shared words.
    """
    found = ([*filter(None, map(one.passage.metadata.get, GIVEN))][:1] for one in wholes)
    given, count = [x for some in found for x in some if isinstance(x, int | float)], len(wholes)
    if len(given) == count > 1 and given == sorted(given, reverse=True) and given[0] > given[-1]:
        return 1.0
    by_score = sorted(range(count), key=lambda at: -wholes[at].score)
    sums = [places[at] + by_score.index(at) for at in range(count)]
    agreed = correlation(range(count), sums) if len(set(sums)) > 1 else 0.0
    return min(1.0, max(0.0, (agreed + 1 / max(1, count)) / AGREES))


def worth_of(
    windows: Sequence[Excerpt], prior: float, wholes: Sequence[Excerpt], question: str = ""
) -> Callable[[Excerpt], float]:
    """Return what tells what a window, or a part of one, is worth to a reader, 0 or more.

    With `prior`, it is ``score * (1 + OF_PASSAGE * (p / best - 1)) + prior / (2 * a)``, where `p`
    is the score of its passage, `best` that of the best window there, and `a` the place of the
    passage. So where no sentence stands out, those of the best passages are kept together.

    Args:
        windows: Windows of the passages that are reduced.
        prior: As in `ranked`; 0 is the score alone.
        wholes: These passages with their scores, best first.
        question: The question, where the scorer does not read its script: shared words, or
            characters of scripts without spaces, decide then. Blank otherwise.
    """
    passages = {id(one.passage): (at, one.score) for at, one in enumerate(wholes, 1)}
    shared = BM25([one.body for one in windows if question])
    own = grouped(windows, lambda one: id(one.passage))
    best = {key: max(one.score for one in some) for key, some in own.items()}

    def worth(one: Excerpt) -> float:
        if only_links(one):
            return 0.0
        place, score = passages[id(one.passage)]
        scaled = 1 + OF_PASSAGE * (score / (best[id(one.passage)] or 1.0) - 1)
        mixed = one.score * scaled + prior / 2 / place if prior else one.score
        return mixed + shared(question, one.body) if question else mixed

    return worth


def falling(order: Sequence[Excerpt]) -> list[Excerpt]:
    """Give excerpts, best first, scores in this order.

    What is known beside the scores speaks for an excerpt that it puts before a better-scored one:
    it gets the score of that, or the next number above. So what `min_score` keeps by the scorer's
    own numbers, it keeps by these. Links, which come last, get no more than the worst of the rest.
    """
    texts = len(order) - sum(map(only_links, order))
    worst = min((one.score for one in order[:texts]), default=1.0)
    made, behind = list[Excerpt](), 0.0
    for at, one in reversed(list(enumerate(order))):
        score = one.score if at < texts else min(one.score, worst)
        behind = score if score >= behind else min(1.0, nextafter(behind, 1.0))
        made.append(one if behind == one.score else remade(one, score=behind))
    return made[::-1]
