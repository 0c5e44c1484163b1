"""From claims and queries to a rewriter, and from a model's writing to claims and queries."""

import asyncio
import json
import pickle

import pytest
from tiny_causal import write_llama
from typer.testing import CliRunner

from fitrag_integrations.cli import app
from fitrag_integrations.commands.label.known import claims_verb
from fitrag_integrations.errors import InputError, PortError
from fitrag_integrations.flow import run_many
from fitrag_integrations.methods.prompts import REWRITE
from fitrag_integrations.methods.slimplm.claims import parse_claims
from fitrag_integrations.models import QueryRewriter
from fitrag_integrations.models.gate.slimplm import REWRITERS as TEMPLATES
from fitrag_integrations.training.causal.slimplm import RewriterPlan, claim_rows, fit_rewriter
from fitrag_integrations.training.rows import write_jsonl
from fitrag_integrations.types import Context
from fitrag_integrations.values.slimplm import Lead, Leads, render

TOY = {"epochs": 15.0, "rate": 2e-2, "rank": 8, "alpha": 16, "dropout": 0.0, "batch": 8}
TOY |= {"validation": 0.2, "max_new_tokens": 90, "draft_tokens": 24}
PLACES = ["Rome", "Danube", "Black Sea", "ocean"]


def toy_rows(count=40):
    """Make rows whose one claim is always the same."""
    claim = {"text": "a king", "query": "king", "search": True}
    return [
        {
            "question": f"who wrote number {n} of {PLACES[n % 4]}?",
            "draft": "a king wrote it",
            "questions": [],
            "claims": [claim],
        }
        for n in range(count)
    ]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return write_llama(tmp_path_factory.mktemp("base") / "little")


@pytest.fixture(scope="module", params=["paper", "released"])
def fitted(request, base, tmp_path_factory):
    out = tmp_path_factory.mktemp("fitted") / request.param
    return out, fit_rewriter(toy_rows(), out, RewriterPlan(base, request.param, **TOY))


def test_a_rewriter_learns_the_grammar_and_is_saved_whole(fitted, tmp_path):
    out, figures = fitted
    assert figures["rewriter loss"] < 0.5
    model = QueryRewriter.from_pretrained(out, device="cpu")
    questions, drafts = ["who wrote number 5 of Rome?"] * 2, ["a king wrote it", ""]
    written = model.rewrite(questions, drafts)
    grammar = out.name
    assert written[0] == render(Leads(claims=(Lead("a king", "king", True),)), grammar)
    found = parse_claims(written[0])
    assert (found.grammar, found.repairs) == (grammar, ())
    assert [lead.query for lead in found.claims] == ["king"]
    assert asyncio.run(model.arewrite(questions, drafts)) == written
    assert pickle.loads(pickle.dumps(model)).rewrite(questions, drafts) == written
    model.save_pretrained(tmp_path / "again")
    again = QueryRewriter.from_pretrained(tmp_path / "again", device="cpu")
    assert again.rewrite(questions, drafts) == written and again.template == TEMPLATES[grammar]
    manifest = json.loads((out / "model.json").read_text())
    assert manifest["kind"] == "rewriter" and manifest["trained"]["rows"] < 40


def test_any_language_model_may_be_asked(base):
    model = QueryRewriter.from_pretrained(base, device="cpu", max_new_tokens=4)
    (written,) = model.rewrite(["who?"], ["a king"])
    assert isinstance(written, str) and model.template is TEMPLATES["paper"]
    model.unload()
    with pytest.raises(InputError, match="template` must be"):
        QueryRewriter.from_pretrained(base, template="mine")


def test_rows_of_either_shape_are_read():
    ours = {
        "question": "who?",
        "draft": " a king ",
        "questions": [{"text": "who was it?", "query": "name", "search": None}],
        "claims": [{"text": "a king", "query": "", "search": False}],
    }
    theirs = {
        "question": "who?",
        "proxy_answer": "a king",
        "question_queries": [{"question": "who was it?", "searchWord": "name"}],
        "claims": [{"claim": "a king", "needSearch": False, "query": ""}],
    }
    one, other = claim_rows([ours, {"error": {}}, theirs])
    assert one == other
    assert one.leads.claims == (Lead("a king", "", False),)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"question": " "}, r"rows\[1\]\.question"),
        ({"draft": None}, r"rows\[1\]\.draft"),
        ({"claims": []}, r"rows\[1\]\.claims"),
        ({"claims": ["a king"]}, r"rows\[1\]\.claims"),
        ({"claims": [{"query": "king"}]}, r"rows\[1\]\.claims\.text"),
        ({"claims": [{"text": "a", "query": 3}]}, r"rows\[1\]\.claims\.query"),
    ],
)
def test_a_row_that_lacks_something_is_named(change, field):
    with pytest.raises(InputError, match=f"{field}` must be"):
        claim_rows([toy_rows(1)[0], toy_rows(1)[0] | change])


