"""Fill a token budget with excerpts, best first; a larger budget never keeps less.

`max_tokens` bounds every form in which excerpts are returned: the text that a prompt shows, with
numbers, titles and ellipses; the numbered lines of documents made of them, one for each source; and
their texts one by one. A fraction limits only the first of these.
"""

from __future__ import annotations

from bisect import bisect, bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import accumulate, pairwise
from statistics import median
from typing import TypeAlias

from fitrag_integrations.flow import Flow
from fitrag_integrations.text.layout import under_heading, units_of
from fitrag_integrations.text.sentences import (
    SentenceSplitter,
    split_clauses,
    split_sentences,
    word_ends,
)
from fitrag_integrations.text.spans import merge_spans
from fitrag_integrations.text.tokens import (
    CountTokens,
    TokenCounter,
    approximate_tokens,
    counted,
    counter_for,
)
from fitrag_integrations.types import Excerpt, Passage
from fitrag_integrations.values.excerpt import place
from fitrag_integrations.values.prompt import numbered, render_excerpts

Scored: TypeAlias = Callable[[Sequence[Excerpt]], Flow[list[Excerpt]]]
NAMED = 3
"""Skipped excerpts that a note names."""
LONG, LEAST = 3, 10
"""An excerpt of more than LONG times the median of tokens waits for shorter ones; LEAST is the
fewest tokens that an excerpt counts for."""


class Counting:
    """Mixin of methods with the option `count_tokens`."""

    count_tokens: CountTokens

    @property
    def counter(self) -> TokenCounter:
        """Return the counter in use."""
        return counter_for(self.count_tokens)

    def cost(self, excerpts: Sequence[Excerpt]) -> int:
        """Count the tokens of ``excerpts`` as a prompt shows them."""
        return self.counter(render_excerpts(excerpts))

    def tokens_in(self, passages: Sequence[Passage]) -> int:
        """Count the tokens of all retrieved ``passages``, one numbered line each."""
        return self.counter(render_excerpts(list(map(Excerpt.whole, passages)), merged=False))


@dataclass(frozen=True)
class BudgetFit:
    """Excerpts that fit a budget.

    Args:
        kept: Excerpts that fit, best first.
        notes: Notes on what was shortened or left out.
        left: Excerpts left out, best first.
    """

    kept: list[Excerpt]
    notes: tuple[str, ...] = ()
    left: tuple[Excerpt, ...] = ()


