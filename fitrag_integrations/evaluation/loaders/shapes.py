"""Table of the published shapes, and readers for their irregular fields.

Short answers: NQ-open (Lee et al., 2019), TriviaQA (Joshi et al., 2017), PopQA (Mallen et al.,
2023), ASQA (Stelmakh et al., 2022), PubHealth (Kotonya and Toni, 2020), ARC (Clark et al., 2018).
Several hops: HotpotQA (Yang et al., 2018), 2WikiMultihopQA (Ho et al., 2020), MuSiQue (Trivedi et
al., 2022). Over Wikipedia: KILT (Petroni et al., 2021), DPR (Karpukhin et al., 2020), biographies
of FActScore (Min et al., 2023). Runs: Self-RAG (Asai et al., 2024), BERGEN (Rau et al., 2024).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import methodcaller
from typing import Any, TypeAlias

from fitrag_integrations.core.checks import check_text
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.evaluation.loaders.fields import (
    decoded,
    mapping,
    pairs,
    passage,
    question_row,
    readable,
    records,
    sequence,
    text,
    texts,
)

VERDICTS = ("false", "mixture", "true", "unproven")  # of PubHealth, in the order of its numbers
QUESTIONS = ("question", "claim", "instruction")
CONTEXTS = ("ctxs", "docs", "top_contexts")
DPR_CONTEXTS = ("positive_ctxs", "hard_negative_ctxs", "negative_ctxs")
REFLECTION = re.compile(
    r"\[(?:No Retrieval|Retrieval|Irrelevant|Relevant|Fully supported|Partially supported|"
    r"No support / Contradictory|Continue to Use Evidence|Utility:[1-5])\]|</?paragraph>|</s>"
)
_PROMPT = re.compile(r"\A### Instruction:\n(?P<body>.*?)\n*### Response:\s*\Z", re.S)
_INPUT = re.compile(r"\A.*#{2,3} Input:\s*", re.S)
_CHOICES = re.compile(r"\nA: .*\Z", re.S)


def _trivia_answers(row: Row) -> list[str]:
    """Return value and aliases, in TriviaQA's spelling of the fields or in the hub's."""
    given = mapping("answer", row.get("Answer" if "Question" in row else "answer"))
    names = ("Value", "Aliases", "HumanAnswers", "NormalizedAliases")
    if "Question" not in row:
        names = ("value", "aliases", "", "normalized_aliases")
    value, *lists = (given.get(name) or [] for name in names)
    aliases = [each for values in lists for each in sequence("answer.aliases", values)]
    return texts("answer", [*([value] if isinstance(value, str) else []), *aliases])


def _trivia_passages(row: Row) -> list[Row]:
    """Return the retrieved pages of copies that include their texts."""
    return readable(
        passage(page.get("title"), page[body])
        for name, body in (("entity_pages", "wiki_context"), ("search_results", "search_context"))
        for page in records(name, row.get(name) or [])
        if isinstance(page.get(body), str)
    )


def _hop_passages(row: Row) -> list[Row]:
    supporting = {
        title for title, _ in pairs("supporting_facts", row.get("supporting_facts") or [])
    }
    return readable(
        passage(title, sentences, is_supporting=title in supporting)
        for title, sentences in pairs("context", row.get("context") or [])
    )


def _musique_passages(row: Row) -> list[Row]:
    return [
        passage(
            each.get("title"),
            text(each, "paragraph_text"),
            is_supporting=each.get("is_supporting", False),
        )
        for each in records("paragraphs", row.get("paragraphs"))
    ]


def _listed(row: Row, name: str, *kept: str, **labels: object) -> list[Row]:
    """Return the passages of a list of contexts, with the labels `kept` where they are known."""
    return readable(
        passage(
            each.get("title"),
            each.get("text"),
            **{label: each[label] for label in kept if label in each},
            **labels,
        )
        for each in records(name, row.get(name) or [])
    )


def _kilt_answers(row: Row) -> list[str]:
    """Return the answers of a KILT task, FEVER's verdict among them; refuse rows without any."""
    found = records("output", row.get("output"))
    answers = [each["answer"] for each in found if each.get("answer")]
    refuse_if(not answers, "output", found, "at least one answer, as dev and train have")
    return texts("output.answer", answers)


def _kilt_titles(row: Row) -> list[str]:
    """Return the titles of the pages that hold the answer, from which an evaluator is labeled."""
    pages = (
        page
        for each in records("output", row.get("output"))
        for page in records("provenance", each.get("provenance") or [])
    )
    return list(dict.fromkeys(str(page["title"]) for page in pages if page.get("title")))


def answer_groups(row: Row) -> list[list[str]]:
    """Return the short answers to every reading of an ASQA question."""
    given = records("qa_pairs", row.get("qa_pairs"))
    refuse_if(not given, "qa_pairs", given, "at least one reading")
    return [
        texts(f"qa_pairs[{i}].short_answers", pair.get("short_answers"))
        for i, pair in enumerate(given)
    ]


