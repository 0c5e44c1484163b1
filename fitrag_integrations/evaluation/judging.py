"""Judge an answer to a question: by inclusion, exact match and token F1, or by a language model.

Inclusion is the papers' measure (IK, section 4; CRAG, section 5.2): a gold answer stands in the
prediction as whole tokens. Where a question has choices, the one that the prediction names counts;
where it has several readings (ASQA), the share of readings answered is its STR-EM, and where it has
long answers as well, ROUGE measures against those. Of an answer that was written in rounds (ITRG,
sections 3.4 and 4.2) each round has its own exact match, and its document the share of questions
whose answer it holds. A language model reads the gold answers, and says how likely an answer is
right (IK, section 3.3, where BERGEN calls it LLMEval), or how much of a text is supported
(FActScore, as CRAG measures biographies).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from fitrag_integrations.core.checks import check_is, check_many, check_number, check_text
from fitrag_integrations.core.record import Row, check_mapping
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.evaluation.answers import (
    contains_answer,
    exact_match,
    normalize,
    rouge_l,
    rouge_n,
    token_f1,
)
from fitrag_integrations.ports import YesNo
from fitrag_integrations.text.sentences import split_sentences
from fitrag_integrations.types import Passage

ACCURACY, EM, F1, GROUPS = "accuracy", "EM", "F1", "STR-EM"
ROUGE, ROUGE_1, ROUGE_2 = "ROUGE-L", "ROUGE-1", "ROUGE-2"
LLM = "LLM judge"
FACTS, PENALIZED, ANSWERED = "supported", "FActScore", "answered"
GAMMA = 10  # facts under which FActScore takes a text for too short
_LABEL = re.compile(
    r"(?:(?:the\s+)?(?:correct\s+)?answer\s*(?:is)?\s*:?\s*)?"
    r"\(?(?P<label>\w{1,2})(?:$|[).:,](?:\s|$))",
    re.IGNORECASE,
)


def judged(prediction: str, row: Row) -> dict[str, float]:
    """Compute `accuracy`, `EM` and `F1` in [0, 1], and the measures that the row has fields for.

    Args:
        prediction: Answer to judge.
        row: Row with `answers`, and optionally `choices[{label, text}]`, `answer_groups`
            (`STR-EM`), `long_answers` (ROUGE) and `rounds[{document, answer}]` (`EM` and `answer
            recall` of each).

    Raises:
        InputError: For a row without answers, or a field of another kind.
    """
    answers = gold(row)
    choices = row.get("choices")
    if choices:
        said = chosen(prediction, choices)
        is_right = said is not None and said in answers
        text = prediction if said is None else said
        return {ACCURACY: float(is_right), EM: float(text in answers), F1: token_f1(text, answers)}
    values = {
        ACCURACY: float(contains_answer(prediction, answers)),
        EM: float(exact_match(prediction, answers)),
        F1: token_f1(prediction, answers),
    }
    groups = [
        check_many(f"answer_groups[{at}]", group, str)
        for at, group in enumerate(
            check_many("answer_groups", row.get("answer_groups") or (), object)
        )
    ]
    if groups:
        held = [float(contains_answer(prediction, group)) for group in groups]
        values[GROUPS] = math.fsum(held) / len(held)
    if row.get("long_answers"):
        long = check_many("long_answers", row["long_answers"], str)
        values[ROUGE] = rouge_l(prediction, long)
        values |= {
            name: rouge_n(prediction, long, n) for n, name in enumerate((ROUGE_1, ROUGE_2), 1)
        }
    for n, given in enumerate(check_many("rounds", row.get("rounds") or (), object), start=1):
        each = check_mapping("rounds", given)
        if each.get("answer") is not None:
            values[f"EM, round {n}"] = float(
                exact_match(check_text("rounds.answer", each["answer"]), answers)
            )
        read = check_text("rounds.document", each.get("document"))
        values[f"answer recall, round {n}"] = float(contains_answer(read, answers))
    return values


def each_apart(row: Row) -> Row:
    """Treat each gold answer separately: `STR-EM` is then SlimPLM's EM (equation 2)."""
    return {**row, "answer_groups": row.get("answer_groups") or [[a] for a in gold(row)]}


def judge_prompt(question: str, answer: str, gold: Sequence[str]) -> str:
    """Return the prompt that the judge of an answer continues with Yes or No.

    Args:
        question: Question.
        answer: Answer to judge.
        gold: Gold answers.
    """
    return (
        f"Question: {question}\nRight answers: {'; '.join(gold)}\nAnswer given: {answer}\n"
        "Does the answer given say the same as one of the right answers? Yes or No:"
    )


