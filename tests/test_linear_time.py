"""Every function that reads a text takes time in proportion to it, whatever the text.

A stranger writes the passages and a model the answers, so each reader is handed long runs of what
its patterns look for. Hosts, headers and pages have their own tests in ``tests/web``.
"""

import importlib
import inspect
import pkgutil
import time
from contextlib import suppress
from pathlib import Path

import pytest

from fitrag_integrations import text
from fitrag_integrations.core.secret import Secret
from fitrag_integrations.core.show import escaped, marked, shortened, visible
from fitrag_integrations.errors import FitRagError
from fitrag_integrations.evaluation.answers import contains_answer, exact_match, token_f1
from fitrag_integrations.evaluation.judging import chosen
from fitrag_integrations.methods.baselines.self_ask import read_step
from fitrag_integrations.methods.baselines.self_rag import _MARKS
from fitrag_integrations.methods.citing import cite, highlight
from fitrag_integrations.methods.crag.refiner import paragraphs
from fitrag_integrations.methods.crag.search import parse_keywords
from fitrag_integrations.methods.slimplm.claims import parse_claims
from fitrag_integrations.methods.writing import final_answer, read_answer, read_document, reasoned
from fitrag_integrations.retrieval.corpus.documents import _title
from fitrag_integrations.text.blocks import blocks_of, is_table
from fitrag_integrations.text.bm25 import words
from fitrag_integrations.text.boundaries import starts_of
from fitrag_integrations.text.cleaning import clean_paragraphs, clean_text, has_text, site_of
from fitrag_integrations.text.layout import (
    identifiers,
    is_blob,
    is_links,
    leads_of,
    named_by,
    named_exactly,
    under_heading,
    units_of,
)
from fitrag_integrations.text.question import asked_note, asked_of
from fitrag_integrations.text.records import records_of
from fitrag_integrations.text.replies import (
    begins_to_think,
    failure_of,
    found_nothing,
    read_yes_no,
    refuses,
    streamed,
    strip_thoughts,
)
from fitrag_integrations.text.sentences import split_clauses, split_sentences, word_ends
from fitrag_integrations.text.spans import gap_between, joined, merge_spans, trimmed
from fitrag_integrations.text.tokens import approximate_tokens, counted
from fitrag_integrations.types import Excerpt, Passage
from fitrag_integrations.values.passage import pages_of
from fitrag_integrations.values.prompt import PromptTemplate, render_excerpts
from fitrag_integrations.values.slimplm import read_verdict
from fitrag_integrations.values.windows import merge

SIZES = (5_000, 10_000, 20_000, 40_000)  # characters
PATIENCE = (0.5, 2.0, 4.0, 8.0)  # seconds of CPU: one pass takes a thirtieth, its square far more
SECRET = Secret("abcdefghijklmnopqrstuvwxyz0123456789")
TEXTS = {"text", "texts", "block", "address", "question"}  # what such a function calls it
SHOWN = [Excerpt.whole(Passage("p", "words"))]
CHOICES = [{"label": "A", "text": "otters"}, {"label": "B", "text": "rivers"}]


def letters(text):
    """Give an excerpt of every twentieth character."""
    passage = Passage("p", text)
    return [Excerpt(passage, at, at + 1) for at in range(0, len(text), 20)]


def every_other(text):
    return [(at, at + 1) for at in range(0, len(text), 2)]