@dataclass(frozen=True)
class Budget:
    """Token limit of excerpts in a prompt.

    Args:
        max_tokens: Maximum tokens of the excerpts in every form; None is no limit.
        share: Second limit, in tokens of the prompt, which is exceeded if the best sentence alone
            costs more; None for no limit.
        limit: Name of the limit in notes, e.g. "max_tokens=100".
        count: Token counter; None estimates.
        split: Sentence splitter for excerpts that are shortened; None is the built-in one.
        arrange: Puts excerpts into the order in which a prompt shows them; None is best first.
        value: Tells what an excerpt is worth, 0 or more; None where only the order is known.
    """

    max_tokens: int | None = None
    share: int | None = None
    limit: str = ""
    count: TokenCounter | None = None
    split: SentenceSplitter | None = None
    arrange: Callable[[Sequence[Excerpt]], Sequence[Excerpt]] = list
    value: Callable[[Excerpt], float] | None = None
    _known: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def cost(self, excerpts: Sequence[Excerpt]) -> int:
        """Count the tokens of excerpts as a prompt shows them."""
        return self._count(render_excerpts(self.arrange(excerpts)))

    def returned(self, excerpts: Sequence[Excerpt]) -> int:
        """Count the tokens of excerpts in the longest form in which they are returned."""
        shown = self.arrange(excerpts)
        forms = (render_excerpts(shown), numbered(shown, apart=True) if shown else "")
        return max(sum(self._count(one.text) for one in shown), *map(self._count, forms))

    def _count(self, text: str) -> int:
        if text not in self._known:
            self._known[text] = counted(text, self.count or approximate_tokens)
        return self._known[text]

    def fits(self, excerpts: Sequence[Excerpt]) -> bool:
        """Check whether excerpts are within both limits."""
        if self.share and self.cost(excerpts) > self.share:
            return False
        return not self.max_tokens or self.returned(excerpts) <= self.max_tokens

    def fitted(self, excerpts: Sequence[Excerpt], ask: Scored | None = None) -> Flow[BudgetFit]:
        """Keep the longest prefix that fits, in an order that does not depend on the budget.

        So an excerpt kept at one budget is kept at every larger one. Excerpts are not shortened to
        use up remaining tokens. Only if the first excerpt alone does not fit is it shortened: to
        whole sentences if they fit, else without its lead, to clauses, and to words.

        Args:
            excerpts: Candidates, best first.
            ask: Scores the parts of an excerpt that is shortened; None keeps the first of them.

        Returns:
            The flow that ends in the excerpts that fit, best first, and those that do not.
        """
        order, notes = self._order(excerpts), list[str]()
        ranks = sorted(order[: self._longest([excerpts[rank] for rank in order])])
        kept = [excerpts[rank] for rank in ranks]
        if order and not kept:
            part = yield from self._narrowed(excerpts[order[0]], ask)
            if part is not None:
                kept, ranks = [part], order[:1]
                fits = f"the best excerpt was narrowed to fit {self.limit}"
                over = f"the best sentence alone costs more than {self.limit}"
                notes.append(fits if self.fits(kept) else over)
        if left := sorted(set(order) - set(ranks)):
            note = f"{len(left)} of {len(excerpts)} excerpts left out by {self.limit}"
            skipped = [excerpts[rank] for rank in left if ranks and rank < ranks[-1]]
            named = [f"{place(one)}, {self.returned([one])} tokens" for one in skipped[:NAMED]]
            if more := len(skipped) - len(named):
                named.append(f"{more} more")
            notes.append(f"{note}, skipped for shorter ones: {'; '.join(named)}" if named else note)
        if order and not kept:
            notes.append(f"nothing to refer to: not one word fits {self.limit}")
        return BudgetFit(kept, tuple(notes), tuple(excerpts[rank] for rank in left))

    def _order(self, excerpts: Sequence[Excerpt]) -> list[int]:
        """Return the order in which excerpts are bought, the same for every budget.

        With `value`, that which has most of it for the root of what it costs comes next. One beside
        another of its passage that is bought already costs its own text alone, and what closes a
        gap saves the number, the title and the lead of what follows it; so excerpts grow together.
        Without, the best comes first, but one that is LONG beside the others waits until those
        before it cost as much together.
        """
        sizes = [self._count(one.body if self.value else one.text) for one in excerpts]
        if self.value is None:
            usual = max(LONG * median(sizes), sizes[0]) if sizes else 0
            spent = list(accumulate(size if size <= usual else 0 for size in sizes))
            turns = [
                (max(rank, bisect_left(spent, size)), True, rank) if size > usual else (rank, False)
                for rank, size in enumerate(sizes)
            ]
            return sorted(range(len(sizes)), key=turns.__getitem__)
        opening = [
            self._count(f"1. {one.passage.title}: {replace(one, end=one.start).text}")
            for one in excerpts
        ]
        places = sorted(
            range(len(sizes)), key=lambda n: (id(excerpts[n].passage), excerpts[n].start)
        )
        beside = [
            (a, b)
            for a, b in pairwise(places)
            if (one := excerpts[a]).passage is (next_ := excerpts[b]).passage
            and not one.passage.text[one.end : next_.start].strip()
        ]
        after, before = dict(beside), {b: a for a, b in beside}
        worth = list(map(self.value, excerpts))
        bought: dict[int, None] = {}

        def due(rank: int) -> tuple[float, int]:
            cost = sizes[rank] + (0 if before.get(rank) in bought else opening[rank])
            cost -= opening[after[rank]] if after.get(rank) in bought else 0
            return -worth[rank] / max(LEAST, cost) ** 0.5, rank

        waiting = sorted(map(due, range(len(sizes))))
        while waiting:
            _, rank = heappop(waiting)
            if rank not in bought:
                bought[rank] = None
                for near in {before.get(rank, rank), after.get(rank, rank)} - {rank}:
                    heappush(waiting, due(near))
        return list(bought)

    def _longest(self, ordered: Sequence[Excerpt]) -> int:
        """Return how many of the first excerpts fit.

        The search looks at the same numbers of them at every budget, so that a larger one never
        finds fewer, also where one more excerpt lowers the count because a gap closes.
        """
        if self.fits(ordered):
            return len(ordered)
        low, high = 0, 1
        while high < len(ordered) and self.fits(ordered[:high]):
            low, high = high, 2 * high
        rest = range(low + 1, min(high, len(ordered)))
        return low + bisect(rest, False, key=lambda length: not self.fits(ordered[:length]))

    def _narrowed(self, excerpt: Excerpt, ask: Scored | None) -> Flow[Excerpt | None]:
        """Shorten an excerpt step by step, each step a part of the one before.

        Of the outer sentences the worse goes, until the rest fits; then the lead and the headings;
        then clauses and words. A share gives way to the best sentence.
        """
        for spans in (self.split or split_sentences, split_clauses):
            base = excerpt.start
            parts = [
                replace(
                    excerpt,
                    start=base + start,
                    end=base + end,
                    lead=(*excerpt.lead, *((base + a, base + b) for a, b in lead or ())),
                )
                for (start, end), lead in units_of(excerpt.body, spans(excerpt.body))
            ]
            if len(parts) > 1:
                if ask is not None:
                    parts = yield from ask(parts)
                while len(parts) > 1 and not self.fits([_joined(parts)]):
                    parts = parts[1:] if parts[0].score < parts[-1].score else parts[:-1]
            excerpt = _joined(parts) if parts else excerpt
            bare = replace(excerpt, lead=(), start=excerpt.start + under_heading(excerpt.body))
            for part in (excerpt, bare):
                if self.max_tokens is None or self.returned([part]) <= self.max_tokens:
                    return part
            excerpt = bare
        return self._first_words(excerpt)

    def _first_words(self, excerpt: Excerpt) -> Excerpt | None:
        for signs in (False, True):
            ends = word_ends(excerpt.body, signs=signs)
            begun = [replace(excerpt, end=excerpt.start + end) for end in ends]
            most = self.max_tokens or 0
            if fitting := bisect(begun, most, key=lambda part: self.returned([part])):
                return begun[fitting - 1]
        return None


def _joined(parts: Sequence[Excerpt]) -> Excerpt:
    best, start = max(parts, key=lambda part: part.score), parts[0].start
    leads = [(a, min(b, start)) for part in parts for a, b in part.lead if a < start]
    lead = tuple(merge_spans(best.passage.text, leads))
    return replace(best, start=start, end=parts[-1].end, lead=lead)
