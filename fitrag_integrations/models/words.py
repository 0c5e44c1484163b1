"""Words of a gate as token ids, and the checks of prompts that need no PyTorch."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from fitrag_integrations.core.checks import check_many, check_texts
from fitrag_integrations.errors import InputError, ModelLoadError, raise_if, refuse_if
from fitrag_integrations.models.encoder.pairs import whole
from fitrag_integrations.values.prompt import (
    LINE_TOKENS,
    USUAL_TOKENS,
    LimitedPrompt,
    PromptTemplate,
    Shot,
    with_shots,
)
from fitrag_integrations.values.score import sigmoid

PROMPT = "Question: {question}\nAnswer:"
"""Of a closed-book answer."""
PROMPTS = {
    "question": "Question: {question}\nDo you know the answer by yourself? Yes or No:",
    "draft": "Question: {question}\nBeginning of your answer: {draft}\n"
    "Do you know the answer by yourself? Yes or No:",
}
"""Of IK, without and with a draft."""
SINGLE = 8  # tokens of a draft whose numbers stand by themselves among IK's features
# first margin and entropy; mean and worst of three; two sums; is there a draft; single
FACTS = 11 + 3 * SINGLE
_FIELD = re.compile(r"\{(\w+)\}")


def choice_ids(tokenizer: Any, words: tuple[str, str], *, spaced: bool) -> tuple[int, int]:
    """Find the token ids of two words, such as Yes and No (IK, section 3.2).

    With a leading space and without it, `spaced` first where the text before them ends in a
    printed character. Raises `ModelLoadError` naming the tokenizer and what was tried where
    neither form is one token for each word and another for the other.
    """
    tried: list[str] = []
    for lead in (" ", "") if spaced else ("", " "):
        forms = [lead + word for word in words]
        found = [tokenizer(form, add_special_tokens=False)["input_ids"] for form in forms]
        tried += [f"{form!r} -> {ids}" for form, ids in zip(forms, found, strict=True)]
        first, second = found
        if len(first) == len(second) == 1 and first != second:
            ids = first[0], second[0]
            if tokenizer.unk_token_id not in ids:
                return ids
    raise ModelLoadError(
        f"tokenizer {_name_of(tokenizer)!r} has no single token for {words[0]!r} and another for "
        f"{words[1]!r}; tried {', '.join(tried)}: choose another base, or a head on its hidden "
        "states"
    )


def parting(
    one: Sequence[int], other: Sequence[int], tokenizer: Any = None
) -> tuple[Sequence[int], tuple[int, int]]:
    """Find where two endings of a prompt part ways: the ids before it, and the two next ids.

    The first sub-word on which they differ decides, whatever the tokenizer cuts them into. Raises
    `ModelLoadError` for a tokenizer that writes both alike.
    """
    shared = common_prefix(one, other)
    raise_if(
        not 0 < shared < min(len(one), len(other)),
        ModelLoadError,
        f"tokenizer {_name_of(tokenizer)!r} writes two verdicts alike: {one}, {other}",
    )
    return one[:shared], (one[shared], other[shared])


def _name_of(tokenizer: object) -> str:
    return getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """Count the ids at the beginning that are equal."""
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def joined(prompt: str, text: str, *, spaced: bool) -> str:
    """Join a prompt and an answer, with a blank between them if neither has one."""
    if not spaced or prompt[-1:].isspace() or text[:1].isspace():
        return prompt + text
    return f"{prompt} {text}"


def share(logits: Sequence[float], temperature: float = 1.0) -> float:
    """Return the softmax of the first of two logits, in [0, 1]."""
    return sigmoid((logits[0] - logits[1]) / temperature)


def cut_at(text: str, stop: Sequence[str]) -> str:
    """Cut a text before the first stop text in it; one of blanks counts after a visible character.

    A base model often begins its answer on a new line.
    """
    begun = len(text) - len(text.lstrip())
    found = (text.find(mark, 0 if mark.strip() else begun) for mark in stop)
    ends = [at for at in found if at >= 0]
    return text[: min(ends)] if ends else text


def until_stop(
    decode: Callable[[list[int]], str], ids: list[int], stop: Sequence[str]
) -> tuple[str, int]:
    """Decode ids up to the first stop text; return the text and the fewest ids that hold it."""
    text = decode(ids)
    cut = cut_at(text, stop)
    if not cut.strip():
        return cut, 0
    low, high = 1 if cut != text else len(ids), len(ids)
    while low < high:
        middle = (low + high) // 2
        if decode(ids[:middle]).startswith(cut.rstrip()):
            high = middle
        else:
            low = middle + 1
    return cut, low


def reply_tokens(asked: LimitedPrompt, most: int | None, *, converses: bool) -> int:
    """Return how many tokens a reply may have: as its prompt asks, within a generator's bounds.

    A model that converses may think or greet first, and has its usual length for that.
    """
    tokens = asked.tokens or (LINE_TOKENS if asked.one_line else USUAL_TOKENS)
    tokens = max(tokens, USUAL_TOKENS) if converses else tokens
    return min(tokens, most or tokens)


def closed_book(prompt: str, question: str, shots: Sequence[Shot], *, converses: bool) -> str:
    """Write the prompt for an answer without passages; a model that converses gets the question."""
    if converses and not shots:
        return question
    text = prompt.replace("{", "{{").replace("}", "}}").replace("{{question}}", "{question}")
    asked = filled(prompt, question=question)
    template = PromptTemplate("closed_book", text, one_line=True)
    return with_shots(LimitedPrompt(asked, one_line=True, template=template), shots)


def checked_texts(field: str, texts: Sequence[str]) -> list[str]:
    """Check that each text is a string that is not blank; lone surrogates are replaced."""
    return [whole(text) for text in check_texts(field, texts)]


def checked_pairs(questions: Sequence[str], drafts: Sequence[str]) -> list[tuple[str, str]]:
    """Check questions and their drafts, one each; blank drafts become empty ones."""
    asked = checked_texts("questions", questions)
    given = [whole(draft.strip()) for draft in check_many("drafts", drafts, str)]
    refuse_if(len(given) != len(asked), "drafts", len(given), f"{len(asked)}, one per question")
    return list(zip(asked, given, strict=True))


def filled(prompt: str, **fields: str) -> str:
    """Fill the fields of a prompt; braces in what fills them stay braces."""
    return _FIELD.sub(lambda found: fields.get(found[1], found[0]), prompt)


def needs_fields(field: str, prompt: object, names: Sequence[str]) -> str:
    """Return a prompt that has all its fields; raise `InputError` for any other."""
    allowed = "a text with " + " and ".join(f"{{{name}}}" for name in names)
    if not isinstance(prompt, str) or any(f"{{{name}}}" not in prompt for name in names):
        raise InputError.of(field, given=prompt, allowed=allowed)
    return prompt
