"""Compare answers as open-domain question answering does.

Whole-token matching is DPR's (Karpukhin et al., 2020): "US" is not found inside "because". Token F1
is SQuAD's (Rajpurkar et al., 2016). Both fold case, accents and punctuation.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

_PUNCTUATION = re.compile(r"[^\w\s]")
_ARTICLES = {"a", "an", "the"}


def tokens(text: str) -> list[str]:
    """Split text into lower-case tokens without accents or punctuation."""
    decomposed = unicodedata.normalize("NFKD", text.lower())
    bare = "".join(c for c in decomposed if not unicodedata.combining(c))
    return _PUNCTUATION.sub(" ", bare).split()


def normalize(text: str) -> str:
    """Fold text to lower-case tokens joined by single blanks."""
    return " ".join(tokens(text))


def contains_answer(text: str, answers: Iterable[str]) -> bool:
    """Say whether any answer stands in the text as whole tokens.

    An answer that folds to nothing (only punctuation) never matches.
    """
    haystack = f" {normalize(text)} "
    needles = (normalize(answer) for answer in answers)
    return any(needle and f" {needle} " in haystack for needle in needles)


def exact_match(prediction: str, answers: Iterable[str]) -> bool:
    """Say whether the prediction equals an answer, articles left out."""
    given = _without_articles(prediction)
    return any(given == _without_articles(answer) for answer in answers)


def token_f1(prediction: str, answers: Sequence[str]) -> float:
    """Give the best token F1 over the answers, in [0, 1], articles left out (SQuAD)."""
    given = _without_articles(prediction)
    return max((_f1(given, _without_articles(answer)) for answer in answers), default=0.0)


def _without_articles(text: str) -> list[str]:
    return [token for token in tokens(text) if token not in _ARTICLES]


def _f1(given: list[str], gold: list[str]) -> float:
    if not given or not gold:
        return float(given == gold)
    common = sum((Counter(given) & Counter(gold)).values())
    return 2 * common / (len(given) + len(gold))
