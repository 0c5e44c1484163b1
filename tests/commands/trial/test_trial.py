"""`fitrag try`: what is read, what is compared, and the sentence it comes to."""

import json
from pathlib import Path

import pytest
from command_fakes import write
from typer.testing import CliRunner

from fitrag_integrations.cli import app
from fitrag_integrations.commands.trial import trial
from fitrag_integrations.commands.trial.proof import (
    PLAIN,
    cut_short,
    proof_of,
    sentence,
    with_plain,
)
from fitrag_integrations.commands.trial.reading import passages_in
from fitrag_integrations.commands.trial.trial import TryPlan
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.figures.compress import Compressed, compress_rows
from fitrag_integrations.evaluation.figures.summaries import Draws
from fitrag_integrations.methods.prompts import render_excerpts
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.training.asking_llm import AskLLM
from fitrag_integrations.training.fitted.questions import Asked, questions_from, questions_in
from fitrag_integrations.types import Draft, Excerpt, Passage

LONG = "The weather was mild and nobody had much to say about it that whole long year. " * 4
ANSWER = "The bridge was built by Ann."


def row(*, answer_first):
    """A question whose second passage holds the answer, at its end or at its beginning."""
    text = f"{ANSWER} {LONG}" if answer_first else f"{LONG}{ANSWER}"
    passages = (Passage("0", LONG, "Weather"), Passage("1", text, "Bridge"))
    if answer_first:
        passages = passages[::-1]
    holding = next(each for each in passages if ANSWER in each.text)
    start = holding.text.index(ANSWER)
    excerpt = Excerpt(holding, start, start + len(ANSWER), 1.0)
    return Compressed("Who built the bridge?", ("Ann",), passages, (excerpt,))


def proof(rows, skipped=0.0, price=None):
    return proof_of(with_plain(compress_rows(rows), rows), Draws(), skipped, price)


def test_what_keeps_answers_that_cutting_short_loses_is_worth_it():
    got = proof([row(answer_first=False)] * 20, price=2.0)
    assert (got.there, got.kept, got.plain) == (20, 1.0, 0.0)
    assert got.is_worth_it and got.saved > 0.8
    said = sentence(got)
    assert said.startswith("Worth it: ") and "100% of 20 answers kept" in said
    assert "retrieval can be skipped for 0%" in said and "in money" in said


def test_nothing_is_gained_where_cutting_short_does_as_well():
    got = proof([row(answer_first=True)] * 20)
    assert got.plain == 1.0 and not got.is_worth_it
    assert sentence(got).startswith("Nothing to gain here that is sure: ")


def test_no_answer_in_what_was_retrieved_is_told():
    one = row(answer_first=True)
    lost = Compressed(one.question, ("Zoe",), one.passages, one.excerpts)
    assert "nothing can be said" in sentence(proof([lost]))


def test_passages_are_cut_to_a_budget():
    one = row(answer_first=False)
    for budget in (0, 5, 30, 100, 10_000):
        kept = cut_short(one, budget)
        assert not kept or approximate_tokens(render_excerpts(kept)) <= budget + 8
    assert cut_short(one, 10_000) == one.whole
    assert PLAIN not in with_plain(compress_rows([one]), [one])[0]["answers"]


def test_a_folder_of_several_kinds(tmp_path):
    (tmp_path / "a.txt").write_text("Ann wrote it.")
    (tmp_path / "b.md").write_text("# Head\n\nBob read it.")
    (tmp_path / "c.bin").write_bytes(b"\0\1")
    page = "<html><body><article><p>Cy saw that the river rose.</p></article></body></html>"
    (tmp_path / "d.html").write_text(page * 3)
    write(tmp_path / "e.jsonl", [{"id": "r", "text": "Di came."}])
    texts = " ".join(passage.text for passage in passages_in(tmp_path))
    for said in ("Ann wrote it.", "Bob read it.", "the river rose", "Di came."):
        assert said in texts


