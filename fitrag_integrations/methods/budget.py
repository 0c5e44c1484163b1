"""Fill a token budget with excerpts, best first: what does not fit is skipped, the best shortened.

`max_tokens` bounds every form in which excerpts are returned: the text that a prompt shows, with
numbers, titles and ellipses; the numbered lines of documents made of them; and their texts one by
one. A share bounds the first of these.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from fitrag_integrations.core.record import remade
from fitrag_integrations.flow import Flow
from fitrag_integrations.text.layout import under_heading, units_of
from fitrag_integrations.text.sentences import (
    SentenceSplitter,
    split_clauses,
    split_sentences,
    word_ends,
)
from fitrag_integrations.text.tokens import (
    CountTokens,
    TokenCounter,
    approximate_tokens,
    counted,
    counter_for,
)
from fitrag_integrations.types import Excerpt, Passage
from fitrag_integrations.values.excerpt import place
from fitrag_integrations.values.passage import is_web, titled
from fitrag_integrations.values.prompt import render_excerpts
from fitrag_integrations.values.windows import fit

Scored: TypeAlias = Callable[[Sequence[Excerpt]], Flow[list[Excerpt]]]
NAMED = 3
"""Skipped excerpts that a note names."""
ROUNDING = 2  # tokens by which a text alone may count more than it adds
TRIES = 8  # texts of as many tokens that did not fit before longer ones are not tried


class Counting:
    """Mixin of methods with the option `count_tokens`."""

    count_tokens: CountTokens

    @property
    def counter(self) -> TokenCounter:
        """The counter in use."""
        return counter_for(self.count_tokens)

    def cost(self, excerpts: Sequence[Excerpt]) -> int:
        """Count the tokens of ``excerpts`` as a prompt shows them."""
        return self.counter(render_excerpts(excerpts))

    def tokens_in(self, passages: Sequence[Passage]) -> int:
        """Count the tokens of all ``passages`` that were retrieved, a numbered line each."""
        return self.counter(render_excerpts(list(map(Excerpt.whole, passages)), merged=False))


@dataclass(frozen=True)
class BudgetFit:
    """Excerpts that fit, what there is to note, and the excerpts left out, best first."""

    kept: list[Excerpt]
    notes: tuple[str, ...] = ()
    left: tuple[Excerpt, ...] = ()


@dataclass(frozen=True)
class Budget:
    """Bound on what excerpts cost in a prompt.

    Args:
        max_tokens: Maximum tokens of the excerpts in every form; None is no limit.
        share: A second maximum, of tokens in a prompt, that gives way to the best sentence where
            that alone costs more; None is no limit.
        limit: Name of the limit in notes, e.g. "max_tokens=100".
        count: Token counter; None estimates.
        split: Sentence splitter for excerpts that are shortened; None is the built-in one.
        arrange: Puts excerpts into the order in which a prompt shows them; None is best first.
    """

    max_tokens: int | None = None
    share: int | None = None
    limit: str = ""
    count: TokenCounter | None = None
    split: SentenceSplitter | None = None
    arrange: Callable[[Sequence[Excerpt]], Sequence[Excerpt]] = list
    _known: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def cost(self, excerpts: Sequence[Excerpt]) -> int:
        """Count the tokens of excerpts as a prompt shows them."""
        return self._count(render_excerpts(self.arrange(excerpts)))

    def returned(self, excerpts: Sequence[Excerpt]) -> int:
        """Count the tokens of excerpts in the longest form in which they are returned."""
        shown = self.arrange(excerpts)
        documents = [
            one if (named := titled(one.passage)) is one.passage else remade(one, passage=named)
            for one in shown
        ]
        forms = (render_excerpts(shown), render_excerpts(documents, merged=False))
        return max(sum(self._count(one.text) for one in shown), *map(self._count, forms))

    def _count(self, text: str) -> int:
        if text not in self._known:
            self._known[text] = counted(text, self.count or approximate_tokens)
        return self._known[text]

    def load(self, excerpts: Sequence[Excerpt]) -> float:
        """Return what excerpts cost as a fraction of the tighter bound; 0 where there is none."""
        of_share = self.cost(excerpts) / self.share if self.share else 0.0
        return max(of_share, self.returned(excerpts) / self.max_tokens if self.max_tokens else 0.0)

    def fits(self, excerpts: Sequence[Excerpt]) -> bool:
        """Check whether excerpts cost no more than either bound."""
        return self.load(excerpts) <= 1

    def fitted(self, excerpts: Sequence[Excerpt], ask: Scored | None = None) -> Flow[BudgetFit]:
        """Keep the longest prefix that fits, then fill the rest with what fits behind it.

        The first excerpt behind the prefix loses its lead and headings where it fits so, and is
        shortened where it is too long even alone.

        Args:
            excerpts: Candidates, best first.
            ask: Scores the sentences and clauses of an excerpt that is shortened; without it the
                beginning is kept.
        """
        kept = fit(excerpts, max_tokens=1, cost=self.load)
        rest, notes = list(excerpts[len(kept) :]), list[str]()
        if rest:
            part = self._bare(rest[0], kept)
            if part is None and not self.fits(rest[:1]):
                part = yield from self._narrowed(rest[0], kept, ask)
            if part is not None:
                del rest[0]
                kept.append(part)
                which = "the best excerpt" if len(kept) == 1 else f"excerpt {len(kept)}"
                if self.fits(kept):
                    notes.append(f"{which} was narrowed to fit {self.limit}")
                else:
                    notes.append(f"the best sentence alone costs more than {self.limit}")
        added, left = self._filling(kept, rest)
        kept += [rest[at] for at in added]
        if left:
            note = f"{len(left)} of {len(excerpts)} excerpts left out by {self.limit}"
            skipped = [rest[at] for at in left if added and at < max(added)]
            named = [f"{place(one)}, {self.returned([one])} tokens" for one in skipped[:NAMED]]
            if more := len(skipped) - len(named):
                named.append(f"{more} more")
            notes.append(f"{note}, skipped for shorter ones: {'; '.join(named)}" if named else note)
        if excerpts and not kept:
            notes.append(f"nothing to refer to: not one word fits {self.limit}")
        return BudgetFit(kept, tuple(notes), tuple(rest[at] for at in left))

    def _filling(
        self, kept: Sequence[Excerpt], rest: Sequence[Excerpt]
    ) -> tuple[list[int], list[int]]:
        """Return the places in ``rest`` of what still fits behind ``kept``, and of what does not.

        Most are too long by themselves, or as long as some that did not fit, and are not rendered
        among the others.
        """
        shown, added, left = list(kept), list[int](), list[int]()
        room, failed = self._room(shown), Counter[int]()
        for at, one in enumerate(rest):
            # in a merged text only its own characters are new; the rule of the web stands once
            line = self.max_tokens and not is_web(one.passage)
            text = render_excerpts([one]) if line else one.body
            overlaps = not line and any(
                each.passage is one.passage and each.start < one.end and one.start < each.end
                for each in shown
            )
            tokens = 0 if overlaps else self._count(text)
            if tokens <= room and self.fits([*shown, one]):
                shown.append(one)
                added.append(at)
                room = min(room, self._room(shown))
                continue
            left.append(at)
            if 0 < tokens <= room:
                failed[tokens] += 1
                room = tokens - 1 if failed[tokens] == TRIES else room
        return added, left

    def _room(self, shown: Sequence[Excerpt]) -> int:
        """Return the tokens that are left, a few more: counts of parts do not quite add up."""
        if self.max_tokens:
            return self.max_tokens - self.returned(shown) + ROUNDING
        return (self.share or 0) - self.cost(shown) + ROUNDING

    def _bare(self, excerpt: Excerpt, before: Sequence[Excerpt]) -> Excerpt | None:
        """Return an excerpt without what it is shown under, if it has that and fits without."""
        bare = replace(excerpt, lead=(), start=excerpt.start + under_heading(excerpt.body))
        return bare if bare != excerpt and self.fits([*before, bare]) else None

    def _narrowed(
        self, excerpt: Excerpt, before: Sequence[Excerpt], ask: Scored | None
    ) -> Flow[Excerpt | None]:
        """Shorten an excerpt to whole sentences; the first of all, if need be, to clauses or words.

        Of the outer parts the worse goes, until the rest fits.
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
                while len(parts) > 1 and not self.fits([*before, _joined(parts)]):
                    parts = parts[1:] if parts[0].score < parts[-1].score else parts[:-1]
                excerpt = _joined(parts)
            if self.fits([*before, excerpt]):
                return excerpt
            if (bare := self._bare(excerpt, before)) is not None:
                return bare
            if before:
                return None  # a fragment beside better ones is not worth its tokens
            if self.max_tokens is None or self.returned([excerpt]) <= self.max_tokens:
                return excerpt
        excerpt = replace(excerpt, start=excerpt.start + under_heading(excerpt.body))
        return self._first_words(excerpt) or self._first_words(replace(excerpt, lead=()))

    def _first_words(self, excerpt: Excerpt) -> Excerpt | None:
        for signs in (False, True):
            ends = word_ends(excerpt.body, signs=signs)
            begun = [replace(excerpt, end=excerpt.start + end) for end in ends]
            most = self.max_tokens or 0
            if fitting := bisect(begun, most, key=lambda part: self.returned([part])):
                return begun[fitting - 1]
        return None


def _joined(parts: Sequence[Excerpt]) -> Excerpt:
    best = max(parts, key=lambda part: part.score)
    return replace(best, start=parts[0].start, end=parts[-1].end, lead=parts[0].lead)
