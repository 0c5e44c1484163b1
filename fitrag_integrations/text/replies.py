"""Parse replies of language models and search tools: reasoning, refusals, "nothing found".

Models that reason write their thoughts in front of the answer: between tags, up to a lone closing
tag where the prompt opened the thought, or in a channel (gpt-oss). Thoughts are not part of the
answer: they are neither shown, nor searched for, nor read as a verdict.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus

_NAMES = (
    r"(?:(?:\w{1,9}:)?think(?:ing)?|thoughts?|reasoning|reflection|inner_monologue|scratch_?pad"
    r"|analysis|rationale|chain_of_thought|plan(?:ning)?)"
)
_CHANNEL = r"(?:[^<\n]{0,60}<\|message\|>)?"
# A mark between quotes or backticks is written about, not used. "inner" closes a thought, but means
# nothing without one; "wrapper" goes only where a thought was.
_MARK = re.compile(
    r"(?<![`'\"“])(?:"
    rf"(?P<open><{_NAMES}>|\[THINK\]|<\|begin_of_(?:thought|thinking)\|>|<\|START_THINKING\|>"
    rf"|◁think▷|<\|channel\|?>\s*(?:analysis|commentary|thought)\b{_CHANNEL}|<unused94>)"
    rf"|(?P<close></{_NAMES}>|\[/THINK\]|<\|end_of_(?:thought|thinking)\|>|<\|END_THINKING\|>"
    rf"|◁/think▷|<\|channel\|>\s*final\b{_CHANNEL}|<channel\|>|<unused95>)"
    r"|(?P<inner>assistantfinal(?=\S)|Here is my response:)"
    r"|(?P<turn><\|start\|>assistant|<\|(?:end|return)\|>)"
    r"|(?P<wrapper></?(?:answer|response)>|<\|(?:begin|end)_of_solution\|>"
    r"|<\|(?:START|END)_RESPONSE\|>)"
    r")(?![`'\"”])",
    re.IGNORECASE,
)
# How a thought begins whose tags were lost on the way, or that has none.
_BEGINNING = re.compile(r"\s*(?:analysis(?=[A-Z\"'])|Here is my thought process:)")
_BEGUN = ("analysis", "Here is my thought process:")
_LONGEST = 48  # characters of a mark
_SIGN = re.compile(r"[<\[◁]")


class Thoughts:
    """Filter that removes the reasoning from a streamed reply.

    A thought that the prompt opened is known by its closing tag alone; what was passed on of it
    before cannot be taken back. `strip_thoughts` reads a whole reply, and drops it.
    """

    def __init__(self) -> None:
        self._rest, self._inside, self._found, self._fresh = "", False, False, True

    def take(self, piece: str, *, last: bool = False) -> str:
        """Return what is new of the answer; `last` ends the reply."""
        text, kept, at = self._rest + piece, list[str](), 0
        begun = text.lstrip()
        if self._fresh and not last and any(one.startswith(begun) for one in _BEGUN):
            self._rest = text
            return ""
        if self._fresh and (opened := _BEGINNING.match(text)):
            self._inside = self._found = True
            at = opened.end()
        self._fresh = self._fresh and not text.strip()
        for mark in _MARK.finditer(text, at):
            if not last and len(text) - mark.start() < _LONGEST:
                break  # what follows may change what it is
            kind = mark.lastgroup
            if (kind == "inner" and not self._inside) or (kind == "wrapper" and not self._found):
                continue
            kept.append("" if self._inside else text[at : mark.start()])
            at = mark.end()
            if kind == "close" and not self._inside:
                kept = []
            if kind in ("open", "close", "inner"):
                self._inside, self._found = kind == "open", True
        end = len(text)
        if not last:
            held = _SIGN.search(text, max(at, end - _LONGEST))
            end = max(at, end - _LONGEST) if self._inside else held.start() if held else end
        kept.append("" if self._inside else text[at:end])
        self._rest = text[end:]
        return "".join(kept)


def strip_thoughts(text: str) -> str:
    """Return a reply without its reasoning; blank if it was truncated while reasoning.

    Args:
        text: The whole reply.

    Example:
        >>> strip_thoughts("The user asks about Paris.</think>\\n\\nYes")
        'Yes'
    """
    if not (_MARK.search(text) or _BEGINNING.match(text)):
        return text
    return Thoughts().take(text, last=True).strip()


def streamed(pieces: Iterator[str]) -> Iterator[str]:
    """Yield the pieces of a reply without its reasoning."""
    thoughts = Thoughts()
    yield from filter(None, map(thoughts.take, pieces))
    yield from filter(None, [thoughts.take("", last=True)])


async def astreamed(pieces: AsyncIterator[str]) -> AsyncIterator[str]:
    """Yield the pieces of a reply without its reasoning."""
    thoughts = Thoughts()
    async for piece in pieces:
        if kept := thoughts.take(piece):
            yield kept
    if kept := thoughts.take("", last=True):
        yield kept


_REFUSAL = re.compile(
    r"\W*(?:(?:i am |i'm |we are )?(?:so |very )?(?:sorry|unable|not able)\b|my apologies|"
    r"i (?:can ?not|can't|could ?n[o']t|do not|don't|apologi[sz]e|will not|won't)\b|"
    r"as an? (?:ai|large language|language)\b|unfortunately\b|no keywords|(?:none|n/?a)\W*$)",
    re.IGNORECASE,
)


def refuses(text: str) -> bool:
    """Check whether a reply begins with a refusal."""
    return _REFUSAL.match(text.replace("’", "'")) is not None


_THINKS = re.compile(rf"\W*(?:my |the )?{_NAMES}\W*:", re.IGNORECASE)


def begins_to_think(text: str) -> bool:
    """Check whether a reply begins with labeled reasoning, such as `**Thinking:**`."""
    return _THINKS.match(text) is not None


_VERDICT = re.compile(
    r"\W*(?:(?:[a-z]+\W+){0,3}?(?:answer|verdict|response)\b\W*(?:is\b\W*)?)??"
    r"(?:(yes|true)|no|false)\b",
    re.IGNORECASE,
)
# What takes a Yes back, or leaves it open.
_DOUBTS = re.compile(
    r"n't\b|\b(?:but|however|(?:al)?though|yet|except|unless|not|never|cannot|nothing|neither"
    r"|wrong|incorrect|inaccurate|mistaken|(?:un|in)(?:sure|certain|likely|clear|true|correct)"
    r"|may(?:be)?|might|could|perhaps|possibl[ey]|probabl[ey]|likely|part(?:ly|ially)?|guess"
    r"|suppose|assume|(?:i|we) (?:think|believe)|(?<!no )(?<!any )doubt\w*)\b",
    re.IGNORECASE,
)
_SAID = re.compile(
    r"(?<!\bnot )(?<!n't )\b(yes|no|true|false)\b(?=[^\w\n]*(?:$|[.,;:!?/|)\]]|\b(?:or|and)\b))",
    re.IGNORECASE | re.MULTILINE,
)


def read_yes_no(text: str) -> bool | None:
    """Return whether a reply is Yes (or True); None if it is neither, or both.

    The reply has to begin with the word, or with "The answer is" and the like. A Yes that the reply
    limits or takes back ("Yes, but I am not sure") is none: what follows may not negate, contrast
    or doubt. A "no" within a sentence ("Yes, there is no doubt") is not a second verdict.
    """
    reply = strip_thoughts(text).replace("’", "'")
    first = _VERDICT.match(reply)
    if first is None:
        return None
    said = first[1] is not None
    if said and _DOUBTS.search(reply, first.end()):
        return None
    others = (found[1].lower() in ("yes", "true") for found in _SAID.finditer(reply))
    return said if all(other == said for other in others) else None


MOST_SAID = 400  # characters; a longer text is a result
_NOTHING = re.compile(
    r"(?:no|0|zero|without) (?:[\w-]+ ){0,4}?(?:results?|hits)\b(?: (?:was|were|is|are))?"
    r"(?:\W*\Z|\W*[.!;\n]| (?:found|available|returned|for|matched|matching)\b)"
    r"|no (?:[\w-]+ ){0,2}?(?:matches|pages?|documents|information|answers?) (?:was |were )?found\b"
    r"|nothing (?:was |relevant |useful )*found\b"
    r"|(?:(?:i|we|(?:(?:your|the|this) )?(?:search|query)\b[^.\n]{0,80}?) )?(?:did ?n[o']t|"
    r"could ?n[o']t|was unable to|failed to) (?:find|return|get|retrieve|match|yield) "
    r"(?:any|anything|results)\b"
    r"|(?:(?:the|your) )?search returned (?:no|0|zero|nothing)\b"
    r"|(?:(?:web |search )*(?:results?|output|items|documents|organic)\b\W*)?"
    r"(?:\[\s*\]|\{\s*\}|none|null|n/a|empty)\W*\Z",
    re.IGNORECASE,
)
_LIMITED = re.compile(
    r"(?:\d{3} )?(?:client error\W*)?(?:rate[ -]?limit(?:ed|ing)?|too many requests|"
    r"(?:\w+ ){0,4}quota)\b(?:\W*\Z|\W+(?:(?:was|is|has been) )?(?:exceeded|reached|hit|error)\b"
    r"|\W+(?:please|try|for http)\b)"
    r"|429\b|too many requests\b|you(?:'ve| have) (?:exceeded|reached|hit) (?:your|the) "
    r"(?:\w+ ){0,4}(?:limit|quota)\b",
    re.IGNORECASE,
)
_FAILED = re.compile(
    r"\W*(?:https?://\S+\s|[\w.]*(?:error|exception|warning|failure)\b|(?:the )?search failed\b|"
    r"sorry\b|unfortunately\b|search\b|result\b|there (?:are|were|is|was)\b)?",
    re.IGNORECASE,
)


# "No results" in further languages: a negation, then what there is none of, as all that is said.
_NOWHERE = re.compile(
    r"\W*(?:[\w']+ ){0,5}?(?:keine?|nichts|aucune?|rien|ning[uú]na?|nada|no se|nessun[oa]?|"
    r"nenhuma?|geen|inga?|ingen|nie|brak|žádn\w+|не|нет|ничего|ніч\w+)\b (?:[\w'-]+ ){0,4}?"
    r"(?:ergebniss?e?|treffer|gefunden|r[ée]sultats?|trouv\w+|resultados?|encontr\w+|risultat[io]|"
    r"trovat\w+|resultat\w*|gevonden|fund\w*|hittad\w*|wynik\w*|znaleziono|výsledk\w*|"
    r"результат\w*|найден\w*|знайден\w*)\b(?: [\w'-]+){0,4}\W*\Z"
    r"|.{0,20}(?:没有|沒有|未|无|無|找不到|没找到|沒找到).{0,6}(?:结果|結果|内容|內容).{0,6}\Z"
    r"|.{0,20}(?:結果|情報).{0,4}(?:ありません|見つかりません).{0,6}\Z|.{0,12}결과.{0,6}(?:없|못).{0,8}\Z",
    re.IGNORECASE,
)
_PHRASES = "|".join(re.escape(one.phrase) for one in HTTPStatus if one >= 400)
# A status as services write it, an exception or "Error:" at the beginning, or what has timed out.
_ERROR = re.compile(
    rf"\W*(?:(?:http|status|code|error)\W*)*(?P<code>[45]\d\d)?\W*(?:{_PHRASES})\W*\Z"
    rf"|.{{0,60}}?\b(?P<status>[45]\d\d)\W{{0,3}}(?:(?:client|server) error|{_PHRASES})\b"
    r"|\W*(?:\w+ )?[\w.]*(?:error|exception|fehler|erreur)\b(?: ?[:(\[]|\W*\d{3}\b|\W*\Z)"
    r"|\W*(?:[\w'-]+ ){0,5}(?:timed out|time-?out|(?:request|search|connection|query|call|api|tool|"
    r"service|server)s? (?:has |have |could )?(?:failed|(?:was |were |is |not be )(?:refused|"
    r"denied|blocked|unavailable|reached|completed|processed)))\b(?: (?:after|while|with|for|"
    r"because|at)\b[^.]*)?(?:[.!:;]|\W*\Z)"
    r"|\W*(?:(?:invalid|missing|wrong|expired) (?:\w+ ){0,2}(?:key|token|credentials?)"
    r"|something went wrong)\b",
    re.IGNORECASE,
)
_KINDS = {
    "auth": re.compile(r"\b40[137]\b|unauthori|forbidden|\b(?:key|token|credentials?)\b", re.I),
    "quota": re.compile(r"\b429\b|rate[ -]?limit|too many|quota|\blimit\b", re.I),
}


def failure_of(text: str) -> str:
    """Return the kind of failure in a search tool's text: "auth", "quota", ...

    It is blank for any other text, also for one that says that nothing was found.
    """
    if len(text) > MOST_SAID or not (_ERROR.match(text) or _LIMITED.match(text)):
        return ""
    found = (kind for kind, words in _KINDS.items() if words.search(text))
    return next(found, "transient")


def found_nothing(text: str) -> bool:
    """Check whether a search tool's text reports no results or a failure.

    Only a short text that begins so counts; a result that is about such words does not.
    """
    body = text.replace("’", "'").strip()
    if len(body) > MOST_SAID:
        return False
    head = _FAILED.match(body)
    rest = body[head.end() :].lstrip(" \t\n:,;-'\"([{") if head else body
    says = any(pattern.match(each) for pattern in (_NOTHING, _LIMITED) for each in (body, rest))
    return says or failure_of(body) != "" or _NOWHERE.match(body) is not None