def _long_answers(row: Row) -> list[str]:
    given = records("annotations", row.get("annotations") or [])
    long = [text for each in given if isinstance(text := each.get("long_answer"), str)]
    return list(dict.fromkeys(text.strip() for text in long if text.strip()))


def _verdict(row: Row) -> list[str] | None:
    """Return a claim's verdict; None for a claim without a label."""
    label = row.get("label")
    if isinstance(label, int) and not isinstance(label, bool) and 0 <= label < len(VERDICTS):
        label = VERDICTS[label]
    verdict = str("" if label is None else label).strip().lower()
    if verdict in ("", "-1", "none"):
        return None
    refuse_if(verdict not in VERDICTS, "label", label, ", ".join(VERDICTS))
    return [verdict]


def _stem(row: Row) -> Row:
    """Return where ARC's choices are: in the question (its own shape) or in the row (the hub's)."""
    return row["question"] if isinstance(row.get("question"), dict) else row


def _choices(row: Row) -> list[Row]:
    given = records("choices", _stem(row).get("choices"))
    return [{"label": text(each, "label"), "text": text(each, "text")} for each in given]


def _right_choice(row: Row) -> list[str]:
    choices, key = _choices(row), text(row, "answerKey")
    right = [each["text"] for each in choices if each["label"] == key]
    refuse_if(not right, "answerKey", key, f"one of {', '.join(each['label'] for each in choices)}")
    return right


def _selfrag(row: Row) -> Row:
    """Read a row of Self-RAG's data or output, or of DPR's retriever output (`ctxs`).

    Reflection tokens are removed from the answer. Scores in the row are left out.
    """
    if isinstance(row.get("choices"), dict) and row.get("answerKey") is not None:
        made: Row = SHAPES["arc"].read(row) or {}
    else:
        groups = answer_groups(row) if row.get("qa_pairs") is not None else []
        answers = list(dict.fromkeys(itertools.chain(*groups))) if groups else _gold(row)
        question = text(row, next((name for name in QUESTIONS if row.get(name)), QUESTIONS[0]))
        made = question_row(row, question, answers, answer_groups=groups)
    name = next((each for each in CONTEXTS if row.get(each)), "")
    if found := _listed(row, name, "has_answer"):
        made = {**made, "passages": found}
    if isinstance(row.get("output"), str):
        answer = REFLECTION.sub(" ", row["output"]).strip()
        made = {**made, "prediction": {"SUPPORTS": "true", "REFUTES": "false"}.get(answer, answer)}
    return made


def _gold(row: Row) -> list[str]:
    """Return the gold answers; empty where the run leaves them to its data."""
    for name in ("answers", "golds", "possible_answers", "answer"):
        if row.get(name) not in (None, ""):
            value = decoded(name, row[name]) if name == "possible_answers" else row[name]
            return [] if value == [] else texts(name, value)
    raise InputError.of("answers", given=None, allowed="answers, golds, possible_answers or answer")


def selfrag_lists(given: Row) -> list[Row]:
    """Return the rows of a file of `run_short_form.py`: `preds`, `prompts` and `golds`.

    The published script leaves `golds` empty; then the answers have to come from the data.
    """
    preds, prompts = (sequence(name, given.get(name)) for name in ("preds", "prompts"))
    golds = sequence("golds", given.get("golds") or [[]] * len(preds))
    if not len(preds) == len(prompts) == len(golds):
        given = {"preds": len(preds), "prompts": len(prompts), "golds": len(golds)}
        raise InputError.of("preds", given=given, allowed="lists of one length")
    rows: list[Row] = []
    for pred, prompt, gold in zip(preds, prompts, golds, strict=True):
        question = check_text("prompts", prompt, blank=False)
        if found := _PROMPT.match(question):
            question = found["body"]
        question = _CHOICES.sub("", _INPUT.sub("", question)).strip()
        rows.append({"question": question, "output": pred, "golds": gold})
    return rows


