"""Run files of others: what Self-RAG's scripts and BERGEN write, answers to be judged again.

Asai et al. (2024, `retrieval_lm`) write rows of data with an `output`, or one object of lists;
BERGEN (Rau et al., 2024) a list of `eval_<split>_out.json`. Reflection tokens are no part of an
answer and are taken out; scores that a run file brings are left out, ours are computed.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from fitrag_integrations.core.checks import check_text
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.loaders._fields import (
    Row,
    decoded,
    passage,
    question_row,
    readable,
    records,
    sequence,
    text,
    texts,
)
from fitrag_integrations.evaluation.loaders.single import answer_groups, arc

ASKED = ("question", "claim", "instruction")
CONTEXTS = ("ctxs", "docs", "top_contexts")
REFLECTION = re.compile(
    r"\[(?:No Retrieval|Retrieval|Irrelevant|Relevant|Fully supported|Partially supported|"
    r"No support / Contradictory|Continue to Use Evidence|Utility:[1-5])\]|</?paragraph>|</s>"
)
_PROMPT = re.compile(r"\A### Instruction:\n(?P<told>.*?)\n*### Response:\s*\Z", re.S)
_INPUT = re.compile(r"\A.*#{2,3} Input:\s*", re.S)
_CHOICES = re.compile(r"\nA: .*\Z", re.S)
WORDS = {"SUPPORTS": "true", "REFUTES": "false"}


def selfrag(row: Row) -> Row:
    """Read a row of Self-RAG's data or of its output; DPR's lists of `ctxs` are the same."""
    if isinstance(row.get("choices"), dict) and row.get("answerKey") is not None:
        made = arc(row)
    else:
        groups = answer_groups(row) if row.get("qa_pairs") is not None else []
        answers = _gold(row, groups)
        made = question_row(row, _question(row), answers, answer_groups=groups)
    found = readable(_contexts(row))
    told = {"prediction": _said(row["output"])} if isinstance(row.get("output"), str) else {}
    return {**made, **({"passages": found} if found else {}), **told}


def selfrag_lists(given: Row) -> list[Row]:
    """Take apart what `run_short_form.py` writes: `preds`, `prompts` and, if filled, `golds`.

    The published script leaves `golds` empty: answers have to come from the data then.
    """
    preds, prompts = (sequence(name, given.get(name)) for name in ("preds", "prompts"))
    golds = sequence("golds", given.get("golds") or [[]] * len(preds))
    if not len(preds) == len(prompts) == len(golds):
        given = {"preds": len(preds), "prompts": len(prompts), "golds": len(golds)}
        raise InputError.of("preds", given=given, allowed="lists of one length")
    return [
        {"question": _asked(prompt), "output": pred, "golds": gold}
        for pred, prompt, gold in zip(preds, prompts, golds, strict=True)
    ]


def bergen(row: Row) -> Row:
    """Read BERGEN's output: `question`, `label` (a list) and `response`."""
    said = check_text("response", row.get("response"))
    answers = texts("label", row.get("label"))
    return question_row(row, text(row, "question"), answers, ids=("q_id",), prediction=said)


def _question(row: Row) -> str:
    return text(row, next((name for name in ASKED if row.get(name)), ASKED[0]))


def _gold(row: Row, groups: list[list[str]]) -> list[str]:
    """Find the gold answers; an empty `golds` is left to whoever has the data."""
    if groups:
        return list(dict.fromkeys(itertools.chain(*groups)))
    for name in ("answers", "golds", "possible_answers", "answer"):
        if row.get(name) not in (None, ""):
            value = decoded(name, row[name]) if name == "possible_answers" else row[name]
            return [] if value == [] else texts(name, value)
    raise InputError.of("answers", given=None, allowed="answers, golds, possible_answers or answer")


def _contexts(row: Row) -> Iterator[Row]:
    name = next((each for each in CONTEXTS if row.get(each)), None)
    for each in records(name, row[name]) if name else ():
        labels = {"has_answer": each["has_answer"]} if "has_answer" in each else {}
        yield passage(each.get("title"), each.get("text"), **labels)


def _said(output: str) -> str:
    return WORDS.get(found := REFLECTION.sub(" ", output).strip(), found)


def _asked(prompt: object) -> str:
    told = check_text("prompts", prompt, blank=False)
    found = _PROMPT.match(told)
    return _CHOICES.sub("", _INPUT.sub("", found["told"] if found else told)).strip()
