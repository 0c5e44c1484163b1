"""Parse texts and log-probabilities of OpenAI-style responses; pure functions.

In `/completions` the alternatives are a mapping from token to log-probability, in
`/chat/completions` a list of objects.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import PortError, raise_if
from fitrag_integrations.models.words import cut_at
from fitrag_integrations.types import Draft
from fitrag_integrations.values.prompt import Completion

BLANKS = " \t\n\u2581\u0120"  # and what some tokenizers write for a blank


@dataclass(frozen=True)
class Token:
    """One token with its log-probability and the likeliest alternatives, itself included."""

    text: str
    logprob: float
    shown: Mapping[str, float]


def read_text(reply: Row) -> str:
    """Return the text of a response."""
    choice = _choice(reply)
    message = choice.get("message")
    text = message.get("content") if isinstance(message, Mapping) else choice.get("text")
    if not isinstance(text, str):
        raise PortError("the response has no text")
    return text


def read_written(reply: Row) -> Completion:
    """Return the text of a response; `cut` is its length in tokens if it was truncated."""
    text = read_text(reply)
    was_cut = _choice(reply).get("finish_reason") == "length"
    return Completion(text, cut=_tokens_written(reply, 0) if was_cut else None)


def ended_at(reply: Row, stop: Sequence[str]) -> Row:
    """Return a response of `/completions` as a server gives it that stops at these texts."""
    choice, text = _choice(reply), read_text(reply)
    kept, logs = cut_at(text, stop), choice.get("logprobs")
    if kept == text:
        return reply
    if isinstance(logs, Mapping):
        ends = list(accumulate(len(str(token)) for token in logs.get("tokens") or ()))
        count = bisect_left(ends, len(kept)) + 1
        logs = {name: row[:count] if isinstance(row, list) else row for name, row in logs.items()}
    ended = {**choice, "text": kept, "logprobs": logs, "finish_reason": "stop"}
    return {**reply, "choices": [ended]}


def read_tokens(reply: Row) -> list[Token]:
    """Return the tokens of a response with their log-probabilities; empty if it has none.

    A token without one, such as the first of an echoed prompt, is left out.
    """
    given = _choice(reply).get("logprobs")
    try:
        if not isinstance(given, Mapping):
            return []
        if "content" in given:
            return [
                _token(
                    entry["token"],
                    entry["logprob"],
                    {each["token"]: each["logprob"] for each in entry.get("top_logprobs") or ()},
                )
                for entry in given["content"] or ()
            ]
        texts, logprobs = given.get("tokens") or [], given.get("token_logprobs") or []
        tops = given.get("top_logprobs") or [None] * len(texts)
        return [
            _token(text, logprob, top or {})
            for text, logprob, top in zip(texts, logprobs, tops, strict=True)
            if logprob is not None
        ]
    except (TypeError, KeyError, ValueError, AttributeError, OverflowError) as error:
        raise PortError(f"the response's log-probabilities are malformed: {error!r}") from None


def read_yes(reply: Row, *, yes: str = "Yes", no: str = "No") -> float:
    """Return the probability of Yes against No as the first token, a softmax over both, in [0, 1].

    Spellings that differ only in a leading blank are summed. A word that is not among the
    alternatives is less likely than all of them, so the smallest replaces it; the result is then
    too near to one half, never too far from it. Raises `PortError` if both words are missing, or
    the response has no log-probabilities.
    """
    tokens = read_tokens(reply)
    raise_if(
        not tokens or not tokens[0].shown,
        PortError,
        "the service returned no log-probabilities: use AskGate, which reads the text",
    )
    shown = tokens[0].shown
    sums = [
        math.fsum(math.exp(value) for token, value in shown.items() if token.strip(BLANKS) == word)
        for word in (yes, no)
    ]
    raise_if(
        not any(sums),
        PortError,
        f"neither {yes!r} nor {no!r} is among the {len(shown)} likeliest first tokens",
    )
    least = min(shown.values())
    of_yes, of_no = (math.log(total) if total else least for total in sums)
    return 1.0 / (1.0 + math.exp(min(700.0, of_no - of_yes)))


def as_draft(text: str, tokens: Sequence[Token]) -> Draft:
    """Build a draft; it has margins only if every token has at least two alternatives.

    Entropies are over the alternatives returned, so they are lower bounds.
    """
    ranked = [sorted(map(math.exp, token.shown.values()), reverse=True) for token in tokens]
    several = all(len(chances) > 1 for chances in ranked)
    margins = tuple(min(1.0, chances[0] - chances[1]) for chances in ranked) if several else ()
    sums = (-math.fsum(p * math.log(p) for p in chances if p) for chances in ranked)
    entropies = tuple(max(0.0, entropy) for entropy in sums) if several else ()
    return Draft(text, tuple(min(0.0, token.logprob) for token in tokens), margins, entropies)


def echoed(reply: Row, text: str) -> list[Token]:
    """Return the tokens of the text at the end of an echoed prompt."""
    tokens = read_tokens(reply)
    kept = tokens[: max(0, len(tokens) - _tokens_written(reply, 1))]
    tail, at = "", len(kept)
    while at and text.strip() not in tail:
        at -= 1
        tail = kept[at].text.replace("\u2581", " ").replace("\u0120", " ") + tail
    raise_if(
        text.strip() not in tail,
        PortError,
        "the service does not echo a prompt with its log-probabilities, which rescore requires "
        "(vLLM does, on /completions); use draft or AskGate instead",
    )
    return kept[at:]


def _choice(reply: Row) -> Row:
    choices = reply.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        raise PortError("the response has no choices")
    return choices[0]


def _tokens_written(reply: Row, otherwise: int) -> int:
    """Return the number of generated tokens by the server's count."""
    usage = reply.get("usage")
    count = usage.get("completion_tokens") if isinstance(usage, Mapping) else None
    return count if isinstance(count, int) and count >= 0 else otherwise


def _token(text: object, logprob: object, shown: Mapping[object, object]) -> Token:
    """Build a token, itself among the alternatives. Raises `TypeError` or `ValueError`."""
    own = {token: _logprob(value) for token, value in shown.items() if value is not None}
    known = {text: _logprob(logprob), **own}
    raise_if(
        not all(isinstance(token, str) for token in known), TypeError, "a token is not a string"
    )
    finite = {str(token): value for token, value in known.items() if math.isfinite(value)}
    return Token(str(text), known[text], finite)


def _logprob(value: Any) -> float:
    """Return a log-probability; rounding may have lifted it above 0."""
    number = float(value)
    raise_if(math.isnan(number) or number > 1.0, ValueError, f"{value!r} is not a log-probability")
    return min(0.0, number)
