"""Clean untrusted text before a person or a model sees it.

What is removed cannot be seen on the page, or was never meant as text. This keeps words from
being smuggled past a human reader; it does not, and nothing can, keep a page's visible words from
reading like instructions. Callers label web text as untrusted and fence it in the prompt.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import groupby
from urllib.parse import urlsplit

PARAGRAPH_CHARS = 4_000
# Invisible though not of a format or control category: variation selectors, the grapheme joiner,
# Hangul and Khmer fillers, the blank Braille pattern, and what is reserved to stay invisible.
_FILLERS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\ufff0-\ufff8\U000e0000-\U000e0fff]"
)
# Signs of category Cf that are drawn: they begin or enclose a number.
_DRAWN = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd")
_JOINERS = frozenset("\u200c\u200d")
_JOINING = re.compile(
    "[\u0600-\u08ff\u0900-\u0dff]"
)  # Arabic script to Sinhala: joiners shape words
_ENTITY = re.compile(r"&(#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,30});")
_ELEMENTS = (
    "a|abbr|article|aside|audio|b|blockquote|body|br|button|caption|center|cite|code|dd|del|details"
    "|div|dl|dt|em|embed|fieldset|figcaption|figure|font|footer|form|frame|h[1-6]|head|header|hr"
    "|html|i|iframe|img|input|ins|label|li|link|main|mark|math|meta|nav|noscript|object|ol|option"
    "|p|picture|pre|q|s|samp|script|section|select|small|source|span|strike|strong|style|sub|summary"
    "|sup|svg|table|tbody|td|template|textarea|tfoot|th|thead|time|title|tr|tt|u|ul|var|video|wbr"
)
# The marks of chat templates, which some tokenizers read as such: ChatML, Llama 3, Phi, Qwen,
# Cohere, GPT-OSS and DeepSeek between bars; Gemma, InternLM, T5 and calls of tools in angle
# brackets; Llama 2, Mistral and GLM in square ones. Words alone ("USER:") are text.
_TURNS = (
    r"<[|｜][^|｜<>\s]{1,40}[|｜]>"
    r"|</?(?:bos|eos|pad|unk|start_of_turn|end_of_turn|end_of_utterance|sop|eop|eoh|eoa|eot"
    r"|tool_call|tool_response|tools|think|function_calls|invoke|system|assistant|user"
    r"|extra_id_\d{1,3}|reserved_\d{1,4})>"
    r"|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT"
    r"|gMASK|sMASK)\]|<</?SYS>>"
)
# Elements, comments, and those marks.
_MARKUP = re.compile(rf"</?(?:{_ELEMENTS})(?=[\s/>])[^<>]*>|<![^<>]*>|{_TURNS}", re.IGNORECASE)


def clean_text(text: str, *, max_chars: int | None = None) -> str:
    """Return the visible words of a text.

    Removes control, zero-width, bidirectional, tag and private-use characters, variation
    selectors, soft hyphens, remains of markup and chat-template marks; decodes entities; reduces
    runs of blanks to one. Blank lines stay, as paragraph breaks. All else is unchanged.

    Args:
        text: Text of a web page or of a search result.
        max_chars: Maximum number of characters, cut at a blank; None is no limit.
    """
    plain = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    plain = _FILLERS.sub("", plain)
    if not plain.isprintable():
        plain = "".join(_shown(plain, i) for i in range(len(plain)))
    plain = _MARKUP.sub(" ", plain)  # a blank, so that no new tag forms from two halves
    lines = (" ".join(line.split()) for line in plain.split("\n"))
    whole = "\n\n".join(" ".join(some) for has_words, some in groupby(lines, bool) if has_words)
    return whole if max_chars is None else _cut(whole, max_chars)


def has_text(text: str) -> bool:
    """Return whether a text has a character that can be seen.

    Blanks, controls, zero-width characters, byte-order marks, soft hyphens and fillers cannot.
    """
    signs = (sign for sign in text if not (sign.isspace() or _FILLERS.match(sign)))
    return any(one in _DRAWN or unicodedata.category(one) not in ("Cc", "Cf") for one in signs)


def clean_paragraphs(texts: Iterable[str]) -> Iterator[str]:
    """Clean each text; drop blank ones, and split long ones at blanks."""
    for text in texts:
        rest = clean_text(text)
        while rest:
            piece = _cut(rest, PARAGRAPH_CHARS)
            yield piece
            rest = rest[len(piece) :].lstrip()


def _shown(text: str, i: int) -> str:
    """Return a character, a blank for one that stands for space, or nothing."""
    char = text[i]
    if char.isprintable() or char == "\n":
        return char
    if char.isspace():
        return "\n\n" if char == "\u2029" else " "
    if char in _DRAWN:
        return char
    if char in _JOINERS and 0 < i < len(text) - 1:
        return char if all(_JOINING.match(text[j]) for j in (i - 1, i + 1)) else ""
    if unicodedata.category(char) == "Cn" and ord(char) & 0xFFFE != 0xFFFE:
        return char  # given a meaning after this Python was released
    return ""


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    blank = text.rfind(" ", most // 2, most + 1)
    return text[: blank if blank > 0 else most].rstrip()


_DROPPED = re.compile(r"[\t\r\n]")  # browsers take them out of an address, wherever they stand
_HOST = re.compile(r"[a-z0-9_.:-]+")


def site_of(address: str) -> str:
    """Return the host of an http or https address in ASCII and lower case, or an empty string.

    As browsers do (WHATWG's URL Standard), a backslash counts as a slash, so that
    ``https://evil.example\\@good.example/`` is evil.example's, and what stands before an @ is no
    host. A name in other letters comes out as it is looked up (``xn--...``), so that it cannot
    pass for another.
    """
    plain = _DROPPED.sub("", address[:4096]).strip("".join(map(chr, range(33))))
    try:
        parts = urlsplit(plain.replace("\\", "/"))
        host = (parts.hostname or "").rstrip(".").encode("idna").decode("ascii").lower()
    except ValueError:  # no address, or a name that nobody can look up
        return ""
    is_web = parts.scheme in ("http", "https")
    return host if is_web and _HOST.fullmatch(host) else ""


__all__ = ["PARAGRAPH_CHARS", "clean_paragraphs", "clean_text", "has_text", "site_of"]
