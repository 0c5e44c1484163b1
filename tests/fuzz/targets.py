"""What is fuzzed: every reader of what a stranger wrote, from bytes to a value or a named error.

`TARGETS` goes from a name to a function of bytes. It may raise nothing, and says with `assert` what
has to hold of what was read.
"""

import contextlib
import json
import tempfile
from functools import partial
from pathlib import Path

from altered import Bytes, altered
from examples import FOLDERS, MODELS, REPLIES, REQUESTS, ROWS, SEARCHES, TABLES, THRESHOLDS
from pydantic import ValidationError

from fitrag_integrations.commands.engine import outputs as resuming
from fitrag_integrations.commands.engine.rows import passages_of, question_of, read_rows
from fitrag_integrations.commands.evaluate.compress import compressed_row
from fitrag_integrations.commands.evaluate.rerank import are_scored, candidates, ranked_rows
from fitrag_integrations.commands.serve.app import SafeJson
from fitrag_integrations.commands.serve.door import DEPTH, ELEMENTS, Metrics, Settings, worded
from fitrag_integrations.commands.serve.service import CompressRow, Rerank, Row, Service
from fitrag_integrations.core import http, jsonl
from fitrag_integrations.core.secret import Secret
from fitrag_integrations.core.show import escaped, marked, shortened
from fitrag_integrations.errors import FitRagError
from fitrag_integrations.evaluation.answers import contains_answer, rouge_l, token_f1
from fitrag_integrations.evaluation.judging import chosen, judged
from fitrag_integrations.evaluation.outcomes import Outcomes
from fitrag_integrations.evaluation.rows import FORMATS, converted
from fitrag_integrations.evaluation.rows import read_rows as evaluated_rows
from fitrag_integrations.methods.baselines.self_ask import read_step
from fitrag_integrations.methods.baselines.self_rag import _MARKS
from fitrag_integrations.methods.citing import cite, highlight
from fitrag_integrations.methods.compose.fitted import Fitted
from fitrag_integrations.methods.crag.search import parse_keywords
from fitrag_integrations.methods.slimplm.claims import parse_claims
from fitrag_integrations.methods.writing import final_answer, read_answer, read_document, reasoned
from fitrag_integrations.models.remote import replies
from fitrag_integrations.models.remote import scorer as dialects
from fitrag_integrations.models.runtime import folder as model_folders
from fitrag_integrations.retrieval import _store
from fitrag_integrations.retrieval.corpus.documents import read_corpus
from fitrag_integrations.text.blocks import blocks_of
from fitrag_integrations.text.cleaning import clean_text, site_of
from fitrag_integrations.text.question import asked_of
from fitrag_integrations.text.replies import (
    found_nothing,
    read_yes_no,
    refuses,
    streamed,
    strip_thoughts,
)
from fitrag_integrations.text.sentences import split_sentences
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.training.journal import AnswerCache
from fitrag_integrations.training.rows import labelled_row, passage_row, reading_row
from fitrag_integrations.types import Context, Excerpt, Passage
from fitrag_integrations.values.prompt import PromptTemplate, render_excerpts
from fitrag_integrations.values.slimplm import read_verdict
from fitrag_integrations.values.thresholds import ActionThresholds, FittedThreshold
from fitrag_integrations.web.extract import decode, extract, hidden_selectors, hides
from fitrag_integrations.web.fetch import parse_rules
from fitrag_integrations.web.guard import AGENT, NetworkGuard, canonical_host, refusal
from fitrag_integrations.web.search import hits_of, web_passage
from fitrag_integrations.web.searxng import _hits as read_searxng

_FOLDER = tempfile.TemporaryDirectory(prefix="fuzz-")  # goes with the process
HOME = Path(_FOLDER.name)
KEY = "sk-planted-0123456789abcdef"
SECRET = Secret(KEY)
named = partial(contextlib.suppress, FitRagError)  # a named refusal is an answer


def as_text(data):
    """Read bytes as a text that may hold any character, half surrogate pairs among them."""
    return Bytes(data).rest()


def sentences(data):
    text = as_text(data)
    last = 0
    for start, end in split_sentences(text):
        assert last <= start < end <= len(text) and text[start:end].strip()
        assert not text[last:start].strip()
        last = end
    assert not text[last:].strip()
    assert "".join(text[start:end] for start, end, *_ in blocks_of(text)) == text
    assert set(asked_of(text)) <= {*text, " "}
    approximate_tokens(text)


