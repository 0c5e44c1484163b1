"""What a model with reflection tokens says of an answer, in numbers (Self-RAG, section 3.3).

Pure functions. A kind of token the model did not write counts nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

from fitrag_integrations.core.checks import check_is, check_number, check_text
from fitrag_integrations.core.record import Record, check_mapping
from fitrag_integrations.flow import Port
from fitrag_integrations.ports import port_of
from fitrag_integrations.types import Passage

Item: TypeAlias = tuple[str, Passage | None]  # a question, and the passage to answer it from
SUPPORT = {
    "[Fully supported]": 1.0,
    "[Partially supported]": 0.5,
    "[No support / Contradictory]": 0,
}
UTILITY = {f"[Utility:{n}]": (n - 3) / 2 for n in range(1, 6)}  # from -1 to 1
_MARKS = re.compile(
    r"\[(?:No Retrieval|Retrieval|Continue to Use Evidence|Relevant|Irrelevant|Fully supported"
    r"|Partially supported|No support / Contradictory|Utility:[1-5])\]|</?paragraph>|</s>"
)


@dataclass(frozen=True, slots=True)
class Reflection(Record):
    """An answer, and the probability of each reflection token where one was written.

    `tokens` maps a token as the model spells it, such as "[Retrieval]" or "[Utility:5]", to its
    probability in [0, 1]; kinds that were not written are left out. `logprob` is the mean
    log-probability of the tokens of the text, None where it is not known.
    """

    text: str = ""
    tokens: Mapping[str, float] = field(default_factory=dict, hash=False)
    logprob: float | None = None

    def __post_init__(self) -> None:
        check_text("Reflection.text", self.text)
        given = check_mapping("Reflection.tokens", self.tokens)
        tokens = {
            check_text("Reflection.tokens", name): check_number(
                f"Reflection.tokens[{name!r}]", chance, low=0.0, high=1.0
            )
            for name, chance in given.items()
        }
        object.__setattr__(self, "tokens", tokens)
        if self.logprob is not None:
            number = check_number("Reflection.logprob", self.logprob, high=0.0)
            object.__setattr__(self, "logprob", number)

    @property
    def clean(self) -> str:
        """The text without reflection tokens."""
        return " ".join(_MARKS.sub(" ", self.text).split())

    @property
    def likelihood(self) -> float:
        """Return e to the mean log-probability; 0 where it is not known."""
        return 0.0 if self.logprob is None else math.exp(self.logprob)


@runtime_checkable
class Reflector(Protocol):
    """Answer each question from its passage, or without one, with reflection tokens.

    An async twin `areflect` is optional.
    """

    def reflect(self, items: Sequence[Item], /) -> Sequence[Reflection]:
        """Return one reflection per item, a question and its passage or None, in order."""
        ...


def check_reflection(answer: object) -> Reflection:
    """Require a reflection."""
    return check_is("reflection", answer, Reflection)


def reflect_port(model: object) -> Port[Item, Reflection]:
    """Build the port of a reflector."""
    return port_of("reflect", model, "reflect", argument="model")


def retrieval_share(made: Reflection) -> float | None:
    """Return [Retrieval]'s probability over that of it and [No Retrieval]; None without either."""
    yes = made.tokens.get("[Retrieval]", 0.0)
    both = yes + made.tokens.get("[No Retrieval]", 0.0)
    return yes / both if both else None


def relevance(made: Reflection) -> float:
    """Return the share of [Relevant] against [Irrelevant], in [0, 1]."""
    return _weighted(made, {"[Relevant]": 1.0, "[Irrelevant]": 0.0})


def support(made: Reflection) -> float:
    """Return how well the passage supports the answer, in [0, 1]; partial support counts half."""
    return _weighted(made, SUPPORT)


def utility(made: Reflection) -> float:
    """Return how useful the answer is, the mean of five grades from -1 to 1."""
    return _weighted(made, UTILITY)


def _weighted(made: Reflection, worth: Mapping[str, float]) -> float:
    chances = {name: made.tokens.get(name, 0.0) for name in worth}
    total = math.fsum(chances.values())
    return math.fsum(worth[name] * chances[name] for name in worth) / total if total else 0.0
