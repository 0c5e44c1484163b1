"""Have ITRG's documents and answers written, and read what came (ITRG, sections 2.3 and 3.3).

A reply may be blank, run on, come with labels and thoughts, or not come at all.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fitrag_integrations.core.checks import check_text
from fitrag_integrations.flow import Flow
from fitrag_integrations.flow.explain import shortened
from fitrag_integrations.methods.itrg.prompts import Demonstration, answer_template, document_prompt
from fitrag_integrations.methods.itrg.rounds import Round
from fitrag_integrations.ports import Ports
from fitrag_integrations.text.tokens import TokenCounter
from fitrag_integrations.types import Context
from fitrag_integrations.values.prompt import Asked, cut_note

_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL | re.IGNORECASE)
_LABEL = re.compile(r"[\s*#]*(?:document|answer):[\s*]*", re.IGNORECASE)
_NEXT = re.compile(r"^[*#]*(?:passages?|question|earlier document):", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Writer:
    """Ask the language model of one question for documents and answers.

    What is longer than ``document_tokens`` or ``answer_tokens`` is cut. A call that fails, and a
    blank reply, is noted; unless ``degrade``, a call that fails raises.
    """

    question: str
    ports: Ports
    demonstrations: tuple[Demonstration, ...]
    document_tokens: int
    answer_tokens: int
    count_tokens: TokenCounter
    degrade: bool

    def document(self, made: Round, *, refine: bool) -> Flow[Round]:
        """Write ``y_t``: ``M(y_{t-1}, q, R_update)`` in refine, ``M(q, R_t)`` in refresh."""
        prompt = document_prompt(
            self.question,
            made.new if refine else made.passages,
            document=made.document if refine else "",
            demonstrations=self.demonstrations,
        )
        (written,), failed = yield from self._asked([prompt], self.document_tokens)
        text = written.removeprefix(prompt)
        document, was_cut = read_document(text, self.document_tokens, self.count_tokens)
        if not document:
            kept = "the last one is kept" if made.document else "there is none"
            note = f"the language model wrote no document{failed}: {kept}"
            return replace(made, notes=(*made.notes, note), failed=bool(failed))
        cut_here = (f"the document was cut to {self.document_tokens} tokens",)
        notes = cut_here if was_cut else cut_note(written, "document")
        return replace(made, document=document, notes=(*made.notes, *notes))

    def answers(self, made: Sequence[Round]) -> Flow[tuple[Round, ...]]:
        """Answer from the documents of rounds in one ask, each different document once."""
        template = answer_template(self.demonstrations)
        documents = list(dict.fromkeys(one.document for one in made if one.document))
        prompts = [Context(self.question, draft=one).prompt(template) for one in documents]
        texts, failed = yield from self._asked(prompts, self.answer_tokens)
        found = {
            document: read_answer(text.removeprefix(prompt), self.answer_tokens, self.count_tokens)
            for document, prompt, text in zip(documents, prompts, texts, strict=True)
        }
        note = f"the language model wrote no answer{failed}"
        return tuple(
            replace(one, answer=found[one.document])
            if found.get(one.document)
            else replace(one, answer=None, notes=(*one.notes, *[note] * bool(one.document)))
            for one in made
        )

    def _asked(self, prompts: Sequence[str], tokens: int) -> Flow[tuple[list[str], str]]:
        """Give replies of so many tokens; of a call that failed blank ones, and what to say."""
        try:
            asked = [Asked(prompt, tokens=tokens) for prompt in prompts]
            texts = yield from self.ports.generate.ask(asked)
            return [check_text("reply", text) for text in texts], ""
        except Exception as error:
            if not self.degrade:
                raise
            return [""] * len(prompts), f" ({told(error)})"


def read_document(text: str, max_tokens: int, count_tokens: TokenCounter) -> tuple[str, bool]:
    """Read a document, and whether it had to be cut to ``max_tokens``.

    Thoughts in tags and a leading label go, and so does what a model that runs on makes up as the
    next passage or question.
    """
    body = _bare(text)
    following = _NEXT.search(body, 1)
    whole = body[: following.start()].strip() if following else body
    kept = cut(whole, max_tokens, count_tokens)
    return kept, kept != whole


def read_answer(text: str, max_tokens: int, count_tokens: TokenCounter) -> str:
    """Read the first line of an answer, cut to ``max_tokens``."""
    lines = _bare(text).splitlines()
    return cut(lines[0].strip(), max_tokens, count_tokens) if lines else ""


def cut(text: str, max_tokens: int, count_tokens: TokenCounter) -> str:
    """Keep the longest beginning of at most ``max_tokens``, if it can be at the end of a word."""
    if count_tokens(text) <= max_tokens:
        return text
    ends = range(1, len(text) + 1)
    end = bisect_right(ends, max_tokens, key=lambda length: count_tokens(text[:length]))
    kept = text[:end]
    inside = not (text[end].isspace() or kept[-1:].isspace())
    return (kept.rsplit(maxsplit=1)[0] if inside and len(kept.split()) > 1 else kept).strip()


def told(error: Exception) -> str:
    """Name an error in one line."""
    return f"{type(error).__name__}: {shortened(str(error))}"


def _bare(text: str) -> str:
    body = _THOUGHT.sub("", text).strip()
    label = _LABEL.match(body)
    return body[label.end() :] if label else body
