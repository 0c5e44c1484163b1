"""Compare answers as open-domain question answering does.

Whole-token matching is DPR's (Karpukhin et al., 2020): "US" is not found inside "because". Token F1
is SQuAD's (Rajpurkar et al., 2016). Both fold case, accents and punctuation. CuratedTREC's answers
are regular expressions, which fold case and accents.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import regex  # type: ignore[import-untyped]

from fitrag_integrations.errors import InputError, refuse_if

PATTERN_SECONDS = 2.0
"""How long a pattern may search a text: some never come to an end."""
_PUNCTUATION = re.compile(r"[^\w\s]")
_ARTICLES = {"a", "an", "the"}


def tokens(text: str) -> list[str]:
    """Split text into lower-case tokens without accents or punctuation."""
    return _PUNCTUATION.sub(" ", _bare(text.lower())).split()


def normalize(text: str) -> str:
    """Fold text to lower-case tokens joined by single blanks."""
    return " ".join(tokens(text))


def contains_answer(text: str, answers: Iterable[str]) -> bool:
    """Return whether a text contains any answer as whole tokens.

    Args:
        text: Text to search.
        answers: Gold answers; one of only punctuation and articles never matches.
    """
    haystack = f" {normalize(text)} "
    return any(f" {normalize(each)} " in haystack for each in answers if _without_articles(each))


def matches_pattern(text: str, patterns: Iterable[str]) -> bool:
    """Return whether any regular expression matches in the text, at word boundaries.

    Case and accents are folded in both.

    Args:
        text: Text to search.
        patterns: Regular expressions.

    Raises:
        InputError: For an invalid expression, one that matches the empty text, and one that takes
            over `PATTERN_SECONDS`.
    """
    bare = _bare(text)
    for pattern in patterns:
        try:
            if _compiled(pattern).search(bare, timeout=PATTERN_SECONDS):
                return True
        except TimeoutError:
            raise InputError.of(
                "answers",
                given=pattern,
                allowed=f"an expression that searches a text in {PATTERN_SECONDS:g} s",
            ) from None
    return False


def check_answers(given: object, *, patterns: bool = False) -> tuple[str, ...]:
    """Require a list of gold answers that can be searched for.

    Args:
        given: Answers; a single text is a list of one.
        patterns: Whether each must be a regular expression.

    Raises:
        InputError: If there is none, and for an answer that is no text, folds to nothing or is a
            single letter, which stands in almost any passage. Digits and Chinese characters alone
            are answers.
    """
    answers: Any = [given] if isinstance(given, str) else given
    refuse_if(
        not isinstance(answers, list | tuple) or not answers,
        "answers",
        given,
        "a list of at least one text",
    )
    for i, answer in enumerate(answers):
        folded = ""
        if isinstance(answer, str):
            folded = answer.strip() if patterns else normalize(answer)
        is_letter = len(folded) == 1 and folded.isalpha()
        is_letter = is_letter and not unicodedata.name(folded, "").startswith("CJK")
        refuse_if(not folded or is_letter, f"answers[{i}]", answer, "a text of more than a letter")
        if patterns:
            _compiled(answer)
    return tuple(answers)


def exact_match(prediction: str, answers: Iterable[str]) -> bool:
    """Return whether a prediction equals an answer, without articles.

    Args:
        prediction: Prediction; if nothing is left of it, it never matches.
        answers: Gold answers.
    """
    given = _without_articles(prediction)
    return bool(given) and any(given == _without_articles(answer) for answer in answers)


def is_correct(answer: str, gold: Sequence[str]) -> bool:
    """Return whether an answer contains or equals a gold answer, without articles.

    Args:
        answer: Answer.
        gold: Gold answers.
    """
    return contains_answer(answer, gold) or exact_match(answer, gold)


def token_f1(prediction: str, answers: Sequence[str]) -> float:
    """Compute the best token F1 over the answers, without articles (SQuAD).

    Args:
        prediction: Prediction.
        answers: Gold answers.

    Returns:
        F1, in [0, 1].
    """
    given, best = _without_articles(prediction), 0.0
    for gold in map(_without_articles, answers):
        common = (Counter(given) & Counter(gold)).total()
        best = max(best, 2 * common / max(1, len(given) + len(gold)))
    return best


def rouge_l(prediction: str, references: Sequence[str]) -> float:
    """Compute the best ROUGE-L over long answers: F1 of the longest common subsequence.

    Lin (2004), section 3; tokens are those of this module, without stemming.

    Args:
        prediction: Prediction.
        references: Gold answers.

    Returns:
        F1, in [0, 1].
    """
    given, golds = tokens(prediction), map(tokens, references)
    return max((2 * _common(given, g) / max(1, len(given) + len(g)) for g in golds), default=0.0)


def rouge_n(prediction: str, references: Sequence[str], n: int) -> float:
    """Compute the best ROUGE-N over long answers: F1 of the common runs of tokens.

    Lin (2004), section 2; tokens are those of this module, without stemming.

    Args:
        prediction: Prediction.
        references: Gold answers.
        n: Number of tokens in a run.

    Returns:
        F1, in [0, 1].
    """
    given, *golds = (
        Counter(zip(*(said[at:] for at in range(n)), strict=False))
        for said in map(tokens, (prediction, *references))
    )
    common = ((2 * (given & g).total(), given.total() + g.total()) for g in golds)
    return max((both / max(1, all_) for both, all_ in common), default=0.0)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Measure the longest common subsequence, a row of bits at a time (Hyyrö, 2004)."""
    places: dict[str, int] = {}
    for at, token in enumerate(one):
        places[token] = places.get(token, 0) | 1 << at
    whole = free = (1 << len(one)) - 1
    for token in other:
        met = free & places.get(token, 0)
        free = (free + met | free - met) & whole
    return len(one) - free.bit_count()


def _bare(text: str) -> str:
    """Remove accents, character by character: NFKD sorts a run of marks by insertion."""
    return text if text.isascii() else "".join(map(_bare_sign, text))


@lru_cache(maxsize=16384)
def _bare_sign(sign: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKD", sign) if not unicodedata.combining(c))


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> Any:
    try:
        found = regex.compile(rf"(?<!\w)(?:{_bare(pattern)})(?!\w)", regex.IGNORECASE)
        empty = found.search("", timeout=PATTERN_SECONDS) is not None
    except (regex.error, TimeoutError) as error:
        raise InputError.of(
            "answers", given=pattern, allowed=f"a regular expression: {error}"
        ) from None
    refuse_if(empty, "answers", pattern, "a regular expression that does not match the empty text")
    return found


def _without_articles(text: str) -> list[str]:
    return [token for token in tokens(text) if token not in _ARTICLES]
