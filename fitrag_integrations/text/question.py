"""Find the questions in a long message: people greet, explain, ask several things and thank.

A model that ranks passages reads a question whole, so small talk pulls passages that talk alike.
The rule: in a text of more than ``SHORT`` words and several sentences, the sentences that ask
something are read, in their order. One asks if it ends in a question mark or begins as a question
or a request does, and names something to ask about; "Do you know?" and "Can you help me?" do not.
If it points back ("it", "they", "that one") and names nothing itself, the sentence before it comes
along, and so on from there. Where no sentence asks, the text stays whole.
"""

from __future__ import annotations

import re

from fitrag_integrations.text.sentences import split_sentences

SHORT = 16
"""Words up to which a text is taken as it is."""
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_BEGINS = re.compile(
    r"(?i)\W*(?:(?:and|so|but|also|now|ok|okay|well|anyway|basically|actually|please|still)\W+)*"
    r"(?:who|whom|whose|what|when|where|which|why|how|name|tell|explain|describe|list|find|define|"
    r"(?:in|on|at|of|for|to|from|by|with|under|during|about)\s+(?:what|which|whom|whose|how))\b"
)
_COURTESY = """
a about able advance all am an and answer any anybody anyone anything appreciate are ask be by can
cheers could did do does doing else find for fine give going good great happen has have hear hello
help hey hi hope how i i'd i'll i'm i've idea if in is it just kindly know let like lot many me
might mind more much my of ok okay on one or out perhaps please possible question quick quickly
right should so some someone something sorry sure tell thank thanks that that's the there this to
today too up us want was we well were what what's would yes you you'd your
"""
_SAYS_NOTHING = frozenset(_COURTESY.split())
_BACK = "he him his she her hers it its they them their theirs this that these those one ones"
_POINTS_BACK = frozenset(_BACK.split())


def asked_of(text: str) -> str:
    """Return the questions in ``text`` with the sentences they refer to; a short text whole."""
    if len(_WORD.findall(text)) <= SHORT:
        return text
    sentences = [text[start:end] for start, end in split_sentences(text)]
    read = {at for at, sentence in enumerate(sentences) if _asks(sentence)}
    if len(sentences) < 2 or not read:
        return text
    for at in range(len(sentences) - 1, 0, -1):
        names = (w for w in _WORD.findall(sentences[at])[1:] if w[:1].isupper())
        named = any(name.lower() not in _SAYS_NOTHING for name in names)
        if at in read and not named and not _POINTS_BACK.isdisjoint(_words(sentences[at])):
            read.add(at - 1)
    return " ".join(sentences[at] for at in sorted(read))


def asked_note(question: str) -> tuple[str, ...]:
    """Return a note on the part of a text that is used as the question; empty if it is all."""
    asked = asked_of(question)
    return () if asked == question else (f"read as the question: {asked!r}",)


def _asks(sentence: str) -> bool:
    is_question = sentence.rstrip(" \"'”’)»").endswith(("?", "？", "؟")) or _BEGINS.match(sentence)
    return bool(is_question) and any(word not in _SAYS_NOTHING for word in _words(sentence))


def _words(sentence: str) -> list[str]:
    return [word.lower().replace("’", "'") for word in _WORD.findall(sentence)]
