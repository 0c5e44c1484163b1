"""Find the sentence starts in one block of prose: syntok's, corrected by a few rules.

syntok knows abbreviations and quotes of English, German and Spanish. The rules add the ends that it
does not know or looks for only before a blank, and take back the beginnings it finds after further
abbreviations, inside an address or before a closing quote.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice, pairwise

# No sentence ends behind these abbreviations.
HELD = (
    # before a name
    "Rev|Revd|Lt|Gov|Sgt|Hon|Rep|Pres|Pvt|Maj|Cpl|Cmdr|Ft|Messrs|Msgr|Mgr|Supt|Insp|Amb|Assoc|Asst"
    "|Dra|Drs|MM|sig|Sig|dott|Dott|avv|Avv|ing|Ing|Fa|Dipl|Hl|hl|Kath|проф|Проф|акад|им|ул|пр|пос"
    # before what they refer to
    "|cf|Cf|Cfr|cfr|viz|vgl|Vgl|sog|bzw|Hrsg|hrsg|ed|éd|Éd|ред|см|См|ср|Ср|p\\.\\s?ex|av"
)
# None ends behind these before a number.
NUMBERED = (
    "[Ee]qs?|[Ss]ecs?|[Cc]hs?|[Cc]hap|[Pp]p|[Ff]igs?|[Nn]os|[Oo]p|[Vv]ols?|[Aa]rt|[Tt]ab|[Kk]ap|Abs"
    "|Abb|Ziff|Anm|[Pp]ag|[Pp]ágs?|[Cc]ap|[Nn]úm|ft|[Рр]ис|[Сс]тр|[Тт]абл|[Гг]л"
    "|\\w*[Ss]tr|\\w{4,}pl|[Aa]pt|[Bb]ldg|[Rr]m|Dept|Av|Std"
)
# Between these German words and a noun, a number with a stop is an ordinal.
BEFORE_ORDINALS = "[Aa]m|[Vv]om|[Zz]um|[Bb]eim|[Ii]m|[Dd]e[rms]|[Dd]en|[Dd]ie|[Dd]as|bis|und"
# A sentence ends behind these where one of the next list follows.
EITHER = (
    "[AaPp]\\.m|U\\.S|U\\.S\\.A|U\\.K|U\\.N|E\\.U|D\\.C|B\\.C|A\\.D|Ph\\.D|M\\.D|etc|[JS]r|Inc|Ltd"
    "|Co|Corp|Ave|Blvd|Rd|al|I[IVX]{1,4}|VI{0,3}|X[IVX]{1,4}|usw|u\\.\\s?a|ecc|г|гг"
)
STARTERS = (
    "He|She|They|We|You|It|Its|The|This|These|Those|There|His|Her|Their|My|Our|But|And|If|When|While"
    "|After|Before|In|On|At|As|By|From|Since|Then|However|Nobody|Er|Sie|Es|Wir|Der|Die|Das|Dann|Il"
    "|Elle|Ils|Le|La|Les|El|Los|Poi|Он|Она|Они|Это"
)
# Abbreviations in a text that is all in lower case.
EVERYDAY = "etc|vs|mr|mrs|ms|dr|st|jr|sr|prof|inc|ltd|co|no|nr|ca|approx|dept|al"
# Ends that need no blank behind them, with what closes a quote.
_STOP = re.compile(r"(?:[。！？｡।॥۔؟։።፧፨။។៕༎།᠃᠉᱾᱿꯫]|．(?!\d))+[」』”’）》〉】〕\"')\]]*")
_BULLET = re.compile(r"(?<=\s)(?=[•▪●■►]\s)")  # of a list that was run together into a line
# Ends that syntok overlooks: before a German or French quote, a mark of emphasis or a note; after
# a bracket, a quote or an emoji; an ellipsis; and that of a word which itself contains a stop.
_END = re.compile(
    r"(?<=[.!?…])(?:[»«“”’›‹*_¹²³⁰⁴-⁹†‡]+|(?:\[[\w, ]{1,6}\])+)(?=\s)"
    r"|(?:(?<=[)»«“”\u2190-\u2bff\ufe0f\U0001f000-\U0001faff])[.!?]+|…)(?=\s)"
    r"|(?<=\w\.)(?!Chr\b)\w{2,}[.!?]+(?=\s)"
)
_EITHER = re.compile(rf"\b(?:{EITHER})\.(?=\s+(?:{STARTERS})\b)")
_LOWER_END = re.compile(rf"(?<![\w.])(?!(?:{EVERYDAY})\.)[^\W\d_]{{2,}}[.!?]+(?=\s)")
_OPENERS = re.compile(r"[\s\"'“”„‘’«»‹›(\[{¿¡*_—–-]*")
# After these none begins, or none before what the second pattern matches.
_HELD = re.compile(
    rf"(?:\b(?:{HELD})\.|[^\s\u0370-\u03ff\u1f00-\u1fff];"
    r"|:\s+[(\[]?\d{1,3}[.)]"
    rf"|\b(?:{BEFORE_ORDINALS})\s\d{{1,2}}\.)\s*\Z"
)
_HELD_BEFORE = (
    (re.compile(rf"\b(?:{NUMBERED})\.\s*\Z"), re.compile(r"\s*[(\[]?(?:\d|[IVXLC]+\b)")),
    (re.compile(r"\b([A-Z])\1\.\s*\Z"), re.compile(r"\s*([A-Z])\1\.")),  # EE. UU.
    (re.compile(r"\)\s*\Z"), re.compile(r"\s*[-–—]\s")),  # LONDON (Reuters) - ...
    (re.compile(r"\w\.\Z"), re.compile(r"[A-Z][a-z]+[A-Z(]")),  # Console.WriteLine
    (re.compile(r"\]\Z"), re.compile(r"\(")),  # a link
    (re.compile(r"[」』]\Z"), re.compile(r"[とっ]")),  # he said
)
_ADDRESS = re.compile(r"(?:https?://|www\.)[^\s<>\"]*[^\s<>\"'.,;:!?)\]]|(?<!`)(`+)[^`\n]+\1(?!`)")
_CLOSERS = re.compile(r"\s*[»”’)\]」』›]+(?=\s|\Z)")
_ITEM = re.compile(r"\s*[(\[]?\d{1,3}(?:\.\d{1,3})*[.)]\s*")  # the number of an item
_LETTER = re.compile(r"\w")
_BACK = 40  # characters that an exception looks back at


def starts_of(block: str) -> list[int]:
    """Return the places where the sentences of a block begin, the first of them 0.

    A place may be that of the blanks before a sentence. None is inside a sign made of several
    characters, and no sentence is made of signs or of an item's number alone.
    """
    found = {end.end() for ends in (_STOP, _BULLET) for end in ends.finditer(block)}
    if any(mark in block.rstrip()[:-2] for mark in ".!?;…"):
        from syntok import segmenter  # type: ignore[import-untyped]  # loads in its own time
        from syntok.tokenizer import Tokenizer  # type: ignore[import-untyped]

        # Contractions stay as written: replaced ones would shift what follows.
        tokens = Tokenizer(replace_not_contraction=False).tokenize(block)
        # what comes before the first token belongs to the first sentence
        found.update(one[0].offset for one in islice(segmenter.segment(tokens), 1, None))
        found.update(_overlooked(block))
    addresses = [at for span in _ADDRESS.finditer(block) for at in span.span()]
    free = (at for at in found if bisect_right(addresses, at - 1) % 2 == 0)
    kept = {_moved(block, at) for at in free if not _held(block, at)}
    begun, worded = [0], False
    for start, end in pairwise([0, *sorted(kept), len(block)]):
        has_word = _LETTER.search(block, start, end) is not None
        if worded and has_word and start:  # else it would part signs, or an item's number
            begun.append(start)
            worded = False
        worded = worded or (has_word and not _ITEM.fullmatch(block, start, end))
    return begun


def _overlooked(block: str) -> Iterator[int]:
    for end in _END.finditer(block):
        opened = _OPENERS.match(block, end.end())
        if opened and not block[opened.end() : opened.end() + 1].islower():
            yield end.end()
    yield from (end.end() for end in _EITHER.finditer(block))
    if block.islower():
        yield from (end.end() for end in _LOWER_END.finditer(block))


def _held(block: str, at: int) -> bool:
    back = max(0, at - _BACK)
    return _HELD.search(block, back, at) is not None or any(
        after.match(block, at) and before.search(block, back, at) for before, after in _HELD_BEFORE
    )


def _moved(block: str, at: int) -> int:
    """Move a place behind a closing quote, and behind marks that belong to the sign before."""
    import regex  # type: ignore[import-untyped]  # comes with syntok

    if closers := _CLOSERS.match(block, at):
        return closers.end()
    sign = regex.match(r"\X", block, pos=at - 1) if at and not block[at - 1].isspace() else None
    return max(at, sign.end()) if sign else at