def test_files_of_one_name_are_all_read(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.txt").write_text(f"This is {folder}.")
        (tmp_path / folder / "page.html").write_text(f"<p>A page of {folder} says it.</p>" * 9)
    found = passages_in(tmp_path)
    assert len({passage.id for passage in found}) == len(found) == 4


def test_all_of_a_few_kept_is_not_told_as_sure():
    told = sentence(proof([row(answer_first=False)] * 20))
    assert "100% of 20 answers kept (at least 84%)" in told


def test_nothing_to_read_is_refused(tmp_path):
    (tmp_path / "c.bin").write_bytes(b"\0\1")
    for corpus in (tmp_path, tmp_path / "missing"):
        with pytest.raises(InputError, match="corpus"):
            passages_in(corpus)


def test_questions_as_people_have_them(tmp_path):
    given = [{"question": "Who?", "answers": ["Ann"]}, {"question": "When?", "answer": "May"}]
    asked = questions_in(write(tmp_path / "q.jsonl", [*given, {"question": "Why?"}]), 9)
    assert asked == [Asked("Who?", ("Ann",)), Asked("When?", ("May",)), Asked("Why?")]
    (tmp_path / "q.txt").write_text("Who?\n\nWhen?\n")
    assert questions_in(tmp_path / "q.txt", 9) == [Asked("Who?"), Asked("When?")]
    bad = write(tmp_path / "bad.jsonl", [{"question": "Who?"}, {"question": 3}])
    with pytest.raises(InputError, match="row 2: question: given 3"):
        questions_in(bad, 9)


def test_questions_are_made_of_sentences():
    text = "It rained. The old stone bridge was built in the spring by Ann Lee, they say."
    assert questions_from([Passage("0", text), Passage("1", "Short.")], 5) == [
        Asked("The old stone bridge was built in the spring by what, they say?", ("Ann Lee",), text)
    ]


def test_no_question_is_made_of_a_table_or_of_half_a_page():
    table = "| bridge | built | by | whom | is | told | Ann Lee | 1851 |\n| a | b | c |"
    endless = "The old stone bridge " + "and its two abutments " * 30 + "were built by Ann Lee."
    assert questions_from([Passage("0", table), Passage("1", endless)], 5) == []


class Small:
    """A gate whose model reads ten words."""

    threshold = 0.5

    def __init__(self):
        self.drafter = self

    def draft(self, questions):
        if any(len(question.split()) > 10 for question in questions):
            raise InputError("tokens of a prompt: given 387 (int), allowed fewer than 256")
        return [Draft("Ann") for _ in questions]

    def p_known(self, questions, drafts):
        return [0.9 if "bridge" in question else 0.1 for question in questions]


def test_a_question_too_long_for_the_gate_is_retrieved_for(monkeypatch):
    monkeypatch.setattr(trial.models, "load_gate", lambda hardware: Small())
    asked = [Asked("Who built the bridge?"), Asked("Who?"), Asked("Who built the bridge " * 9)]
    asked.append(Asked("Where is the bridge?"))
    assert TryPlan(corpus=Path("c"))._skipped(asked) == 0.5


def pdf(text):
    """Write the smallest PDF that shows a line of text."""
    stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode()
    font = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"
    page = b"<</Type/Page/Parent 2 0 R/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>"
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        page + b"/MediaBox[0 0 612 792]>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream),
        font,
    ]
    data, places = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, start=1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 6\n0000000000 65535 f \n" + table
    return data + head + b"trailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % len(data)


def test_a_paper_is_read(tmp_path):
    pytest.importorskip("pypdf")
    (tmp_path / "one.pdf").write_bytes(pdf("Ann built the bridge."))
    (passage,) = passages_in(tmp_path)
    assert passage.text == "Ann built the bridge." and passage.source == "one.pdf"


class Seeing:
    """Answer with the name that a prompt tells who built the bridge; nothing without it."""

    name = "seeing"

    def generate(self, prompts):
        return [self.one(prompt) for prompt in prompts]

    def one(self, prompt):
        if "Answer Yes or No" in prompt:
            return "Yes"
        return "Ann" if ANSWER in prompt else "nobody"


def test_a_language_model_says_what_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(trial, "load_asker", lambda asking, hardware: AskLLM(Seeing()))
    rows = [row(answer_first=False)] * 20
    monkeypatch.setattr(TryPlan, "_rows", lambda plan, passages, asked: rows)
    corpus = write(tmp_path / "c.jsonl", [{"text": f"{LONG}{ANSWER}", "title": "Bridge"}])
    asked = write(tmp_path / "q.jsonl", [{"question": "Who built the bridge?", "answer": "Ann"}])
    page = tmp_path / "page.html"
    given = ["try", corpus, asked, "--llm", "seeing", "--out", page]
    done = CliRunner().invoke(app, [*map(str, given), "--json"])
    told = json.loads(done.stdout)
    assert (told["kept"], told["plain"], told["there"], told["skipped"]) == (1.0, 0.0, 20, 1.0)
    assert told["worth it"] and '<b class="gold">Ann</b>' in page.read_text()
    assert '<p class="lead">Worth it: ' in page.read_text()
    done = CliRunner().invoke(app, list(map(str, given)))
    assert done.stdout.startswith("Worth it: ") and "where seeing gives it" in done.stdout
