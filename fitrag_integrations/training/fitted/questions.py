"""Generate questions from passages, with answers, and keep those that can be answered.

A question is kept if the same language model can answer it from its passage (round-trip
consistency: Alberti et al., 2019, arXiv:1906.05416) and it is not a near-duplicate. A reader cannot
write; for it, a name or a number is left out of a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fitrag_integrations.core.checks import check_many, check_text
from fitrag_integrations.core.generic import T
from fitrag_integrations.core.jsonl import write_jsonl
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.evaluation.answers import is_correct, tokens
from fitrag_integrations.evaluation.rows import ROW_KINDS, records_in
from fitrag_integrations.methods.ik.gates import KNOW
from fitrag_integrations.text.blocks import PROSE, blocks_of
from fitrag_integrations.text.replies import read_yes_no
from fitrag_integrations.text.sentences import split_sentences
from fitrag_integrations.types import Context, Excerpt, Passage

if TYPE_CHECKING:  # it loads torch
    from fitrag_integrations.training.fitted.oracle import Oracle

GAP = "what"
WORDS = range(8, 41)  # of a sentence that a question is made of
ALIKE = 0.7  # of the words of both questions together: one of them goes
WRITTEN_MORE = 1.5  # times the questions asked for, since some do not come back
WRITE = (
    "Write one question that the passage below answers, as somebody would ask it who has not seen "
    "the passage, and its answer in at most five words of the passage.\n\n"
    "Passage: {passage}\n\nReply in two lines:\nQuestion: ...\nAnswer: ..."
)
_REPLY = re.compile(r"question:\s*(.+?)\s*\n+\s*answer:\s*(.+?)\s*(?:\n|$)", re.I | re.S)
# Items, headings, tables, quotes, comments, tags, indented code.
_NO_PROSE = re.compile(r"\s*(?:[-*+•#|<>@$%{}\[\]`]|//|\d+[.)]\s|\.\. )|(?: {4}|\t)\S")
_SIGNS = re.compile(
    r"[|<>{}\[\]`*_=\\#@^~$]|://|::|->|--|\w\(|\w\.\w+\(|\w/\w+/|\b\w+\.[a-z]{2,4}\b"
)
_FACT = re.compile(r"(?<=[a-z,;] )(?:\d[\d.,]*\d|[A-Z][\w'-]+(?: [A-Z][\w'-]+)*)(?=[ ,.;])")


@dataclass(frozen=True, slots=True)
class Asked:
    """Question with its answers.

    Args:
        question: The question.
        answers: Its answers; empty if they are unknown.
        passage: Text that the question was generated from; blank for a question from a person.
    """

    question: str
    answers: tuple[str, ...] = ()
    passage: str = ""


def questions_in(file: Path, count: int) -> list[Asked]:
    """Read questions from a file.

    Args:
        file: Rows, as `asked_of` reads them, or a text with one question per line.
        count: Maximum number of questions, evenly spaced.

    Raises:
        InputError: If the file is missing or contains no question, or a row is invalid.
    """
    if not file.is_file():
        raise InputError.missing("File of questions", file)
    if file.name.lower().endswith(ROW_KINDS):
        asked = [asked_of(row, f"{file}, row {n}") for n, row in enumerate(records_in(file), 1)]
    else:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
        asked = [Asked(line.strip()) for line in lines if line.strip()]
    refuse_if(not asked, "questions", str(file), "at least one question")
    return spread(asked, count)


def asked_of(row: Mapping[str, object], place: str) -> Asked:
    """Parse a row with `question` and optionally `answers` or `answer`.

    Args:
        row: The row.
        place: Name of the row in errors.

    Raises:
        InputError: If the question is missing or blank, or an answer is no text.
    """
    question = check_text(f"{place}: question", row.get("question"), blank=False)
    given, made_of = row.get("answers", row.get("answer")), row.get("made_of", "")
    answers = [given] if isinstance(given, str) else given or ()
    found = check_many(f"{place}: answers", answers, str)
    return Asked(question, found, made_of if isinstance(made_of, str) else "")


def write_questions(file: Path, asked: Iterable[Asked]) -> None:
    """Write questions to a JSON Lines file, atomically.

    Args:
        file: File to write; it can be edited by hand.
        asked: Questions.
    """
    rows = (
        {"question": one.question, "answers": list(one.answers)}
        | ({"made_of": one.passage} if one.passage else {})
        for one in asked
    )
    write_jsonl(file, rows)


def written_questions(passages: Sequence[Passage], count: int, oracle: Oracle) -> list[Asked]:
    """Generate questions from evenly spaced passages; fewer than `count` if some fail.

    Args:
        passages: Passages.
        count: Maximum number of questions.
        oracle: Language model or reader.
    """
    if not oracle.writes:
        return different(questions_from(passages, round(WRITTEN_MORE * count)))[:count]
    sampled = spread(passages, round(WRITTEN_MORE * count))
    replies = oracle.texts([WRITE.format(passage=f"{p.title}\n{p.text}".strip()) for p in sampled])
    made = []
    for passage, reply in zip(sampled, replies, strict=True):
        if (found := _REPLY.search(reply or "")) and "?" in found[1]:
            made.append(Asked(" ".join(found[1].split()), (found[2].strip(" .\"'"),), passage.text))
    again = oracle.answers(
        [Context(one.question, (Excerpt.whole(Passage("", one.passage)),)) for one in made]
    )
    right = [
        one
        for one, answer in zip(made, again, strict=True)
        if answer is not None and is_correct(answer, one.answers)
    ]
    return different(right)[:count]


def refreshed(
    asked: Sequence[Asked], passages: Sequence[Passage], count: int, oracle: Oracle
) -> list[Asked]:
    """Replace the questions about removed passages by questions about new passages.

    Args:
        asked: Questions so far.
        passages: Passages there are now.
        count: Maximum number of questions.
        oracle: Language model or reader.
    """
    texts, used = {one.text for one in passages}, {one.passage for one in asked}
    kept = [one for one in asked if not one.passage or one.passage in texts]
    if all(not one.passage for one in asked) or len(kept) >= count:
        return kept
    unused = [one for one in passages if one.text not in used]
    return different([*kept, *written_questions(unused, count - len(kept), oracle)])


def says_it_knows(questions: Sequence[str], oracle: Oracle) -> list[float]:
    """Ask the language model whether it can answer each question.

    Args:
        questions: Questions.
        oracle: Language model.

    Returns:
        1.0 for each question that it says it can answer, else 0.0.
    """
    prompts = [KNOW.text.format(question=each) for each in questions]
    return [float(read_yes_no(reply or "") is True) for reply in oracle.texts(prompts)]


def with_answers(
    asked: Sequence[Asked], answer: Callable[[list[str]], Sequence[str | None]]
) -> list[Asked]:
    """Answer the questions without a known answer; drop those that get none.

    Args:
        asked: Questions.
        answer: Function that answers some questions.
    """
    open_ = [one.question for one in asked if not one.answers]
    found = dict(zip(open_, answer(open_), strict=True))
    whole = [
        replace(one, answers=one.answers or ((found[one.question] or "").strip(),)) for one in asked
    ]
    return [one for one in whole if one.answers != ("",)]


def each_once(asked: Iterable[Asked]) -> list[Asked]:
    """Drop repeated questions; the last version takes the place of the first."""
    return list({one.question: one for one in asked}.values())


def different(asked: Sequence[Asked]) -> list[Asked]:
    """Drop questions that share most of their words with an earlier one."""
    kept: list[tuple[Asked, set[str]]] = []
    for one in asked:
        words = set(tokens(one.question))
        if all(len(words & other) < ALIKE * len(words | other) for _, other in kept):
            kept.append((one, words))
    return [one for one, _ in kept]


def questions_from(passages: Sequence[Passage], count: int) -> list[Asked]:
    """Generate questions from sentences by leaving out a name or a number, the answer.

    Only sentences of prose are used: code, tables, lists, tags and badges make no questions.

    Args:
        passages: Passages.
        count: Maximum number of questions, evenly spaced.
    """
    made = {one.question: one for one in map(_question_from, passages) if one is not None}
    return spread(list(made.values()), count)


def _question_from(passage: Passage) -> Asked | None:
    for start, end, kind, _ in blocks_of(passage.text):
        block = passage.text[start:end]
        if kind != PROSE or _NO_PROSE.match(block):
            continue
        for first, last in split_sentences(block):
            sentence = " ".join(block[first:last].split())
            found = _FACT.search(sentence)
            if found is not None and _is_prose(sentence):
                question = f"{sentence[: found.start()]}{GAP}{sentence[found.end() :]}"
                return Asked(question.rstrip(".!;, ") + "?", (found[0],), passage.text)
    return None


def _is_prose(sentence: str) -> bool:
    """Check whether a sentence is whole, of words, and without what code and markup are made of."""
    words = sentence.split()
    plain = sum(word.strip(".,;:!?()'\"“”‘’").isalpha() for word in words)
    return (
        len(words) in WORDS
        and sentence[0].isupper()
        and sentence.rstrip("\"'”’)")[-1:] in {".", "!", "?"}
        and not _SIGNS.search(sentence)
        and plain >= 0.7 * len(words)
        and sum(word[0].islower() for word in words) >= 0.5 * len(words)
    )


def spread(items: Sequence[T], count: int) -> list[T]:
    """Return evenly spaced items; all if there are fewer than `count`.

    Args:
        items: Items.
        count: Maximum number of items.
    """
    count = min(count, len(items))
    return [items[i * len(items) // count] for i in range(count)]
