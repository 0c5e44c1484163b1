"""Gates that need no training: by a draft's token probabilities, or by querying the model.

`own_gate` chooses between them where no trained gate is given: a local model is judged by how
likely its greedy draft is, because a small one says Yes to whatever it is asked; any other model by
its word.

`MarginGate` and `EntropyGate` follow TARG (Wang et al., 2025, arXiv:2511.09803), which gates on the
first tokens of a draft; its margin is a link of the logit gap, ours the gap of the two
probabilities, which any service with log-probabilities can return. TARG's variance over several
drafts is left out. `PTrueGate` is P(True) of Kadavath et al. (2022, arXiv:2207.05221) with one
answer and no examples; `AskGate` is the same for a service that returns texts only. The prompts are
in our own words.

All numbers are in [0, 1], higher is surer. None is a probability of being right before its
threshold was fitted.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from operator import attrgetter
from typing import Annotated, Any, ClassVar, cast

from fitrag_integrations.core.checks import (
    Checked,
    Share,
    Size,
    can,
    check_is,
    check_many,
    check_number,
    check_text,
    trait,
)
from fitrag_integrations.errors import PortError, raise_if, refuse_if
from fitrag_integrations.flow import Flow, Port, arun_many, run_many
from fitrag_integrations.ports import Drafter, model_name, pair_port, port_of, writer_of
from fitrag_integrations.text.replies import read_yes_no, strip_thoughts
from fitrag_integrations.types import Context, Draft
from fitrag_integrations.values.prompt import LimitedPrompt, PromptTemplate
from fitrag_integrations.values.thresholds import FittedThreshold

DRAFT_PROMPT = "Question: {question}\nAnswer:"  # for what only continues prompts


@dataclass(frozen=True, kw_only=True)
class FlowGate(Checked, ABC):
    """Gate that runs one flow per question, all in lock step.

    A question is known above `threshold`, in [0, 1], which defaults to the one in `fitted`. A
    fitted threshold is rejected for any other model unless `allow_other_model` is set. With
    `draft_tokens` 0 no draft is requested. A question that fails gets its exception in place of a
    number; the others are answered.
    """

    signal: ClassVar[str]
    """What the number is, for the reason of a decision."""

    threshold: Share | None = None
    fitted: Annotated[FittedThreshold, partial(check_is, kind=FittedThreshold)] | None = None
    draft_tokens: Size = 0
    allow_other_model: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.threshold is None and self.fitted is not None:
            check_fitted(self, self.judged)
            object.__setattr__(self, "threshold", self.fitted.value)

    @property
    @abstractmethod
    def judged(self) -> object:
        """Return the model whose knowledge is judged."""

    @abstractmethod
    def known(self, question: str, draft: str) -> Flow[float]:
        """Return the flow that ends in one question's probability of being known, in [0, 1].

        Args:
            question: Question.
            draft: The model's draft; if it is blank, the flow writes one.
        """

    def p_known(self, questions: Sequence[str], drafts: Sequence[str]) -> list[float | Exception]:
        """Compute the probability that the model knows each answer.

        Args:
            questions: Questions.
            drafts: The model's drafts, one per question, blank if there is none.

        Returns:
            Probabilities in [0, 1], in order, or the exception of a question that failed.
        """
        return [trace.outcome for trace in run_many(self._flows(questions, drafts))]

    async def ap_known(
        self, questions: Sequence[str], drafts: Sequence[str]
    ) -> list[float | Exception]:
        """Async version of `p_known`, in [0, 1]."""
        return [trace.outcome for trace in await arun_many(self._flows(questions, drafts))]

    def _flows(self, questions: Sequence[str], drafts: Sequence[str]) -> list[Flow[float]]:
        asked, given = check_many("questions", questions, str), check_many("drafts", drafts, str)
        allowed = f"as many as questions: {len(asked)}, blank where there is none"
        refuse_if(len(asked) != len(given), "drafts", len(given), allowed)
        return [self.known(question, draft) for question, draft in zip(asked, given, strict=True)]


TRUE = PromptTemplate(
    "true",
    "Question: {question}\nProposed answer: {draft}\n"
    "Is the proposed answer true? Answer Yes or No.\nAnswer:",
    one_line=True,
    reply="verdict",
)
KNOW = PromptTemplate(
    "know",
    "Question: {question}\nCan you answer this question correctly without looking it up? "
    "Answer Yes or No.\nAnswer:",
    one_line=True,
    reply="known",
)


@dataclass(frozen=True)
class _SelfGate(FlowGate):
    """Show a model its own answer and ask whether it is true.

    `drafter` None is the model itself where it writes texts. With `draft_tokens` 0, or where
    nobody writes a draft, the model is asked about the question alone. `threshold`, `fitted` and
    `allow_other_model` are those of `FlowGate`.
    """

    model: object
    _: KW_ONLY
    drafter: object = None
    draft_tokens: Size = 32

    def __post_init__(self) -> None:
        _ = self.port
        super().__post_init__()
        if self.drafter is None and (can(self.judged, "draft") or can(self.judged, "generate")):
            object.__setattr__(self, "drafter", self.judged)
        if self.drafter is not None:
            draft_port(self.drafter)

    @property
    def judged(self) -> object:
        """Return the model, adapted if it is a framework's."""
        return writer_of(self.model)

    def known(self, question: str, draft: str) -> Flow[float]:
        """Return the flow that ends in one question's number, in [0, 1]; surer is higher."""
        check_text("question", question, blank=False)
        if not draft.strip() and self.draft_tokens and self.drafter is not None:
            draft = yield from write_draft(question, self.drafter, self.draft_tokens)
        prompt = (TRUE if draft.strip() else KNOW).render(Context(question, draft=draft))
        (answer,) = yield from self.port.ask([prompt])
        return self.verdict(answer)

    @property
    @abstractmethod
    def port(self) -> Port[str, object]:
        """Return the port that is asked."""

    @staticmethod
    @abstractmethod
    def verdict(answer: object) -> float:
        """Read a number in [0, 1] from the answer."""


