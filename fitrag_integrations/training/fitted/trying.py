"""Run every setting on every question, and record correctness and tokens.

A setting is a method, as a recipe. The answers without passages and the numbers of the gates are
recorded too. A setting behind a gate then needs no further answers, because each question is
answered either with or without retrieval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from fitrag_integrations.errors import PortError, raise_if
from fitrag_integrations.evaluation.answers import is_correct
from fitrag_integrations.evaluation.outcomes import Floats, Places
from fitrag_integrations.evaluation.thresholds.risk import Tried
from fitrag_integrations.methods.compose.composing import method_from
from fitrag_integrations.methods.compose.fitted import NEIGHBOURS
from fitrag_integrations.methods.defaults import EMBEDDED_SCORER
from fitrag_integrations.methods.ik.gates import KNOW
from fitrag_integrations.models import BiLabelScorer
from fitrag_integrations.retrieval import QuestionBank
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.training.fitted.oracle import (
    AT_ONCE,
    P_TRUE,
    Oracle,
    prompt_of,
    surenesses,
)
from fitrag_integrations.training.fitted.questions import Asked, says_it_knows
from fitrag_integrations.training.fitted.savings import (
    Found,
    ScoredOnce,
    SentencesScoredOnce,
    run_over,
)
from fitrag_integrations.types import Context

PLAIN, DEFAULT, BARE = "plain", "fitrag", "without passages"
THRESHOLDS = 15  # of a gate, evenly over the questions
LEAST_SKIPPED = 0.1  # a gate that spares fewer retrievals is not worth a place on the path
MethodRecipe = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Setting:
    """A method as a recipe, with the gate before it and its threshold, if there is one."""

    recipe: MethodRecipe
    gate: str = ""
    threshold: float = 1.0


@dataclass(eq=False)
class Trials:
    """Results: the outcomes of every setting by name, one entry per question.

    `bare` has the outcomes without passages, `p_known` each gate's probability of knowing the
    answer, and `asked` the tokens that a gate spends on a question.
    """

    questions: list[Asked]
    tried: dict[str, Tried]
    bare: Tried
    p_known: dict[str, Floats] = field(default_factory=dict)
    asked: dict[str, float] = field(default_factory=dict)


def recipes(k: int, weight: float, scorer: str | None = None) -> dict[str, MethodRecipe]:
    """Return the settings to try: the first passages, and FIT-RAG with several budgets.

    Args:
        k: Passages to retrieve.
        weight: Weight between the scorer's two labels.
        scorer: Folder of a trained scorer.
    """
    given: MethodRecipe = {"method": "fitrag", "top_n": k, "weight": weight}
    given |= {} if scorer is None else {"scorer": scorer}
    ways: dict[str, MethodRecipe] = {
        DEFAULT: {},
        "fitrag, a quarter": {"max_share": 0.25},
        "fitrag, 150 tokens": {"max_tokens": 150},
        "fitrag, 75 tokens": {"max_tokens": 75},
        "fitrag, windows of 3": {"window": 3, "max_tokens": 300},
    }
    fewer = [n for n in (5, 3, 1) if n < k]
    plain = {PLAIN: {"method": "direct", "k": k}}
    return (
        plain
        | {f"plain, first {n}": {"method": "direct", "k": n} for n in fewer}
        | {name: {**given, **more} for name, more in ways.items()}
    )


def try_all(
    questions: Sequence[Asked], found: Found, ways: Mapping[str, MethodRecipe], oracle: Oracle
) -> Trials:
    """Answer all questions with all settings; drop questions for which any answer failed.

    Args:
        questions: The questions.
        found: Passages by question.
        ways: Recipes by name.
        oracle: Language model.
    """
    trained = ways[DEFAULT].get("scorer")
    scorer = (
        SentencesScoredOnce(EMBEDDED_SCORER)
        if trained is None
        else ScoredOnce(BiLabelScorer.from_pretrained(trained))
    )
    contexts, texts = {}, [one.question for one in questions]
    for name, recipe in ways.items():
        oracle.say(f"trying: {name}")
        fields = recipe | ({"scorer": scorer} if recipe["method"] == "fitrag" else {})
        traces = run_over(method_from(fields.pop("method"), **fields), texts, found, AT_ONCE)
        contexts[name] = [traced.value for traced in traces]
    contexts[BARE] = [Context(text) for text in texts]
    answers = {name: oracle.answers(contexts[name]) for name in (BARE, *ways)}
    kept = [at for at in range(len(texts)) if all(own[at] is not None for own in answers.values())]
    raise_if(
        not kept, PortError, "not one question was answered in all ways: see what the model returns"
    )
    asked = [questions[at] for at in kept]

    def tried(name: str) -> Tried:
        said, shown = [str(answers[name][at]) for at in kept], [contexts[name][at] for at in kept]
        right = [is_correct(text, one.answers) for one, text in zip(asked, said, strict=True)]
        cost = [approximate_tokens(prompt_of(context)) for context in shown]
        return Tried(
            np.array(right, float),
            np.array(cost, float),
            np.fromiter(said, object),
            np.fromiter(shown, object),
        )

    return Trials(asked, {name: tried(name) for name in ways}, tried(BARE))


def ask_bank(table: Trials, bank: QuestionBank, banked: Sequence[int]) -> None:
    """Store for every question how many of its nearest questions in a bank were known.

    Args:
        table: Results, changed in place.
        bank: Bank of questions.
        banked: Questions that are in the bank; their own entry is ignored.
    """
    own = set(banked)
    near = bank.neighbours([one.question for one in table.questions], NEIGHBOURS + 1)
    votes = [n[1:] if at in own else n[:NEIGHBOURS] for at, n in enumerate(near)]
    table.p_known["neighbours"] = np.array([np.mean(each) if each else 0.0 for each in votes])
    table.asked["neighbours"] = 0.0


def ask_model(table: Trials, oracle: Oracle) -> None:
    """Store the model's probability of knowing each answer; a reader has none.

    Args:
        table: Trials, which are changed.
        oracle: Language model or reader.
    """
    if not oracle.writes:
        return
    questions = [one.question for one in table.questions]
    table.p_known["ask"] = np.array(says_it_knows(questions, oracle))
    costs = [approximate_tokens(KNOW.text.format(question=each)) for each in questions]
    table.asked["ask"] = float(np.mean(costs))
    for name, sure in surenesses(questions, oracle).items():
        table.p_known[name] = np.array(sure)
        table.asked[name] = table.asked["ask"] * (2 if name == P_TRUE else 1)


def behind_gates(
    table: Trials, ways: Mapping[str, MethodRecipe], order: Places
) -> tuple[dict[str, Tried], dict[str, Setting]]:
    """Return every setting, alone and behind each gate at each threshold, with its outcomes.

    A threshold that skips retrieval for less than a tenth of the questions is left out. It would be
    tested early, because it loses little, and if it failed, all cheaper settings would fail with
    it.

    Args:
        table: Results of the settings.
        ways: Recipes by name.
        order: Questions on which settings are chosen; thresholds lie evenly over them.
    """
    tried = dict(table.tried)
    settings = {name: Setting(recipe) for name, recipe in ways.items()}
    for gate, known in table.p_known.items():
        cuts = np.unique(
            np.quantile(known[order], np.linspace(0, 1, THRESHOLDS + 1), method="lower")
        )
        for name, one in table.tried.items():
            for cut in cuts[:-1]:
                skipped = known > cut
                if skipped[order].mean() < LEAST_SKIPPED:
                    continue
                both = f"{name}; {gate} > {cut:.4g}"
                columns = [
                    np.where(skipped, getattr(table.bare, each.name), getattr(one, each.name))
                    for each in fields(Tried)
                ]
                columns[1] = columns[1] + table.asked[gate]  # the cost
                tried[both] = Tried(*columns)
                settings[both] = Setting(ways[name], gate, float(cut))
    return tried, settings