def llm_judged(rows: Sequence[Row], judge: YesNo) -> list[float]:
    """Compute the probability that each answer is right, by a language model; 0.0 for blank ones.

    Args:
        rows: Rows of question, answers and prediction.
        judge: Model that judges; its errors are raised.
    """
    said = [predicted(row) for row in rows]
    asked = [
        judge_prompt(str(row["question"]), text, gold(row))
        for row, text in zip(rows, said, strict=True)
        if text.strip()
    ]
    found = iter(_yes(judge, asked))
    return [next(found) if text.strip() else 0.0 for text in said]


def fact_scores(
    rows: Sequence[Row],
    judge: YesNo,
    *,
    facts_of: Callable[[str], Sequence[str]] | None = None,
    gamma: int = GAMMA,
) -> list[dict[str, float]]:
    """Compute how much of each text its passages support, as FActScore does (Min et al., 2023).

    Args:
        rows: Rows of prediction, passages[{title, text}], topic (or else question), and `facts`.
        judge: Model that judges each fact.
        facts_of: Function from a text without `facts` to its facts; by default its sentences. The
            published figures rest on statements of one fact each, which a language model wrote.
        gamma: Number of facts below which a text is penalized as short; 0 for no penalty.

    Returns:
        For each row `answered`, and for a text with facts `supported`, the fraction of facts of
        which the judge says Yes above one half, and `FActScore`, that fraction with the penalty.
    """
    check_number("gamma", gamma, low=0)
    taken, asked = list[Sequence[str]](), list[str]()
    for row in rows:
        given = row.get("facts")
        if given is None:
            text = predicted(row)
            spans = split_sentences(text) if facts_of is None else ()
            found = facts_of(text) if facts_of else [text[start:end] for start, end in spans]
            given = [fact for fact in found if fact.strip()]
        facts = check_many("facts", given, str)
        taken.append(facts)
        read = row["passages"] if facts else ()
        shown = [Passage("", p.get("text", ""), p.get("title") or "") for p in read]
        passages = "\n".join(f"{one.title}: {one.text}" if one.title else one.text for one in shown)
        topic = row.get("topic") or row.get("question")
        asked += [
            f"{passages}\n\nStatement about {topic}: {fact}\n"
            "Do the passages above say that the statement is true? Yes or No:"
            for fact in facts
        ]
    said, made = iter(_yes(judge, asked)), []
    for count in map(len, taken):
        supported = [next(said) > 0.5 for _ in range(count)]
        if not count:
            made.append({ANSWERED: 0.0})
            continue
        share, penalty = (
            sum(supported) / count,
            math.exp(1 - gamma / count) if gamma > count else 1.0,
        )
        made.append({ANSWERED: 1.0, FACTS: share, PENALIZED: share * penalty})
    return made


def _yes(judge: YesNo, prompts: Sequence[str]) -> list[float]:
    found = list(judge.p_yes(prompts)) if prompts else []
    for answer in found:
        if isinstance(answer, Exception):  # a server's, in the place of its item
            raise answer
    return [check_number("p_yes", answer, low=0.0, high=1.0) for answer in found]


def gold(row: Row) -> list[str]:
    """Return the gold answers that are not blank; raises `InputError` if there is none."""
    given = row.get("answers")
    texts = isinstance(given, list | tuple) and all(isinstance(each, str) for each in given)
    found = [each for each in given or () if each.strip()] if texts else []
    refuse_if(not found, "answers", given, "a list of at least one text")
    return found


def predicted(row: Row) -> str:
    """Return `prediction`, or else `answer`; the empty text for a row with an error."""
    given = row.get("prediction")
    given = row.get("answer") if given is None else given
    if given is None and row.get("error") is not None:
        return ""
    return check_is("prediction", given, str, "a text, here or in `answer`")


def chosen(prediction: str, choices: Sequence[Row]) -> str | None:
    """Return the text of the choice that a prediction names; None unless it is exactly one.

    A prediction begins with the choice's label (`B`, `(B)`, `B: ...`), or holds its text and that
    of no other; a choice whose words are part of another's does not count beside it.

    Args:
        prediction: Answer.
        choices: Objects with label and text.

    Raises:
        InputError: For a choice without label or text.
    """
    given = [check_mapping("choices", choice) for choice in check_many("choices", choices, object)]
    by_label = {_told(one, "label").lower(): _told(one, "text") for one in given}
    found = _LABEL.match(prediction.strip())
    if found is not None and found["label"].lower() in by_label:
        return by_label[found["label"].lower()]
    held = [text for text in by_label.values() if contains_answer(prediction, [text])]
    alone = [
        text
        for text in held  # and of no other choice
        if not any(
            normalize(other) != normalize(text) and contains_answer(other, [text]) for other in held
        )
    ]
    return alone[0] if len(alone) == 1 else None


def _told(choice: Row, name: str) -> str:
    value = choice.get(name)
    return str(value) if isinstance(value, int) else check_text(f"choices.{name}", value)