Reads: TypeAlias = Callable[[Row], Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """Published shape: what identifies a row, and where its parts are.

    Args:
        fields: Fields that identify it.
        question: Alternative fields of the question; the first one present is read. Or a function
            of the row.
        answers: Field of the answers, or a function of the row; None as its result leaves the row
            out.
        ids: Alternative fields of the identifier.
        others: Functions of the row by the name of a converted field.
        whole: Reader of a whole row, for shapes that are no table of fields.
        fits: Further test of a row.
    """

    fields: tuple[str, ...]
    question: tuple[str, ...] | Reads = ("question",)
    answers: str | Reads = "answers"
    ids: tuple[str, ...] = ("id",)
    others: Mapping[str, Reads] = field(default_factory=dict)
    whole: Callable[[Row], Row] | None = None
    fits: Callable[[Row], bool] = lambda row: True

    def read(self, row: Row) -> Row | None:
        """Convert a row; None for one without a label."""
        if self.whole is not None:
            return self.whole(row)
        if isinstance(self.question, tuple):
            names = [name for name in self.question if name in row]
            asked = text(row, (*names, self.question[-1])[0])
        else:
            asked = self.question(row)
        if isinstance(self.answers, str):
            found = texts(self.answers, row.get(self.answers))
        else:
            found = self.answers(row)
        if found is None:
            return None
        more = {name: function(row) for name, function in self.others.items()}
        return question_row(row, asked, found, ids=self.ids, **more)


HOPS: Mapping[str, Reads] = {"passages": _hop_passages, "type": methodcaller("get", "type")}
SHAPES: dict[
    str, Shape
] = {  # the first match counts: a shape precedes those whose fields it shares
    "bergen": Shape(
        ("q_id", "question", "response", "label"),
        answers="label",
        ids=("q_id",),
        others={"prediction": lambda row: check_text("response", row.get("response"))},
    ),
    # no gold answers: `fitrag evaluate facts` judges each fact of the text
    "biography": Shape(
        ("topic",),
        lambda row: row.get("input") or f"Tell me a bio of {text(row, 'topic')}.",
        answers=lambda row: [],
        others={
            "topic": lambda row: text(row, "topic"),
            "passages": lambda row: _listed(row, "ctxs"),
            "facts": methodcaller("get", "facts"),
            "prediction": lambda row: (
                check_text("output", row["output"] or "") if "output" in row else None
            ),
        },
        fits=lambda row: "passages" not in row,
    ),
    "kilt": Shape(
        ("input", "output"),
        ("input",),
        _kilt_answers,
        others={"title": _kilt_titles},
        fits=lambda row: isinstance(row["output"], list),
    ),
    "dpr": Shape(
        ("question", "answers", "positive_ctxs"),
        others={
            "passages": lambda row: [  # the gold ones, then the negatives
                one
                for name in DPR_CONTEXTS
                for one in _listed(row, name, is_supporting=name == DPR_CONTEXTS[0])
            ]
        },
    ),
    "selfrag": Shape(
        (),
        whole=_selfrag,
        fits=lambda row: (  # rows with passages or a prediction are the package's own
            (isinstance(row.get("output"), str) or any(name in row for name in CONTEXTS))
            and "passages" not in row
            and "prediction" not in row
            and any(name in row for name in QUESTIONS)
        ),
    ),
    "popqa": Shape(
        ("question", "possible_answers"),
        answers=lambda row: texts(
            "possible_answers", decoded("possible_answers", row.get("possible_answers"))
        ),
        others={"title": methodcaller("get", "s_wiki_title")},  # labels passages (CRAG, 4.2)
    ),
    "musique": Shape(
        ("question", "answer", "paragraphs"),
        answers=lambda row: texts(
            "answer",
            [text(row, "answer"), *sequence("answer_aliases", row.get("answer_aliases") or [])],
        ),
        others={"passages": _musique_passages, "answerable": methodcaller("get", "answerable")},
    ),
    "2wiki": Shape(
        ("question", "answer", "context", "evidences"),
        answers="answer",
        ids=("_id", "id"),
        others=HOPS,
    ),
    "hotpotqa": Shape(
        ("question", "answer", "context", "supporting_facts"),
        answers="answer",
        ids=("_id", "id"),
        others=HOPS,
    ),
    "asqa": Shape(
        ("ambiguous_question", "qa_pairs"),
        ("ambiguous_question", "question"),
        lambda row: list(dict.fromkeys(itertools.chain(*answer_groups(row)))),
        ids=("sample_id", "id"),
        others={"answer_groups": answer_groups, "long_answers": _long_answers},
    ),
    "pubhealth": Shape(
        ("claim", "label"),
        ("claim",),
        _verdict,
        ids=("claim_id", "id"),
        others={
            "choices": lambda row: [{"label": each, "text": each} for each in VERDICTS],
            "passages": lambda row: readable(
                [passage("", each if isinstance(each := row.get("main_text"), str) else "")]
            ),
        },
    ),
    "arc": Shape(
        ("question", "answerKey"),
        lambda row: text(_stem(row), "question" if _stem(row) is row else "stem"),
        _right_choice,
        others={"choices": _choices},
    ),
    "fitrag": Shape(  # rows of this package stay as they are
        ("question", "answers"),
        whole=lambda row: {
            **row,
            "question": check_text("question", row.get("question"), blank=False),
        },
    ),
    "triviaqa": Shape(
        ("question", "answer"),
        ("Question", "question"),
        _trivia_answers,
        ids=("QuestionId", "question_id"),
        others={"passages": _trivia_passages},
        fits=lambda row: isinstance(row["answer"], Mapping),
    ),
    "triviaqa (original)": Shape(
        ("Question", "Answer"),
        ("Question", "question"),
        _trivia_answers,
        ids=("QuestionId", "question_id"),
        others={"passages": _trivia_passages},
    ),
    "nq": Shape(
        ("question", "answer"), answers="answer", fits=lambda row: isinstance(row["answer"], list)
    ),
}
FORMATS = tuple(name for name in SHAPES if " " not in name)
"""Shapes that can be named; `auto` recognizes one."""