READERS = {
    "split_sentences": split_sentences,
    "split_clauses": split_clauses,
    "word_ends": word_ends,
    "trimmed": lambda text: trimmed(text, 0, len(text)),
    "records_of": records_of.__wrapped__,
    "starts_of": starts_of,
    "asked_of": asked_of,
    "asked_note": asked_note,
    "clean_paragraphs": lambda text: list(clean_paragraphs([text])),
    "counted": lambda text: counted(text, len),
    "blocks_of": lambda text: list(blocks_of(text)),
    "leads_of": lambda text: leads_of.__wrapped__(text, tuple(split_sentences(text))),
    "units_of": lambda text: units_of(text, split_sentences(text)),
    "under_heading": under_heading,
    "identifiers": identifiers,
    "named_exactly": lambda text: named_exactly(text, text.splitlines()),
    "named_by": lambda text: named_by(text, text.splitlines()),
    "is_blob": is_blob.__wrapped__,
    "is_links": is_links.__wrapped__,
    "is_table": is_table,
    "clean_text": clean_text,
    "has_text": has_text,
    "approximate_tokens": approximate_tokens,
    "site_of": site_of,
    "escaped": escaped,
    "marked": lambda text: marked(text, merge_spans(text, every_other(text))),
    "shortened": shortened,
    "redact": SECRET.redact,
    "merge_spans": lambda text: merge_spans(text, every_other(text)),
    "joined": lambda text: joined(text, every_other(text)),
    "gap_between": lambda text: gap_between(text, 0, len(text)),
    "merge": lambda text: merge(letters(text)),
    "render_excerpts": lambda text: render_excerpts([Excerpt.whole(Passage("p", text, text))]),
    "PromptTemplate": lambda text: PromptTemplate("name", text),
    "read_verdict": read_verdict,
    "pages_of": lambda text: pages_of(text, (), lambda item: item),
    "cite": lambda text: cite(SHOWN, text),
    "highlight": lambda text: highlight(letters(text)),
    "parse_keywords": parse_keywords,
    "strip_thoughts": strip_thoughts,
    "streamed": lambda text: list(streamed(iter([text]))),
    "read_yes_no": read_yes_no,
    "refuses": refuses,
    "begins_to_think": begins_to_think,
    "failure_of": failure_of,
    "found_nothing": found_nothing,
    "paragraphs": lambda text: list(paragraphs(text)),
    "parse_claims": parse_claims,
    "read_document": lambda text: read_document(text, 100, approximate_tokens),
    "read_answer": lambda text: read_answer(text, 100, approximate_tokens),
    "read_step": read_step,
    "final_answer": final_answer,
    "reasoned": reasoned,
    "reflection marks": lambda text: list(_MARKS.finditer(text)),
    "contains_answer": lambda text: contains_answer(text, [text[:50]]),
    "exact_match": lambda text: exact_match(text, [text]),
    "token_f1": lambda text: token_f1(text, [text]),
    "chosen": lambda text: chosen(text, CHOICES),
    "title": lambda text: _title(text, Path("a.md")),
    "visible": visible,
    "words": words,
}
# Runs of what the patterns look for, with a word before, amid and after them.
UNITS = [" ", "\t", "\n", "\n\n", "\r", "a", "a ", "A. ", ".", "1. ", "\n1. ", '"', '"ab" ']
UNITS += ['"ab" cd ', "“ab” ", "[1", "[1, ", "[1†", "1-", "1, ", "(", "#", "# ", "|", "| ", "`"]
UNITS += ["\n```", "<", "</", "\n- a", "\n    a", "\na\tb", "\n==  ==", "\n+--+", "\n--a  b"]
UNITS += ["\na\n    b", "[a](", "![", "<|", "<!", "&", "&#", "{", "{{}}", "\u0301", "\u0301\u0316"]
UNITS += ["\u0f73", "\u200d", "\ufe0f", "👨\u200d", "🇩", "…", "。」", "known ", "known (", "true "]
UNITS += ["answer is ", "the ", "<think>", "follow up: ", "<Claim>", "<Query>", '[{"a":']
UNITS += ['{"a":', "[", '"a":1,', "\n- a: ", "\n  a: 1", "- ", "<a>", "<a><b>", "，"]
UNITS += ["Document: ", "[Relevant]", "%61", "\\u0061", "-", "\u200c", "a\u0301"]
AROUND = [("", "", ""), ("a", "b", "c"), ("```", "x", "y"), ("# a", "b", "#x"), ("known", "x", "")]


def test_every_public_function_that_reads_a_text_is_here():
    found = set()
    for module in pkgutil.iter_modules(text.__path__, "fitrag_integrations.text."):
        home = importlib.import_module(module.name)
        for name, made in inspect.getmembers(home, inspect.isfunction):
            first = next(iter(inspect.signature(made).parameters), "")
            if made.__module__ == module.name and first in TEXTS and not name.startswith("_"):
                found.add(name)
    assert len(found) > 9 and found <= set(READERS)


@pytest.mark.parametrize("name", READERS)
def test_time_grows_with_the_text_and_no_faster(name):
    for at, unit in enumerate(UNITS):
        for before, amid, after in (*AROUND[:2], AROUND[2 + at % 3]):
            run = unit * (SIZES[0] // len(unit) // 2)
            _read(READERS[name], before + run + amid + run + after, PATIENCE[0])


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("unit", [" ", '"ab" cd ', "\u0301\u0316"])
def test_four_times_the_text_takes_no_more_patience(name, unit):
    for size, patience in zip(SIZES[1:], PATIENCE[1:], strict=True):
        run = unit * (size // len(unit) // 2)
        for before, amid, after in AROUND[1:]:
            _read(READERS[name], before + run + amid + run + after, patience)


def _read(reader, text, patience):
    """Read within the patience of this thread, or at a second try: a first call imports."""
    for _ in range(2):
        started = time.thread_time()
        with suppress(FitRagError):  # a named refusal is an answer
            reader(text)
        spent = time.thread_time() - started
        if spent < patience:
            return
    pytest.fail(f"{text[:12]!r}... of {len(text)} took {spent:.1f} s")
