"""Read what a method can be set to off its dataclass, so that no adapter spells it again.

A drop-in takes its options from here: a field that is added to a method is an option of both
frameworks' drop-ins from then on, with its type, its default and, where `TOLD` has it, its meaning.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from inspect import Parameter
from types import GenericAlias
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from fitrag_integrations.errors import InputError

TOLD: Mapping[str, str] = {
    "scorer": "An object with score(pairs); None is the embedded scorer, loaded at first use.",
    "evaluator": "An object with evaluate(pairs), a scorer or a callable; None is the embedded "
    "one.",
    "gate": "An object with p_known(questions, drafts), or a recognizer with decide.",
    "detector": "An object with eligible(combinations) that says when the excerpts are enough; "
    "None is the embedded one where it fits, False keeps all.",
    "proxy": "What writes the heuristic answer; None is the judge's own drafter, else the "
    "embedded model.",
    "judge": "A gate, or an object with judge or generate; None is the embedded gate.",
    "rewriter": "What writes claims and queries; None is the language model, and without either "
    "the question itself is retrieved for.",
    "rewriter_prompt": "A template or the name of one: paper, released or instruct.",
    "top_n": "Passages or strips kept of what was retrieved.",
    "k": "Passages to keep at most, best first.",
    "window": "Sentences in a window; None is one, or three for a scorer of whole texts.",
    "stride": "Sentences between the starts of two windows, at most window.",
    "max_tokens": "Tokens that all excerpts together may cost; None is no limit.",
    "max_share": "Fraction of the passages' tokens that is kept at most, in (0, 1].",
    "min_tokens": "Tokens that max_share always allows.",
    "count_tokens": "A callable from text to tokens, a tokenizer, or a tiktoken encoding's name; "
    "None guesses.",
    "weight": "Weight of llm_prefer against has_answer, in [0, 1]; 0.5 is their plain sum. A "
    "text with has_answer only, such as a sentence judged in one pass, is scored by that.",
    "per_passage": "Windows a passage may keep, apart from each other; None any number.",
    "scoring": "How windows are judged: each by itself, or from one reading of the passage.",
    "split": "A callable from text to [start, end) spans of sentences; None is the built-in one.",
    "thresholds": "ActionThresholds, or the name of a preset; None are the evaluator's own.",
    "verdict": "What judges the whole list: 'embedded', a folder, a ListVerdict or a ListJudge; "
    "None is the paper's rule, the best grade.",
    "threshold": "What a number has to be above, or a grade to reach; None is the model's own.",
    "strip_threshold": "The grade a strip has to reach, in [-1, 1]; None is the thresholds' own.",
    "sentences": "The most sentences a strip holds; None is what its threshold was fitted on.",
    "min_score": "The score below which nothing is kept.",
    "on_web_error": "Whether a search that fails is noted ('degrade') or raised ('raise').",
    "on_incorrect": "What to do where all that was retrieved is graded incorrect and the web gave "
    "nothing: keep it with a warning in the prompt ('warn'), keep nothing ('drop'), or 'keep'.",
    "on_error": "Whether a model that fails is noted, or raised ('raise').",
    "allow_other_model": "Accept a threshold that was fitted for another model.",
    "without": "Actions to do without, as in the paper's ablations.",
    "refine": "Cut what was retrieved into strips; otherwise it stays whole.",
    "rewrite": "Search for what was rewritten; otherwise for the question itself.",
    "select": "Cut what the web gave into strips; otherwise all of it is kept.",
    "mode": "Improve the last text with what is new, or write each anew from all of its round.",
    "rounds": "Rounds at most.",
    "stop": "What else ends the rounds: 'empty', 'unchanged', or several.",
    "answers": "Who writes the final answer: the caller, the last round, or each.",
    "demonstrations": "(question, document, answer) triples to show the language model.",
    "document_tokens": "Tokens a written text is cut to.",
    "answer_tokens": "Tokens an answer is cut to, where stop compares answers.",
    "per_query": "Passages of each query that count; None is all there are.",
    "deduplicate": "Keep equal texts, and text that chunks of one source share, only once.",
    "max_passages": "Passages scored in one call at most, in the order given; None is no limit.",
    "max_sentences": "Sentences of all passages that one call reads at most, in the order given; "
    "None is no limit.",
    "rrf_k": "The constant of reciprocal rank fusion.",
    "max_queries": "Queries to retrieve for at most; None is no limit.",
    "max_draft": "Characters of the heuristic answer that count.",
    "with_question": "Retrieve for the question besides its queries.",
    "judge_question": "Have the question judged; otherwise it is always retrieved for.",
    "filter": "Leave out claims the judge finds known.",
}
_SCALARS = (bool, int, float, str, type(None))
_MANY = (Iterable, Sequence, tuple, list)


@dataclass(frozen=True)
class Setting:
    """One option: its name, type, default, and description.

    `kind` is None where only the method itself can say what is allowed: models, callables.
    """

    name: str
    hint: object
    kind: object
    default: object
    help: str

    @property
    def parameter(self) -> Parameter:
        """The option as a keyword of a signature."""
        return Parameter(
            self.name, Parameter.KEYWORD_ONLY, default=self.default, annotation=self.hint
        )


@cache
def settings_of(made: Callable[..., object]) -> tuple[Setting, ...]:
    """Read the options of a dataclass, in the order of its signature."""
    if not (isinstance(made, type) and is_dataclass(made)):
        raise InputError.of("method", given=made, allowed="a dataclass, such as FitRag")
    hints = get_type_hints(made)
    return tuple(
        Setting(
            spec.name,
            hints[spec.name],
            _plain(hints[spec.name]),
            Parameter.empty if spec.default is MISSING else spec.default,
            TOLD.get(spec.name, f"As in {made.__name__}."),
        )
        for spec in sorted(fields(made), key=lambda spec: bool(spec.kw_only))
        if spec.init
    )


def _plain(hint: object) -> Any:
    """Return a type that holds nothing but scalars, or lists of them; None for any other."""
    if hint in _SCALARS or (isinstance(hint, type) and issubclass(hint, Enum)):
        return hint
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return hint
    if origin in (Union, types.UnionType):
        parts = [_plain(part) for part in inner]
        return None if None in parts else Union[tuple(parts)]  # noqa: UP007 - made at run time
    if origin in _MANY:
        part = Any if inner[0] is Any else _plain(inner[0])
        return None if part is None else GenericAlias(Sequence, (part,))
    return None
