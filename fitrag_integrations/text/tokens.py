"""Count tokens for a budget: an estimate that needs no vocabulary, or a tokenizer's exact count."""

from __future__ import annotations

import copy
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated, Any, Protocol, TypeAlias, cast, runtime_checkable

from fitrag_integrations.core.checks import check_text, check_whole
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.errors import InputError, ModelLoadError, refuse_if

TokenCounter: TypeAlias = Callable[[str], int]
APPROXIMATE = "approximate"
# Latin words of up to nine letters mostly are one token to a byte-pair vocabulary, other
# alphabets about one per two letters; ideographs, marks and signs count one each, equal signs in a
# row, as in a ruler, one together.
_PIECE = re.compile(
    r"[A-Za-z]{1,9}|\d{1,3}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\d_]{1,2}|([!-~])\1*|\S"
)
_ALLOWED = (
    "None, 'approximate', the name of a tiktoken encoding such as 'o200k_base', a tiktoken "
    "encoding, a Hugging Face tokenizer, or a callable from a text to its number of tokens, such "
    "as lambda text: len(tokenizer.encode(text))"
)


@runtime_checkable
class Encoder(Protocol):
    """Encoding or tokenizer: an object with a method from a text to its tokens."""

    encode: Any


CountTokens: TypeAlias = Annotated[
    TokenCounter | Encoder | str | None,
    lambda field, given: None if given is None else counter_for(given),
]
"""What ``counter_for`` makes a counter of; a field of a ``Checked`` keeps that counter."""


def approximate_tokens(text: str) -> int:
    """Estimate the tokens of a text by counting pieces of words, digits and signs.

    For English prose it is within about a tenth of OpenAI's ``cl100k_base``; for other scripts it
    may be a third too low. Give your own model's counter where a budget must hold to the token.
    """
    return sum(1 for _ in _PIECE.finditer(check_text("text", text)))


def counter_for(count_tokens: CountTokens = None) -> TokenCounter:
    """Return a token counter for the option ``count_tokens``.

    A tiktoken encoding and a Hugging Face tokenizer count the tokens of the text alone, without
    those that begin or end a sequence. The tokenizer is copied, because one that a model uses at
    the same time would change what both read.

    Args:
        count_tokens: None or "approximate" for the estimate, the name of a tiktoken encoding, a
            tokenizer, or a callable, which is returned unchanged.

    Raises:
        InputError: For anything else.
        ModelLoadError: If an encoding cannot be downloaded.
        MissingExtraError: If an encoding is named and tiktoken is not installed.
    """
    given: Any = count_tokens
    if given is None or given == APPROXIMATE:
        return approximate_tokens
    if isinstance(given, str):
        try:
            return tiktoken_counter(given)
        except InputError as error:
            allowed = f"{_ALLOWED}; tiktoken knows {error.allowed}"
            raise InputError.of("count_tokens", given=given, allowed=allowed) from error
    refuse_if(
        isinstance(given, type) or not (callable(given) or hasattr(given, "encode")),
        "count_tokens",
        given,
        _ALLOWED,
    )
    if hasattr(given, "encode_ordinary"):
        return ModelCounter(given)
    fast = getattr(given, "backend_tokenizer", given)
    if hasattr(fast, "encode") and hasattr(fast, "no_truncation"):
        copied = type(fast).from_str(fast.to_str())  # which neither cuts nor fills up a text
        copied.no_truncation()
        copied.no_padding()
        return ModelCounter(copied)
    if hasattr(given, "num_special_tokens_to_add"):
        return ModelCounter(copy.deepcopy(given))
    refuse_if(not callable(given), "count_tokens", given, _ALLOWED)
    return cast(TokenCounter, given)


def counted(text: str, count_tokens: TokenCounter) -> int:
    """Count tokens; reject a counter that returns the tokens instead of their number."""
    number = count_tokens(text)
    try:
        return check_whole("count_tokens", number, low=0)
    except InputError:
        allowed = "a callable that gives a number: lambda text: len(tokenizer.encode(text))"
        raise InputError.of("count_tokens", given=number, allowed=allowed) from None


def tiktoken_counter(encoding: str = "cl100k_base") -> TokenCounter:
    """Return the exact counter of an OpenAI encoding, which is downloaded on first use.

    Args:
        encoding: Name of the encoding.

    Raises:
        ModelLoadError: If the encoding cannot be downloaded.
        MissingExtraError: If tiktoken is not installed.
        InputError: If the encoding is unknown.
    """
    check_text("encoding", encoding, blank=False)
    tiktoken = require_extra("tiktoken", extra="tiktoken", feature="tiktoken_counter")
    try:
        return ModelCounter(tiktoken.get_encoding(encoding))
    except ValueError as error:
        allowed = ", ".join(tiktoken.list_encoding_names())
        raise InputError.of("encoding", given=encoding, allowed=allowed) from error
    except Exception as error:  # whichever way the download failed
        hint = "set TIKTOKEN_CACHE_DIR to a folder that holds it"
        if find_spec("llama_index") is not None:
            hint += " (llama_index.core ships one in _static/tiktoken_cache)"
        said = f"tiktoken could not download the encoding {encoding!r}: {hint}"
        raise ModelLoadError(said) from error


@dataclass(frozen=True, slots=True)
class ModelCounter:
    """Counter over a tiktoken encoding or a Hugging Face tokenizer that is not shared.

    Special tokens in the text count as plain text. A tokenizer reads one text at a time if it is
    written in Python, and half characters, which it refuses, as the replacement character.
    """

    model: Any

    def __call__(self, text: str) -> int:
        check_text("text", text)
        if hasattr(self.model, "encode_ordinary"):
            return len(self.model.encode_ordinary(text))
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if hasattr(self.model, "no_padding"):
            return len(self.model.encode(whole, add_special_tokens=False).ids)
        with _ONE_AT_A_TIME:
            return len(self.model.encode(whole, add_special_tokens=False, verbose=False))


_ONE_AT_A_TIME = threading.Lock()
