"""Questions with a short answer: NQ-open, TriviaQA, PopQA, ASQA, PubHealth and ARC.

The papers are those of Lee et al. (2019), Joshi et al. (2017), Mallen et al. (2023), Stelmakh et
al. (2022), Kotonya and Toni (2020) and Clark et al. (2018). Long answers and explanations are left
out; nothing here judges one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.loaders._fields import (
    Row,
    decoded,
    mapping,
    passage,
    question_row,
    readable,
    records,
    sequence,
    text,
    texts,
)

VERDICTS = ("false", "mixture", "true", "unproven")  # in the order of the label's numbers
UNLABELLED = ("", "-1", "none")


def nq(row: Row) -> Row:
    """Read NQ-open: `answer` is a list of texts."""
    return question_row(row, text(row, "question"), texts("answer", row.get("answer")))


def triviaqa(row: Row) -> Row:
    """Read TriviaQA, in its own spelling of the fields or in that of the hub."""
    own = "Question" in row
    given = mapping("answer", row.get("Answer" if own else "answer"))
    names = ("Value", "Aliases", "HumanAnswers", "NormalizedAliases")
    if not own:
        names = ("value", "aliases", "", "normalized_aliases")
    value, *lists = (given.get(name) or [] for name in names)
    aliases = [each for values in lists for each in sequence("answer.aliases", values)]
    return question_row(
        row,
        text(row, "Question" if own else "question"),
        texts("answer", [*([value] if isinstance(value, str) else []), *aliases]),
        ids=("QuestionId", "question_id"),
        passages=readable(_trivia_passages(row)),
    )


def _trivia_passages(row: Row) -> Iterator[Row]:
    """Give the pages found for a question, where the copy has their texts."""
    for name, body in (("entity_pages", "wiki_context"), ("search_results", "search_context")):
        for page in records(name, row.get(name) or []):
            if isinstance(page.get(body), str):
                yield passage(page.get("title"), page[body])


def popqa(row: Row) -> Row:
    """Read PopQA: `possible_answers` is the JSON of a list; `title` that of the subject's page.

    CRAG labels passages by it (section 4.2).
    """
    answers = texts("possible_answers", decoded("possible_answers", row.get("possible_answers")))
    return question_row(row, text(row, "question"), answers, title=row.get("s_wiki_title"))


def asqa(row: Row) -> Row:
    """Read ASQA: each reading of the ambiguous question is a group of answers.

    The long answers of its annotators, where they are there, are `long_answers`.
    """
    name = "ambiguous_question" if "ambiguous_question" in row else "question"
    groups = answer_groups(row)
    answers = list(dict.fromkeys(itertools.chain(*groups)))
    ids = ("sample_id", "id")
    written = [
        each.get("long_answer") for each in records("annotations", row.get("annotations") or [])
    ]
    long = [each.strip() for each in written if isinstance(each, str) and each.strip()]
    more = {"answer_groups": groups, "long_answers": list(dict.fromkeys(long))}
    return question_row(row, text(row, name), answers, ids=ids, **more)


def answer_groups(row: Row) -> list[list[str]]:
    """Give the short answers to every reading of a question."""
    pairs = records("qa_pairs", row.get("qa_pairs"))
    if not pairs:
        raise InputError.of("qa_pairs", given=pairs, allowed="at least one reading")
    return [
        texts(f"qa_pairs[{i}].short_answers", pair.get("short_answers"))
        for i, pair in enumerate(pairs)
    ]


def pubhealth(row: Row) -> Row | None:
    """Read PubHealth: a claim, its verdict, and the article; None where the label is missing."""
    label = row.get("label")
    if isinstance(label, int) and not isinstance(label, bool) and 0 <= label < len(VERDICTS):
        label = VERDICTS[label]
    told = str("" if label is None else label).strip().lower()
    if told in UNLABELLED:
        return None
    if told not in VERDICTS:
        raise InputError.of("label", given=label, allowed=", ".join(VERDICTS))
    article = row.get("main_text")
    return question_row(
        row,
        text(row, "claim"),
        [told],
        ids=("claim_id", "id"),
        choices=[{"label": verdict, "text": verdict} for verdict in VERDICTS],
        passages=readable([passage("", article if isinstance(article, str) else "")]),
    )


def arc(row: Row) -> Row:
    """Read ARC, in its own shape (`question.stem`) or in that of the hub (`choices.text`)."""
    own = isinstance(row.get("question"), dict)
    home = row["question"] if own else row
    given = records("choices", home.get("choices"))
    choices = [{"label": text(each, "label"), "text": text(each, "text")} for each in given]
    key = text(row, "answerKey")
    right = [each["text"] for each in choices if each["label"] == key]
    if not right:
        allowed = f"one of {', '.join(each['label'] for each in choices)}"
        raise InputError.of("answerKey", given=key, allowed=allowed)
    return question_row(row, text(home, "stem" if own else "question"), right, choices=choices)