class PTrueGate(_SelfGate):
    """Gate by the probability of Yes when the model is asked whether its answer is true (P(True)).

    Args:
        model: Object with `p_yes(prompts)`, as `LocalGenerator` and `RemoteGenerator` are.
        drafter: Writes the answer that is judged; None is the model itself where it writes texts.
        draft_tokens: Tokens of that answer; 0 has the question judged alone.
        threshold: A question is known above this number, in [0, 1]. Defaults to `fitted`.
        fitted: Threshold fitted with `fitrag calibrate`, which names its model.
        allow_other_model: Accept a threshold that was fitted for another model.
    """

    signal = "the probability of Yes when it is asked"

    @property
    def port(self) -> Port[str, object]:
        """Return the port of `p_yes`."""
        allowed = "an object with a 'p_yes' method; AskGate asks a model without one"
        refuse_if(not can(self.judged, "p_yes"), "model", self.model, allowed)
        return port_of("p_yes", self.judged, "p_yes", argument="model")

    @staticmethod
    def verdict(answer: object) -> float:
        """Check the probability."""
        return check_number("p_yes", answer, low=0.0, high=1.0)


class AskGate(_SelfGate):
    """Gate that reads Yes or No from a plain-text reply: for services without log-probabilities.

    Yes is 1.0 and No 0.0. A reply that begins with neither, says both, or doubts its own Yes raises
    `PortError`; callers then retrieve, unless their `on_error` is "raise". Thoughts before the
    reply are not read.

    Args:
        model: Any language model of LangChain or LlamaIndex (bound, configured, with retries or
            fallbacks, a chain to text), an object with `generate(prompts)`, a callable from prompts
            to replies, or a `Port`.
        drafter: Writes the answer that is judged; None is the model itself where it writes texts.
        draft_tokens: Tokens of that answer; 0 has the question judged alone.
        threshold: A question is known above this number, in [0, 1]. Defaults to `fitted`.
        fitted: Threshold fitted with `fitrag calibrate`, which names its model.
        allow_other_model: Accept a threshold that was fitted for another model.
    """

    signal = "its own word"

    @property
    def port(self) -> Port[str, object]:
        """Return the port of `generate`."""
        return port_of("generate", self.model, "generate", argument="model")

    @staticmethod
    def verdict(answer: object) -> float:
        """Read the first word behind any thoughts."""
        reply = check_text("reply", answer)
        if (said := read_yes_no(reply)) is None:
            shown = strip_thoughts(reply) or "nothing but its thoughts"
            raise PortError(f"asked for Yes or No, the model gave {shown[:40]!r}")
        return float(said)


