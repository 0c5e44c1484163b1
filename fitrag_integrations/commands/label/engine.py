"""Label rows lot by lot: find passages, have them read, write the rows, in the input's order.

A row is written when all its passages are settled, and the answers before that into the journal.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from fitrag_integrations.commands.engine.resume import resume
from fitrag_integrations.commands.engine.rows import (
    Row,
    error_row,
    passages_of,
    question_of,
    read_rows,
)
from fitrag_integrations.core import jsonl
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.answers import check_answers
from fitrag_integrations.training.asking_llm import Asker
from fitrag_integrations.training.collecting import (
    Failed,
    LabelCounts,
    Question,
    Told,
    count_labels,
    passage_labels,
)
from fitrag_integrations.training.labels.budget import Account
from fitrag_integrations.training.labels.journal import AnswerJournal
from fitrag_integrations.types import Passage

ADDS = ("passages", "llm")
FOR_READERS = ("passage", "negatives", "answer_start")  # of a reading row; not written out
TOLD_EVERY = 10.0  # seconds
Found: TypeAlias = Callable[[Sequence[str]], Sequence[Sequence[Passage]]]
Outcomes: TypeAlias = list[Told | Failed | None]


@dataclass(frozen=True)
class Rows:
    """Make questions of rows. `find` searches where a row brings no passages of its own.

    `depth` is the most passages a question gets. Answers are regular expressions with `patterns`.
    With `unanswered` a row may have none, if it has a `passage` that is known to hold it.
    """

    find: Found | None
    depth: int = 50
    patterns: bool = False
    unanswered: bool = False

    def questions(self, rows: Sequence[Row]) -> list[Question | Exception]:
        """Give each row's question, or what is wrong with the row."""
        begun = [self._begun(row) for row in rows]
        open_ = [q.text for q in begun if isinstance(q, Question) and not q.passages]
        found = iter(self.find(open_) if self.find is not None and open_ else ())
        return [
            _with_passages(q, next(found)) if isinstance(q, Question) and not q.passages else q
            for q in begun
        ]

    def _begun(self, row: Row) -> Question | Exception:
        if row.problem is not None:
            return row.problem
        try:
            own = self.find is None or "passages" in row.given
            passages = tuple(passages_of(row.given)[: self.depth]) if own else ()
            answers, gold = self._answers(row.given), _gold(row.given)
            if self.patterns and answers:
                check_answers(answers, patterns=True)
            return Question(question_of(row.given), answers, passages, self.patterns, gold)
        except InputError as error:
            return error

    def _answers(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        if self.unanswered and not row.get("answers") and _gold(row) is not None:
            return ()
        return check_answers(row.get("answers"), patterns=self.patterns)


@dataclass
class Labelling:
    """Ask about the passages of rows and write what comes of it.

    `at_once` pairs make a lot, as far as whole questions do. `tell` hears how it goes.
    """

    adds: ClassVar[tuple[str, ...]] = ADDS
    asker: Asker
    journal: AnswerJournal
    account: Account
    at_once: int = 32
    tell: Callable[[str], None] | None = None
    _told: float = field(default_factory=time.monotonic)
    _done: int = 0

    def run(self, rows: Sequence[Row], target: Path, making: Rows) -> LabelCounts:
        """Label all rows, or those the account allows; gives the counts of the whole output."""
        self.write(rows, target, making)
        return count_labels(row.given for row in read_rows(jsonl.read_lines(str(target))))

    def write(self, rows: Sequence[Row], target: Path, making: Rows) -> None:
        """Label all rows, or those the account allows, after those that are already there."""
        kept = [Row(_kept(row.given), row.problem) for row in rows]
        if target.exists():
            done, _ = resume(target, iter(kept), self.adds)
            self._done = done.rows
        with jsonl.appending(str(target)) as write:
            for lot in _lots(rows, self._done, making.depth, self.at_once):
                if self.account.stopped:
                    break
                questions = making.questions(rows[lot])
                whole = list(self._labelled(rows[lot], kept[lot], questions))
                write(b"".join(map(jsonl.dump, whole)))
                self.journal.sync()
                self._done += len(whole)
                self._tell(len(rows))

    def _labelled(
        self, rows: Sequence[Row], kept: Sequence[Row], questions: Sequence[Question | Exception]
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows to write, up to the first that had to be left unfinished."""
        sound = [q for q in questions if isinstance(q, Question)]
        answered = iter(self._answered(sound))
        for row, plain, question in zip(rows, kept, questions, strict=True):
            if isinstance(question, Exception):
                yield error_row(plain, question)
                continue
            outcomes = next(answered)
            if question.answers and not is_settled(outcomes, self.account):
                return
            try:
                yield self._row(row, plain, question, outcomes)
            except InputError as error:  # a pattern that never comes to an end
                yield error_row(plain, error)

    def _row(self, row: Row, plain: Row, question: Question, outcomes: Outcomes) -> dict[str, Any]:
        labels = passage_labels(question, outcomes)
        own = row.given.get("passages")
        given: Iterable[Mapping[str, Any]] = (
            own[: len(labels)] if isinstance(own, list) else map(_plain_passage, question.passages)
        )
        passages = [{**one, **told} for one, told in zip(given, labels, strict=True)]
        return {**plain.given, "passages": passages, "llm": self.asker.name}

    def _answered(self, questions: Sequence[Question]) -> list[Outcomes]:
        """Give the outcomes of each question's passages; what is in the journal is not asked."""
        outcomes: list[Outcomes] = [[None] * len(q.passages) for q in questions]
        places: dict[str, list[tuple[int, int]]] = {}
        pairs: dict[str, tuple[str, Passage]] = {}
        for i, question in enumerate(questions):
            for j, passage in enumerate(question.passages if question.answers else ()):
                prompt = self.asker.prompt(question.text, passage)
                outcomes[i][j] = known = self.journal.get(prompt)
                if known is None:  # the same prompt twice in a lot is asked once
                    places.setdefault(prompt, []).append((i, j))
                    pairs[prompt] = question.text, passage
        prompts = list(pairs)

        def heard(at: int, outcome: Told | Failed) -> None:
            outcome = self._heard(prompts[at], outcome)
            for i, j in places[prompts[at]]:
                outcomes[i][j] = outcome

        may = self.account.may if self.asker.keeps else _always
        self.asker.ask([pairs[prompt] for prompt in prompts], heard, may)
        return outcomes

    def _heard(self, prompt: str, outcome: Told | Failed) -> Told | Failed:
        if not self.asker.keeps:
            self.account.asked += 1
            return outcome
        outcome = self.account.heard(prompt, outcome)
        if isinstance(outcome, Told):
            self.journal.add(prompt, outcome)
        elif outcome.tokens != (0, 0):
            self.journal.pay(outcome.tokens)
        return outcome

    def _tell(self, total: int) -> None:
        now = time.monotonic()
        if self.tell is not None and now - self._told >= TOLD_EVERY:
            self._told = now
            self.tell(f"{self._done}/{total} questions, {self.account}")


def plan_file(path: Path) -> str:
    """Name a file by its name and what is in it."""
    with path.open("rb") as file:
        return f"{path.name} (sha256 {hashlib.file_digest(file, 'sha256').hexdigest()[:16]})"


def _lots(rows: Sequence[Row], start: int, depth: int, at_once: int) -> Iterator[slice]:
    """Cut rows into lots of at least `at_once` pairs, the last one maybe smaller."""
    pairs = 0
    for end, row in enumerate(rows[start:], start + 1):
        own = row.given.get("passages")
        pairs += min(depth, len(own)) if isinstance(own, list) else depth
        if pairs >= at_once or end == len(rows):
            yield slice(start, end)
            start, pairs = end, 0


def is_settled(outcomes: Outcomes, account: Account) -> bool:
    """Say whether a row can be written; one that failed as the run was given up is asked anew."""
    if None in outcomes:
        return False
    return not (account.stopped and any(isinstance(outcome, Failed) for outcome in outcomes))


def _with_passages(question: Question, found: Sequence[Passage]) -> Question:
    return Question(question.text, question.answers, tuple(found), question.patterns, question.gold)


def _gold(row: Mapping[str, Any]) -> str | None:
    passage = row.get("passage")
    text = passage.get("text") if isinstance(passage, dict) else None
    return text if isinstance(text, str) else None


def _kept(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in FOR_READERS}


def _plain_passage(passage: Passage) -> dict[str, Any]:
    named = {"id": passage.id} if passage.id else {}
    return {**named, "title": passage.title, "text": passage.text}


def _always(prompt: str) -> bool:
    return True