def cleaning(data):
    clean_text(as_text(data))
    assert len(clean_text(as_text(data), max_chars=20)) <= 20


def written(data):
    """Read what a language model wrote, in every form that one is asked for."""
    text = as_text(data)
    read_verdict(text), read_step(text), final_answer(text), reasoned(text)
    read_document(text, 20, approximate_tokens), read_answer(text, 20, approximate_tokens)
    list(_MARKS.finditer(text))
    parse_claims(text), parse_keywords(text), "".join(streamed(iter(text)))
    strip_thoughts(text), read_yes_no(text), refuses(text), found_nothing(text)
    shown = [Excerpt.whole(Passage("p", "one. two.", "title"))]
    cite(shown, text)
    highlight(shown)


def shown(data):
    given = Bytes(data)
    one, other = given.text(), given.text()
    passage = Passage(one, given.rest(), other)
    render_excerpts([Excerpt.whole(passage)])
    marked(passage.text, [(0, len(passage.text) // 2)])
    escaped(passage.text), shortened(passage.text)
    with named():
        PromptTemplate("name", passage.text).render(Context(question=one or "q", excerpts=()))


def answers(data):
    given = Bytes(data)
    one, other = given.text(), given.text()
    contains_answer(one, [other]), token_f1(one, [other]), rouge_l(one, [other])
    chosen(one, [{"label": "A", "text": other}, {"label": "B", "text": given.text()}])


def keys(data):
    """Hide a key among other text, however it is spelled; what is left has none of it."""
    given = Bytes(data)
    told = f"{given.text()}{KEY}{given.text()}"
    assert KEY not in SECRET.redact(told)
    SECRET.redact(as_text(data))


def rows(data):
    for row in read_rows(data.splitlines(keepends=True)):
        with named():
            question_of(row.given), passages_of(row.given)
    row = altered(ROWS, data)
    if not isinstance(row, dict):
        return
    for read in (question_of, passages_of, compressed_row, labelled_row, reading_row, passage_row):
        with named():
            read(row)
    with named():
        judged("x", row)
    with named():
        Outcomes.of([row, row])


def ranked(data):
    path = HOME / "ranked.jsonl"
    path.write_text(json.dumps(altered(ROWS, data)) + "\n")

    with named():
        found = ranked_rows([path])
        if are_scored(found):
            candidates([found], None)


def resumed(data):
    """Continue an output that holds anything: either it is refused and left, or it is whole."""
    given = Bytes(data)
    path, wanted = HOME / "output.jsonl", [{"question": f"q{i}", "id": i} for i in range(3)]
    lines = [jsonl.dump({**row, "answer": "a"}) for row in wanted]
    kept = b"".join(lines[: given.number(4)])
    how = given.number(3)
    before = given.rest().encode("utf-8", "surrogateescape")
    cut = kept[: len(kept) - given.number(256)] if how == 2 else kept
    path.write_bytes(cut + (b"" if how == 2 else before if how else before[:3]))
    held = path.read_bytes()
    try:
        rest = read_rows(map(jsonl.dump, wanted))
        done, _ = resuming.resume(path, rest)
    except FitRagError:
        assert path.read_bytes() == held
    else:
        assert [row.given["id"] for row in rest] == [0, 1, 2][done:]
        assert len(path.read_bytes().splitlines()) == done


def journal(data):
    path = HOME / "answers.journal"
    path.write_bytes(data)
    with named():
        AnswerCache(path, {"llm": "x"}).close()


def loaders(data):
    given = Bytes(data)
    row = altered(TABLES, given)
    with named():
        if isinstance(row, dict):
            converted(row, FORMATS[given.number(len(FORMATS))])


def files(data):
    text = as_text(data[1:])
    for name in ("rows.json", "rows.tsv", "rows.csv", "rows.yaml"):
        (HOME / name).write_bytes(text.encode("utf-8", "replace"))
        with named():
            evaluated_rows(HOME / name)
    name = ("a.jsonl", "a.tsv", "a.md", "a.jsonl.gz")[data[0] % 4 if data else 0]
    (HOME / name).write_bytes(data[1:])
    with named():
        list(read_corpus(HOME / name))


def llm_replies(data):
    """Read a server's reply as text, with log-probabilities, as a verdict and as an echo."""
    reply = altered(REPLIES, data)
    if not isinstance(reply, dict):
        return
    for read in (replies.read_text, replies.read_written, replies.read_yes):
        with named():
            read(reply)
    with named():
        replies.as_draft("x", replies.read_tokens(reply))
    with named():
        replies.echoed(reply, "hello")


def rerank_replies(data):
    given = Bytes(data)
    dialect = list(dialects.DIALECTS.values())[given.number(len(dialects.DIALECTS))]
    with named():
        for row in dialects.results(dialect, altered(REPLIES, given), 2):
            dialects.number(dialect, row)


def json_replies(data):
    http.parse_reply(data)
    http.parse_reply(json.dumps(altered(REPLIES, data)).encode())


def searches(data):
    found = altered(SEARCHES, data)
    with named():
        if isinstance(found, dict):
            read_searxng(found)
    for each in (found, json.dumps(found), as_text(data)):
        with named():
            [web_passage(hit, {}) for hit in hits_of(each)]


def models(data):
    """Read a `model.json`, whole or altered, and what else is read of it."""
    folder = HOME / "model"
    folder.mkdir(exist_ok=True)
    for content in (data, json.dumps(altered(MODELS, data)).encode()):
        (folder / "model.json").write_bytes(content)
        (folder / "head.safetensors").write_bytes(data)
        with named(), model_folders.reading(folder):
            made = model_folders.read_manifest(
                folder, "model.json", kind="bilabel", needs=("head",)
            )
            model_folders.both_positive(made), model_folders.positive(made, "temperature")
            model_folders.read_arrays(folder, made["head"])


def tensors(data):
    import hashlib

    (HOME / "t.safetensors").write_bytes(data)
    entry = {"file": "t.safetensors", "sha256": hashlib.sha256(data).hexdigest()}
    with named():
        model_folders.read_arrays(HOME, entry)


def folders(data):
    given = Bytes(data)
    content = altered(FOLDERS, given)
    for raw in (data, json.dumps(content).encode()):
        for name in (_store.MANIFEST, "fitted.json"):
            (HOME / name).write_bytes(raw)
        with named():
            _store.read_manifest(HOME)
        with named():
            Fitted.read(HOME)


def thresholds(data):
    for kind in (FittedThreshold, ActionThresholds):
        with named():
            kind.from_dict(altered(THRESHOLDS, data))


def addresses(data):
    text = as_text(data)
    site_of(text), refusal(text)
    guard = NetworkGuard()
    with contextlib.suppress(ValueError):
        canonical_host(text)
    with named():
        origin = guard.admit("http://example.com/")
        guard.follow(origin, text)
    with named():
        guard.admit(text)


def robots(data):
    path, text = data[:40].decode("ascii", "replace").replace("\ufffd", "?"), data[40:]
    rules = parse_rules(text.decode("utf-8-sig", "replace"))
    rules.can_fetch(f"http://a.example/{path}", AGENT)


def pages(data):
    extract(data, "text/html")


def styles(data):
    text = as_text(data)
    hides(text)
    hidden_selectors([text])


SERVICE = Service(Settings(), Metrics())


def requests(data):
    """Read a request as the service does: refused by its size or shape, in words, or read."""
    for body in (data, json.dumps(altered(REQUESTS, data)).encode()):
        try:
            jsonl.check_size(body, values=ELEMENTS, depth=DEPTH)
            given = json.loads(body)
        except ValueError:
            continue
        for shape in (Rerank, CompressRow, Row):
            try:
                read = shape.model_validate(given)
                if isinstance(read, Rerank):
                    SERVICE._passages(read)
            except ValidationError as error:
                SafeJson(worded("Validation", str(error.errors()[0]["msg"])))
            except FitRagError as error:
                SafeJson(worded("Validation", str(error)))


def headers(data):
    given = Bytes(data)
    wait = http.retry_after(given.text())
    assert wait is None or wait >= 0
    decode(data, given.text())
    with named():
        meter = http.Meter(("gzip", "", given.text())[given.number(3)], http.Limits())
        meter.take(data)
        meter.end()


TARGETS = {
    read.__name__: read
    for read in (
        *(sentences, cleaning, written, shown, answers, keys),
        *(rows, ranked, resumed, journal, loaders, files),
        *(llm_replies, rerank_replies, json_replies, searches, requests),
        *(models, tensors, folders, thresholds),
        *(addresses, robots, pages, styles, headers),
    )
}