@dataclass(frozen=True)
class _DraftGate(FlowGate):
    """Measure a draft token by token: the caller's words re-scored, or the drafter's own.

    With `draft_tokens` 0 the drafter writes and measures in one pass, and nobody else is asked for
    a draft. A model that writes nothing knows nothing: 0. A draft without numbers raises
    `PortError`. `threshold`, `fitted` and `allow_other_model` are those of `FlowGate`.
    """

    numbers: ClassVar[str]
    """Field of a draft that is averaged over its tokens."""
    sureness: ClassVar[Callable[..., float]]
    """Number in [0, 1] that an average means; higher is surer."""

    drafter: Drafter

    def __post_init__(self) -> None:
        wrong = not (can(self.drafter, "draft") and can(self.drafter, "rescore"))
        allowed = "an object with 'draft' and 'rescore' methods; AskGate needs none"
        refuse_if(wrong, "drafter", self.drafter, allowed)
        super().__post_init__()

    @property
    def judged(self) -> Drafter:
        """Return the drafter."""
        return self.drafter

    def known(self, question: str, draft: str) -> Flow[float]:
        """Return the flow that ends in one question's number, in [0, 1]; surer is higher."""
        check_text("question", question, blank=False)
        if draft.strip():
            port = pair_port("rescore", self.drafter, "rescore", argument="drafter")
            (answer,) = yield from port.ask([(question, draft)])
        else:
            (answer,) = yield from draft_port(self.drafter).ask([question])
        numbers = attrgetter(self.numbers)(written := check_is("draft", answer, Draft))
        if not written.text.strip():
            return 0.0
        kind, name = type(self).__name__, type(self.drafter).__name__
        wrong = f"{name} returned no token probabilities, which {kind} requires; see AskGate"
        raise_if(not numbers, PortError, wrong)
        return type(self).sureness(math.fsum(numbers) / len(numbers))


class MarginGate(_DraftGate):
    """Gate by how far the likeliest token is ahead of the second, on average (TARG, margin).

    Args:
        drafter: Object with `draft` and `rescore`, such as `LocalGenerator` or `RemoteGenerator`.
        threshold: A question is known above this number, in [0, 1]. Defaults to `fitted`.
        fitted: Threshold fitted with `fitrag calibrate`, which names its model.
        draft_tokens: Tokens of a draft that the caller writes; 0 for none.
        allow_other_model: Accept a threshold that was fitted for another model.

    Raises:
        InputError: If `drafter` has neither, or a number is out of range.
    """

    signal = "the mean margin of its draft's tokens"
    numbers = "margins"
    sureness = partial(min, 1.0)


class EntropyGate(_DraftGate):
    """Gate by exp(-mean entropy) of the next token, in nats (TARG, entropy).

    Args:
        drafter: Object with `draft` and `rescore`, such as `LocalGenerator` or `RemoteGenerator`.
        threshold: A question is known above this number, in [0, 1]. Defaults to `fitted`.
        fitted: Threshold fitted with `fitrag calibrate`, which names its model.
        draft_tokens: Tokens of a draft that the caller writes; 0 for none.
        allow_other_model: Accept a threshold that was fitted for another model.

    Raises:
        InputError: If `drafter` has neither, or a number is out of range.
    """

    signal = "the entropy of its draft's tokens"
    numbers = "entropies"
    sureness = staticmethod(lambda mean: math.exp(-mean))


