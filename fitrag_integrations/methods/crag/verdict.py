"""Decide on the action from the whole list instead of from its best grade.

The paper looks at the best grade alone (CRAG, section 4.3). Here a logistic regression looks at the
best three and the mean of the grades, of both labels of a scorer and of a reader's trust in its
answers, and at how far these answers agree. Which of them it uses is in its weights; models that no
weight needs are not asked.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Self

from fitrag_integrations.core.checks import Checked, Number, Share, check_is, check_text
from fitrag_integrations.core.files import write_whole
from fitrag_integrations.core.record import Record, check_mapping
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.defaults import EMBEDDED_READER, EMBEDDED_SCORER
from fitrag_integrations.ports import AnswerLike, Pair, model_name, port_of, scorer_of
from fitrag_integrations.types import Action, BiLabelScore
from fitrag_integrations.values.score import logit
from fitrag_integrations.values.thresholds import refuse_other

EMBEDDED = "embedded"
FILE = "model.json"
BEST = ("best", "second", "third", "mean")
LABELS = ("has_answer", "llm_prefer")
GRADE, TRUST = "grade", "trust"
AGREEMENT = ("support", "support share", "same answer", "alike answer")
LENGTH = "length"
ROLES = {
    "scorer": tuple(f"{label} {which}" for label in LABELS for which in BEST),
    "evaluator": tuple(f"{GRADE} {which}" for which in BEST),
    "reader": (*(f"{TRUST} {which}" for which in BEST), *AGREEMENT),
}
"""The numbers of a list by who is asked for them; `length`, its logarithm, needs nobody."""
INPUTS = (*(name for names in ROLES.values() for name in names), LENGTH)
_WORD = re.compile(r"[^\W_]+")
_SURE = 1e-6  # how near to 0 and 1 a probability may be for its logit


@dataclass(frozen=True)
class ListVerdict(Record, Checked):
    """Model of the action for a whole list: one weight per feature, and two thresholds.

    The probability that some passage contains the answer is the logistic of `bias` and the weighted
    features.

    Args:
        weights: Weight of each feature, by a name of `INPUTS`.
        bias: Logit without features.
        upper: Probability from which a list is correct.
        lower: Probability below which it is incorrect.
        models: Names of the scorer, evaluator and reader it was fitted on, of those that are used.
    """

    weights: Mapping[str, float]
    bias: Number
    upper: Share
    lower: Share
    models: Mapping[str, str]

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        weights = check_mapping("weights", self.weights)
        for name, weight in weights.items():
            refuse_if(name not in INPUTS, "weights", name, ", ".join(INPUTS))
            check_is(f"weights[{name!r}]", weight, float)
        for role, model in check_mapping("models", self.models).items():
            check_text(f"models[{role!r}]", model)
        allowed = f"a number of at most upper={self.upper:g}"
        refuse_if(self.lower > self.upper, "lower", self.lower, allowed)

    @classmethod
    def read(cls, folder: str | Path) -> Self:
        """Read what `fitrag calibrate verdict` wrote into a `folder`; "embedded" is what ships."""
        home: Any = Path(folder)
        if folder == EMBEDDED:
            home = resources.files("fitrag_integrations") / "embedded" / "verdict"
        try:
            return cls.from_dict(json.loads((home / FILE).read_text("utf-8")))
        except (OSError, ValueError) as error:
            allowed = f"{EMBEDDED!r}, or a folder of `fitrag calibrate verdict` with its {FILE}"
            allowed = f"{allowed}: {error}"
            raise InputError.of("verdict", given=str(folder), allowed=allowed) from error

    def save(self, folder: str | Path) -> None:
        """Write it into a folder, which is made."""
        values = {"format": 1, "kind": "verdict", **self.to_dict()}
        write_whole(Path(folder) / FILE, json.dumps(values, indent=2) + "\n")

    @property
    def used(self) -> tuple[str, ...]:
        """The names of the features with a weight; those of weight 0 are not computed."""
        return tuple(name for name, weight in self.weights.items() if weight)

    def asks(self, role: str) -> bool:
        """Check whether some weight is on a number of a `role`: scorer, evaluator or reader."""
        return any(name in ROLES[role] for name in self.used)

    def chance(self, numbers: Mapping[str, float]) -> float:
        """Return the probability that some passage contains the answer, from its `numbers`."""
        total = self.bias + sum(self.weights[name] * numbers[name] for name in self.used)
        return 1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, total))))

    def action(self, chance: float) -> Action:
        """Decide from the chance."""
        if chance < self.lower:
            return Action.INCORRECT
        return Action.CORRECT if chance >= self.upper else Action.AMBIGUOUS


@dataclass(frozen=True)
class ListJudge(Checked):
    """Judge of a whole list: collects the features that a verdict needs beside the grades.

    Args:
        verdict: The model of the action.
        scorer: Scorer of the labels; None is the embedded one.
        reader: Reader of the answers; None is the embedded one.
        allow_other_model: Accept models of other names than the verdict was fitted on.

    Raises:
        ThresholdMismatchError: If a model has another name.
    """

    verdict: ListVerdict
    _: KW_ONLY
    scorer: object = None
    reader: object = None
    allow_other_model: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_is("verdict", self.verdict, ListVerdict)

    def __call__(
        self, pairs: Sequence[Pair], grades: Sequence[float], evaluator: object
    ) -> Flow[tuple[Action, dict[str, object]]]:
        """Return the flow that ends in the action, and what it follows from.

        `grades` are the `evaluator`'s of the `pairs`, in their order.
        """
        if not pairs:
            return Action.INCORRECT, {"chance": 0.0, "inputs": {}}
        asked = {
            "scorer": EMBEDDED_SCORER if self.scorer is None else scorer_of(self.scorer),
            "evaluator": evaluator,
            "reader": EMBEDDED_READER if self.reader is None else self.reader,
        }
        scores: Sequence[BiLabelScore] = ()
        answers: Sequence[AnswerLike] = ()
        if self.verdict.asks("scorer"):
            scorer = port_of("score", asked["scorer"], "score", argument="scorer")
            scores = yield from scorer.ask(pairs)
        if self.verdict.asks("reader"):
            reader = port_of("read", asked["reader"], "read", argument="reader")
            answers = yield from reader.ask(pairs)
        for role, fitted in self.verdict.models.items():
            if not self.allow_other_model and self.verdict.asks(role):
                name = model_name(asked[role])
                verb = "calibrate verdict"
                refuse_other("the list's verdict was", fitted, name, verb, f"the {role} ")
        numbers = list_numbers(scores, grades, answers)
        chance = self.verdict.chance(numbers)
        limits = {"upper": self.verdict.upper, "lower": self.verdict.lower}
        used = {name: numbers[name] for name in self.verdict.used}
        return self.verdict.action(chance), {"chance": chance, **limits, "inputs": used}


def judge_of(given: object, *, allow_other_model: bool = False) -> ListJudge:
    """Read a verdict as it is given: "embedded", a folder, a `ListVerdict` or a `ListJudge`."""
    if isinstance(given, ListJudge):
        return given
    found = ListVerdict.read(given) if isinstance(given, str | Path) else given
    allowed = f"{EMBEDDED!r}, a folder, a ListVerdict or a ListJudge"
    verdict = check_is("verdict", found, ListVerdict, allowed)
    return ListJudge(verdict, allow_other_model=allow_other_model)


def list_numbers(
    scores: Sequence[BiLabelScore],
    grades: Sequence[float],
    answers: Sequence[AnswerLike],
) -> dict[str, float]:
    """Measure a list of at least one passage, by names of `INPUTS`; what is empty is left out.

    Probabilities and grades count as logits, cut off at 13.8. A scorer of one label counts for
    both.
    """
    columns: dict[str, list[float]] = {}
    if scores:
        columns["has_answer"] = [logit(one.has_answer, _SURE) for one in scores]
        second = [one.has_answer if one.llm_prefer is None else one.llm_prefer for one in scores]
        columns["llm_prefer"] = [logit(label, _SURE) for label in second]
    if grades:
        columns[GRADE] = [logit((grade + 1) / 2, _SURE) for grade in grades]
    if answers:
        columns[TRUST] = [logit(answer.score, _SURE) for answer in answers]
    numbers = {LENGTH: math.log(max(map(len, columns.values())))}
    for name, column in columns.items():
        ranked = sorted(column, reverse=True)
        three = (ranked + ranked[-1:] * 2)[:3]
        values = (*three, sum(column) / len(column))
        numbers |= {f"{name} {which}": v for which, v in zip(BEST, values, strict=True)}
    return numbers | (_agreement(answers) if answers else {})


def _agreement(answers: Sequence[AnswerLike]) -> dict[str, float]:
    """Measure how far answers agree with the one that has most trust behind it."""
    names = [" ".join(["", *_WORD.findall(answer.text.casefold()), ""]) for answer in answers]
    support = dict.fromkeys(names, 0.0)
    for name, answer in zip(names, answers, strict=True):
        support[name] += answer.score
    said, most = max(support.items(), key=lambda item: item[1])
    values = (
        most,
        most / max(sum(support.values()), 1e-9),
        names.count(said) / len(names),
        sum(said in name or name in said for name in names) / len(names),
    )
    return dict(zip(AGREEMENT, values, strict=True))
