"""Read texts and log-probabilities out of OpenAI-style replies; pure functions.

Both shapes are read: that of `/completions`, where alternatives are a mapping from token to
log-probability, and that of `/chat/completions`, where they are a list of objects.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import PortError
from fitrag_integrations.types import Draft
from fitrag_integrations.values.prompt import Written

BLANKS = " \t\n\u2581\u0120"  # and the marks some tokenizers write for a blank


@dataclass(frozen=True)
class Token:
    """Hold one token with its log-probability and the likeliest alternatives, itself included."""

    text: str
    logprob: float
    shown: Mapping[str, float]


def read_text(reply: Row) -> str:
    """Give what the model wrote."""
    choice = _choice(reply)
    message = choice.get("message")
    text = message.get("content") if isinstance(message, Mapping) else choice.get("text")
    if not isinstance(text, str):
        raise PortError("the reply has no text")
    return text


def read_written(reply: Row) -> Written:
    """Give what the model wrote, and whether it had to stop."""
    text = read_text(reply)
    was_cut = _choice(reply).get("finish_reason") == "length"
    return Written(text, cut=_tokens_written(reply, 0) if was_cut else None)


def read_tokens(reply: Row) -> list[Token]:
    """Give the tokens of a reply with their log-probabilities; empty where it tells none.

    A token without one, as the first of an echoed prompt is, is left out.
    """
    told = _choice(reply).get("logprobs")
    try:
        if not isinstance(told, Mapping):
            return []
        if "content" in told:
            return [_chat_token(entry) for entry in told["content"] or ()]
        return _completion_tokens(told)
    except (TypeError, KeyError, ValueError, AttributeError, OverflowError) as error:
        raise PortError(f"the reply's log-probabilities are not as expected: {error!r}") from None


def read_yes(reply: Row, *, yes: str = "Yes", no: str = "No") -> float:
    """Give the share of Yes against No in the first token, a softmax over those two alone.

    Spellings that differ only in a leading blank are summed. A word missing from the alternatives
    shown is less likely than all of them, so the smallest stands for it: the share is then an
    estimate, too near to one half, never too far from it. Raises `PortError` where both are
    missing, or the reply tells no log-probabilities.
    """
    tokens = read_tokens(reply)
    if not tokens or not tokens[0].shown:
        raise PortError(
            "the service gave no log-probabilities: AskGate asks for Yes or No in plain text"
        )
    shown = tokens[0].shown
    logits = [_logprob_of(word, shown) for word in (yes, no)]
    if logits == [None, None]:
        raise PortError(
            f"neither {yes!r} nor {no!r} is among the {len(shown)} likeliest first tokens"
        )
    least = min(shown.values())
    of_yes, of_no = (least if logit is None else logit for logit in logits)
    return 1.0 / (1.0 + math.exp(min(700.0, of_no - of_yes)))


def as_draft(text: str, tokens: Sequence[Token]) -> Draft:
    """Make a draft; margins only where at least two alternatives of every token are shown.

    Entropies are over the alternatives shown, so they are at most the true ones.
    """
    ranked = [sorted(map(math.exp, token.shown.values()), reverse=True) for token in tokens]
    several = all(len(chances) > 1 for chances in ranked)
    margins = tuple(min(1.0, chances[0] - chances[1]) for chances in ranked) if several else ()
    entropies = tuple(map(_entropy, ranked)) if several else ()
    logprobs = tuple(min(0.0, token.logprob) for token in tokens)
    return Draft(text, logprobs, margins, entropies)


def echoed(reply: Row, text: str) -> list[Token]:
    """Find the tokens of the text that ends an echoed prompt."""
    tokens = read_tokens(reply)
    kept = tokens[: max(0, len(tokens) - _tokens_written(reply, 1))]
    tail, at = "", len(kept)
    while at and text.strip() not in tail:
        at -= 1
        tail = _plain(kept[at].text) + tail
    if text.strip() not in tail:
        raise PortError(
            "the service does not echo a prompt with its log-probabilities, which rescore needs "
            "(vLLM does, on /completions); draft, and AskGate, do without"
        )
    return kept[at:]


def _choice(reply: Row) -> Row:
    choices = reply.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        raise PortError("the reply has no choices")
    return choices[0]


def _tokens_written(reply: Row, otherwise: int) -> int:
    """Give how many tokens the server says it wrote."""
    usage = reply.get("usage")
    count = usage.get("completion_tokens") if isinstance(usage, Mapping) else None
    return count if isinstance(count, int) and count >= 0 else otherwise


def _chat_token(entry: Row) -> Token:
    others = entry.get("top_logprobs") or ()
    shown = {other["token"]: other["logprob"] for other in others}
    return _token(entry["token"], entry["logprob"], shown)


def _completion_tokens(told: Row) -> list[Token]:
    texts, logprobs = told.get("tokens") or [], told.get("token_logprobs") or []
    tops = told.get("top_logprobs") or [None] * len(texts)
    return [
        _token(text, logprob, top or {})
        for text, logprob, top in zip(texts, logprobs, tops, strict=True)
        if logprob is not None
    ]


def _token(text: object, logprob: object, shown: Mapping[object, object]) -> Token:
    """Make a token, itself among the alternatives. Raises `ValueError` or what is like it."""
    own = {token: _logprob(value) for token, value in shown.items() if value is not None}
    told = {text: _logprob(logprob), **own}
    if not all(isinstance(token, str) for token in told):
        raise TypeError("a token that is no text")
    finite = {str(token): value for token, value in told.items() if math.isfinite(value)}
    return Token(str(text), told[text], finite)


def _logprob(value: Any) -> float:
    """Read a log-probability; rounding may have lifted it above 0."""
    number = float(value)
    if math.isnan(number) or number > 1.0:
        raise ValueError(f"{value!r} is no log-probability")
    return min(0.0, number)


def _logprob_of(word: str, shown: Mapping[str, float]) -> float | None:
    chances = [math.exp(value) for token, value in shown.items() if token.strip(BLANKS) == word]
    total = math.fsum(chances)
    return math.log(total) if total else None


def _entropy(chances: Sequence[float]) -> float:
    return max(0.0, -math.fsum(p * math.log(p) for p in chances if p))


def _plain(text: str) -> str:
    return text.replace("\u2581", " ").replace("\u0120", " ")