class LikelihoodGate(_DraftGate):
    """Gate by the geometric mean of the token probabilities.

    Args:
        drafter: Object with `draft` and `rescore`, such as `LocalGenerator` or `RemoteGenerator`.
        threshold: A question is known above this number, in [0, 1]. Defaults to `fitted`.
        fitted: Threshold fitted with `fitrag calibrate`, which names its model.
        draft_tokens: Tokens of a draft that the caller writes; 0 for none.
        allow_other_model: Accept a threshold that was fitted for another model.

    Raises:
        InputError: If `drafter` has neither, or a number is out of range.
    """

    signal = "the mean probability of its draft's tokens"
    numbers = "logprobs"
    sureness = math.exp


GATES: Mapping[str, type[_DraftGate]] = {
    "margin": MarginGate,
    "entropy": EntropyGate,
    "likelihood": LikelihoodGate,
}
SIGNALS: Mapping[str, type[FlowGate]] = {**GATES, "p_true": PTrueGate, "ask": AskGate}
"""What a model without a trained gate can be judged by."""


def is_local(model: object) -> bool:
    """Check whether a model writes its drafts here, greedily, and measures each token."""
    return bool(trait(model, "is_greedy", bool)) and can(model, "draft") and can(model, "rescore")


def own_gate(model: object, signal: str | None = None, *, drafts: bool = True) -> FlowGate:
    """Return the gate of a language model that has no trained one.

    The threshold of a likelihood is the one that `fitrag calibrate gate` stored with the model.

    Args:
        model: Language model, or its port.
        signal: A name of `SIGNALS`. Defaults to the likelihood of its greedy draft for a local
            model, without drafts to `p_true`, and to its word (`ask`) for any other model.
        drafts: Whether it writes an answer first; otherwise it is asked about the question alone.
    """
    judged = model.owner if isinstance(model, Port) else model
    own = "likelihood" if drafts else "p_true"
    signal = signal or (own if is_local(judged) else "ask")
    allowed = [name for name in SIGNALS if drafts or name not in GATES]
    refuse_if(signal not in allowed, "signal", signal, ", ".join(allowed))
    stored = (trait(judged, "manifest", dict) or {}).get("threshold")
    if signal == "likelihood" and stored:
        return LikelihoodGate(cast(Drafter, judged), fitted=FittedThreshold.from_dict(stored))
    options: dict[str, Any] = {} if drafts else {"draft_tokens": 0}
    if signal == "ask":  # whoever writes can answer
        return AskGate(model, drafter=model, **options)
    kind: Callable[..., FlowGate] = SIGNALS[signal]
    return kind(judged, **options)


def check_fitted(gate: object, judged: object, *, allow_other_model: bool = False) -> None:
    """Check that a gate's own threshold was fitted for a model.

    Args:
        gate: Gate.
        judged: Model, its port, or its name; a model without a name passes.
        allow_other_model: Accept a threshold that was fitted for another model.

    Raises:
        ThresholdMismatchError: If the threshold was fitted for another model.
    """
    fitted = trait(gate, "fitted", FittedThreshold)
    if fitted is not None:
        name = judged if isinstance(judged, str) else model_name(judged)
        allow = allow_other_model or bool(trait(gate, "allow_other_model", bool))
        fitted.check(name, allow_other=allow)


def write_draft(question: str, drafter: object, tokens: int | None = None) -> Flow[str]:
    """Return the flow that ends in the model's draft.

    Args:
        question: Question.
        drafter: Model that writes the draft.
        tokens: Number of tokens that the gate reads.

    Raises:
        InputError: If the draft is blank.
    """
    alone = PromptTemplate("draft", DRAFT_PROMPT).render(Context(question))
    item = question if can(drafter, "draft") else alone
    (answer,) = yield from draft_port(drafter).ask([LimitedPrompt(item, tokens=tokens)])
    text = answer.text if isinstance(answer, Draft) else answer
    return check_text("draft", strip_thoughts(check_text("draft", text)), blank=False)


def draft_port(drafter: object) -> Port[str, Draft | str]:
    """Build the port of a drafter; all but a `Drafter` are asked with `DRAFT_PROMPT` filled."""
    verb = "draft" if can(drafter, "draft") else "generate"
    return port_of("draft", drafter, verb, argument="drafter")