def test_wrong_plans_are_named(base, tmp_path):
    with pytest.raises(InputError, match="template` must be"):
        fit_rewriter(toy_rows(), tmp_path, RewriterPlan(base, "mine"))
    with pytest.raises(InputError, match="rows` must be"):
        fit_rewriter(toy_rows(1), tmp_path, RewriterPlan(base))


def test_train_rewriter_from_the_command_line(base, tmp_path):
    write_jsonl(tmp_path / "rows.jsonl", toy_rows(20))
    arguments = ["train", "rewriter", tmp_path / "rows.jsonl", "--out", tmp_path / "out"]
    arguments += ["--base", base, "--epochs", 0.5, "--validation", 0.3, "--template", "released"]
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    assert done.exit_code == 0 and "rewriter loss" in done.stderr, done.output
    QueryRewriter.from_pretrained(tmp_path / "out", device="cpu").unload()


class Teacher:
    """Answer questions, and take answers apart."""

    name = "big"

    def __init__(self, written="<Claim(a king)> <NeedSearch(True)> <Query(king)>"):
        self.written, self.calls, self.prompts = written, [], []

    def answer(self, questions):
        self.calls.append(("answer", len(questions)))
        return ["a king wrote it" for _ in questions]

    def generate(self, prompts):
        self.calls.append(("generate", len(prompts)))
        self.prompts += prompts
        return [self.written for _ in prompts]


def labelled(verb, rows):
    return run_many([verb.flow(row) for row in rows])


def test_claims_are_labelled_and_can_be_learnt_from():
    teacher = Teacher()
    rows = [{"question": f"who wrote {n}?", "draft": "the queen"} for n in range(15)]
    rows.append({"question": "who else?", "draft": " "})
    found = [traced.value for traced in labelled(claims_verb(teacher), rows)]
    assert sorted(teacher.calls) == [("answer", 1), ("generate", 1), ("generate", 15)]
    assert found[15]["draft"] == "a king wrote it"
    assert teacher.prompts[0] == REWRITE.render(Context("who wrote 0?", draft="the queen"))
    assert found[0] == {
        "draft": "the queen",
        "questions": [],
        "claims": [{"text": "a king", "query": "king", "search": True}],
        "grammar": "released",
        "repairs": [],
        "llm": "big",
    }
    assert len(claim_rows(row | one for row, one in zip(rows, found, strict=True))) == 16


def test_what_cannot_be_read_becomes_an_error_row():
    verb = claims_verb(Teacher("As I said."))
    (traced,) = labelled(verb, [{"question": "who?", "draft": "a king"}])
    assert isinstance(traced.error, PortError) and "As I said." in str(traced.error)


def test_label_claims_from_the_command_line(base, tmp_path):
    source = tmp_path / "rows.jsonl"
    write_jsonl(source, [{"question": "who?", "draft": "a king", "id": 1}])
    how = ["--llm", base, "--device", "cpu", "--max-new-tokens", "4", "--prompt", "paper"]
    out = tmp_path / "out.jsonl"
    done = CliRunner().invoke(app, ["label", "claims", str(source), "--out", str(out), *how])
    (row,) = [json.loads(line) for line in out.read_text().splitlines()]
    assert row["id"] == 1 and ("error" in row) == (row["claims"] is None)
    assert done.exit_code == int("error" in row) and "1 rows" in done.stderr, done.output
    done = CliRunner().invoke(
        app, ["label", "claims", str(source), "--out", str(out), *how, "--prompt", "mine"]
    )
    assert isinstance(done.exception, InputError)
    assert "rewriter_prompt` must be" in str(done.exception)
