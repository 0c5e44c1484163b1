"""Curves of answers kept over tokens, by hand and against a rival computed naively."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitrag_integrations.evaluation.compression import Compressed, tokens_of
from fitrag_integrations.evaluation.table import Draws
from fitrag_integrations.methods.prompts import render_excerpts
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.training.fitted.savings import (
    FEW,
    LEAST_SAVED,
    NO,
    OPEN,
    PERHAPS,
    WORTH,
    Curve,
    Savings,
    budgets_for,
    first_passages,
    verdict,
)
from fitrag_integrations.types import Excerpt, Passage


def curve(kept, tokens):
    return Curve(np.array(kept, float), np.array(tokens, float))


def savings(ours, plain, resamples=300):
    last = np.ones(len(ours.kept)), ours.tokens[:, -1]
    return Savings(ours, plain, *last, Draws(resamples))


def steps(costs, grid):
    """Make the curve of questions whose answer is kept from `costs` tokens on."""
    costs = np.asarray(costs, float)[:, None]
    return Curve((grid >= costs).astype(float), np.broadcast_to(grid, (len(costs), len(grid))))


GRID = np.array([25.0, 50, 100, 200, 400, 800, 1600])


@pytest.mark.parametrize(
    ("level", "tokens"), [(0.0, 0.0), (0.25, 75.0), (0.5, 100.0), (0.75, 150.0), (1.0, 200.0)]
)
def test_tokens_are_read_between_two_budgets(level, tokens):
    both = curve([[0, 1, 1], [0, 0, 1]], [[50, 100, 200]] * 2)
    assert both.needed(level) == tokens


def test_an_answer_that_more_tokens_lose_is_not_kept():
    wavy = curve([[1, 0, 1]], [[10, 20, 40]])
    assert wavy.needed(1.0) == 40 and wavy.kept_by(10) == 0 and wavy.kept_by(30) == 0.5


def test_what_one_way_never_reaches_is_compared_lower():
    grid = [[100.0, 200.0]] * 2
    ours, plain = curve([[1, 1], [0, 0]], grid), curve([[0, 1], [0, 1]], grid)
    assert savings(ours, plain).at().level == 0.5


PASSAGES = [
    Passage(str(n), f"Sentence {n} has {n} words in it, more or less. " * (n + 2), f"Title {n}")
    for n in range(5)
]


@given(st.integers(0, 800), st.permutations(PASSAGES))
def test_first_passages_fill_their_budget_and_never_exceed_it(budget, passages):
    row = Compressed("Who?", ("x",), tuple(passages), ())
    kept = first_passages(row, budget)
    assert tokens_of(kept) <= budget
    assert [each.passage for each in kept] == list(passages[: len(kept)])
    assert all(each.end == len(each.passage.text) for each in kept[:-1])
    if kept != row.whole and budget > 40:
        assert tokens_of(kept) > budget - 30  # a header may be what no longer fits


def naive_kept(row, budget):
    """Cut the prompt of the first passages, word by word, and search the answer in it."""
    shown, best = [], ""
    for passage in row.passages:
        words = re.findall(r"\S+\s*", passage.text)
        for end in range(1, len(words) + 1):
            text = "".join(words[:end]).rstrip()
            prompt = render_excerpts([*shown, Excerpt(passage, 0, len(text))])
            if approximate_tokens(prompt) > budget:
                return row.answers[0] in best
            best = prompt
        shown.append(Excerpt.whole(passage))
    return row.answers[0] in best


def test_a_rival_built_by_hand_agrees_within_a_point():
    rng = np.random.default_rng(3)
    rows = []
    for n in range(120):
        words = [f"w{i}" for i in rng.integers(0, 99, 80)]
        words[rng.integers(0, 80)] = f"Answer{n}"
        cut = [0, 20, 40, 60, 80]
        texts = [" ".join(words[a:b]) for a, b in zip(cut, cut[1:], strict=False)]
        passages = tuple(Passage(f"{n}-{i}", text, "T") for i, text in enumerate(texts))
        rows.append(Compressed("Who?", (f"Answer{n}",), passages, ()))
    for budget in budgets_for(rows, (30, 70, 110, 150)):
        ours = np.mean([row.holds(first_passages(row, budget)) for row in rows])
        assert ours == pytest.approx(np.mean([naive_kept(row, budget) for row in rows]), abs=0.01)


def test_the_verdict_follows_the_interval():
    rng = np.random.default_rng(0)
    costs = rng.uniform(100, 900, 60)
    cases = [
        (steps(costs / 4, GRID), WORTH),
        (steps(costs, GRID), NO),
        (steps(costs * 1.5, GRID), NO),
        (steps(costs * rng.uniform(0.1, 1.1, 60), GRID), OPEN),
    ]
    for ours, said in cases:
        both = savings(ours, steps(costs, GRID))
        found = both.at()
        assert found.bounds[0] <= found.saved <= found.bounds[1]
        assert verdict(both, found, sure_questions=True) == said
        if said == WORTH:
            assert verdict(both, found, sure_questions=False) == PERHAPS
    few = savings(steps(costs[:19] / 4, GRID), steps(costs[:19], GRID))
    assert verdict(few, few.at(), sure_questions=True) == FEW


def test_chance_alone_is_rarely_worth_it():
    """Both ways keep an answer from a cost of one distribution, less what is just not worth it."""
    rng, called = np.random.default_rng(1), 0
    for _ in range(80):
        ours = steps((1 - LEAST_SAVED) * rng.lognormal(5, 1, 40), GRID)
        both = savings(ours, steps(rng.lognormal(5, 1, 40), GRID), resamples=200)
        called += verdict(both, both.at(), sure_questions=True) == WORTH
    assert called <= 6  # of 80; the interval leaves a fortieth above it


def test_the_plot_shows_what_is_said():
    both = savings(steps([10, 60, 90], GRID), steps([100, 300, 500], GRID))
    saving = both.at()
    plot = both.plot(saving)
    assert list(plot.levels.values()) == [saving.level]
    for curve_, points in zip((both.ours, both.plain), plot.series.values(), strict=True):
        assert points == [[t, k] for t, k in zip(*(c[1:] for c in curve_.at()), strict=True)]
    (default,) = plot.marks.values()
    kept, _, _, _ = both.default()
    assert default == [both.default_tokens.mean(), kept]
