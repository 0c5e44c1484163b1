"""Count tokens for a budget: an estimate that needs no vocabulary, or tiktoken's exact count."""

from __future__ import annotations

import re
from importlib.util import find_spec

from fitrag_integrations._checks import check_text
from fitrag_integrations._extras import require_extra
from fitrag_integrations.errors import InputError, ModelLoadError
from fitrag_integrations.ports import TokenCounter

# Latin words of up to nine letters mostly are one token to a byte-pair vocabulary, other
# alphabets about one per two letters; ideographs, marks and signs count one each.
_PIECE = re.compile(
    r"[A-Za-z]{1,9}|\d{1,3}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\d_]{1,2}|[^\s]"
)


def approximate_tokens(text: str) -> int:
    """Estimate the tokens of a text by counting pieces of words, digits and signs.

    For English prose it is within about a tenth of OpenAI's ``cl100k_base``; for other scripts it
    may be a third too low. Give your own model's counter where a budget must hold to the token.
    """
    return sum(1 for _ in _PIECE.finditer(check_text("text", text)))


def tiktoken_counter(encoding: str = "cl100k_base") -> TokenCounter:
    """Give the exact counter of an OpenAI encoding.

    tiktoken downloads an encoding on first use. Raises ``ModelLoadError`` where it cannot, and
    ``MissingExtraError`` without tiktoken itself.
    """
    check_text("encoding", encoding, blank=False)
    tiktoken = require_extra("tiktoken", extra="tiktoken", feature="tiktoken_counter")
    try:
        codec = tiktoken.get_encoding(encoding)
    except ValueError as error:
        allowed = ", ".join(tiktoken.list_encoding_names())
        raise InputError.of("encoding", given=encoding, allowed=allowed) from error
    except Exception as error:  # whichever way the download failed
        raise ModelLoadError(_offline(encoding)) from error

    def count(text: str) -> int:
        return len(codec.encode_ordinary(text))

    return count


def _offline(encoding: str) -> str:
    hint = "set TIKTOKEN_CACHE_DIR to a folder that holds it"
    if find_spec("llama_index") is not None:
        hint += " (llama_index.core ships one in _static/tiktoken_cache)"
    return f"tiktoken could not download the encoding {encoding!r}: {hint}"
