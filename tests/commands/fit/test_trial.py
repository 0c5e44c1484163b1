"""`fitrag try`: questions, the comparison with the bundled models, the page and the sentence."""

import json
import subprocess
import sys
from contextlib import contextmanager

import pytest
from command_fakes import write
from typer.testing import CliRunner

from fitrag_integrations.cli import app
from fitrag_integrations.commands.engine.progress import progress_bar
from fitrag_integrations.commands.fit import trial
from fitrag_integrations.commands.fit.comparing import compare, proof, sentence
from fitrag_integrations.commands.fit.reading import read_given
from fitrag_integrations.core.extras import installed
from fitrag_integrations.errors import InputError, PortError
from fitrag_integrations.evaluation.table import Draws
from fitrag_integrations.flow import run_many
from fitrag_integrations.methods import FitRag
from fitrag_integrations.methods.defaults import EMBEDDED_SCORER
from fitrag_integrations.ports import Ports
from fitrag_integrations.retrieval.corpus.files import corpus_files
from fitrag_integrations.training.asking_llm import AskLLM
from fitrag_integrations.training.fitted.questions import Asked, questions_from, questions_in
from fitrag_integrations.training.fitted.savings import LEVEL
from fitrag_integrations.types import Passage

needs_index = pytest.mark.skipif(not installed("faiss"), reason="searches the corpus")
LONG = "The weather was mild and nobody had much to say about it that whole long year. "
PEOPLE = "Ann Bo Cy Di Ed Flo Gus Hal Ida Jo Kim Lee Max Ned Ola Pam Rex Sue Tim Una Vic Wes"
BUILDINGS = (
    "bridge mill tower harbour library station chapel market prison stable theatre lighthouse "
    "brewery school hospital cinema windmill factory castle garden museum fountain"
)
WHO, WHAT = PEOPLE.split(), BUILDINGS.split()


def texts():
    return [
        f"{LONG}The {what} was built by {who} Smith. {LONG}"
        for who, what in zip(WHO, WHAT, strict=True)
    ]


def questions():
    return [
        {"question": f"Who built the {what}?", "answers": [f"{who} Smith"]}
        for who, what in zip(WHO, WHAT, strict=True)
    ]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Give a corpus of long passages about one thing each, and its questions."""
    at = tmp_path_factory.mktemp("try")
    rows = [{"text": text, "title": what} for text, what in zip(texts(), WHAT, strict=True)]
    return write(at / "corpus.jsonl", rows), write(at / "questions.jsonl", questions())


def run(*given):
    done = CliRunner().invoke(app, ["try", *map(str, given)])
    if isinstance(done.exception, Exception):
        raise done.exception
    return done


@needs_index
def test_the_sentence_the_json_and_the_page_say_the_same(small, tmp_path):
    page = tmp_path / "page.html"
    done = run(*small, "--k", 2, "--out", page, "--json", "--quiet")
    told = json.loads(done.stdout)
    assert not done.stderr
    assert told["there"] == told["questions"] == len(WHO) and told["skipped"] is None
    assert told["verdict"] == "worth it" and told["worth it"] is True
    saving = told["saving"]
    assert saving["level"] == LEVEL and saving["excerpts"] < saving["first"]
    assert 0.1 < saving["bounds"][0] <= saving["saved"] <= saving["bounds"][1]
    ours, first = told["curves"].values()
    assert ours[-1][1] == first[-1][1] == 1.0  # everything is shown
    shown = page.read_text()
    said = f"takes {saving['excerpts']:.0f} tokens a question with excerpts"
    assert f"Worth it: keeping {LEVEL:.0%} of {len(WHO)} answers {said}" in shown
    for tokens, kept in (*ours, *first):  # the numbers under the chart
        assert f"{tokens:.1f}"[:4] in shown.replace(",", "") and f"{kept:.3f}" in shown
    assert not list(tmp_path.glob("*.partial"))


@needs_index
def test_made_questions_say_perhaps_at_most_and_unread_files_are_named(small, tmp_path):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for what, text in zip(WHAT, texts(), strict=True):
        (corpus / f"{what}.txt").write_text(text.replace(" was built", " of stone was built"))
    (corpus / "bad.jsonl").write_text("{\n")
    (corpus / "photo.png").write_bytes(b"\x89PNG")
    page = tmp_path / "page.html"
    page.write_text("an earlier page")
    done = run(corpus, "--k", 2, "--out", page)
    assert f"{page} is there and will be replaced" in done.stderr
    assert done.stdout.startswith("May be worth it: ") and "made from sentences" in done.stdout
    assert "skipped" not in done.stdout
    assert "2 left out or not read as usual" in done.stderr
    assert ".png: not a kind that is read: photo.png" in done.stderr
    for name in ("bad.jsonl", "photo.png", "Left out"):
        assert name in page.read_text()


@needs_index
def test_questions_without_answers_say_perhaps_at_most(small, tmp_path):
    asked = tmp_path / "questions.txt"
    asked.write_text("\n".join(one["question"] for one in questions()))
    done = run(small[0], asked, "--k", 2, "--out", tmp_path / "page.html", "--quiet")
    assert done.stdout.startswith("May be worth it: ") and "bundled reader finds" in done.stdout


@needs_index
def test_a_piped_run_says_every_few_seconds_how_far_it_is(small, tmp_path):
    code = (
        "from fitrag_integrations.commands.engine import progress; progress.LINE_SECONDS = 0.2\n"
        "from fitrag_integrations.cli import main; main()"
    )
    given = ["try", *small, "--k", "2", "--out", tmp_path / "page.html"]
    command = [sys.executable, "-c", code, *map(str, given)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told = [line for line in done.stderr.splitlines() if "scoring passages" in line]
    assert len(told) > 1 and "of 44" in told[0] and "44 of 44" in told[-1]


def test_every_budget_is_what_fitrag_gives_and_costs_no_further_scoring():
    passages = [Passage(str(n), text, WHAT[n]) for n, text in enumerate(texts())]
    asked = [Asked(one["question"], tuple(one["answers"])) for one in questions()[:4]]
    found = {one.question: passages[n : n + 3] for n, one in enumerate(asked)}
    calls = []

    @contextmanager
    def bar(label, total):
        yield lambda count: calls.append((label, count))

    compared = compare(asked, found, EMBEDDED_SCORER, draws=Draws(10), bar=bar)
    scored = [count for label, count in calls if label == "scoring passages"]
    assert sum(scored) == 12  # each passage of each question, once
    ports = Ports(retrieve=lambda queries: [found[query] for query in queries])
    traced = run_many(FitRag()(one.question, ports) for one in asked)
    places = [[(e.passage, e.start, e.end) for e in row.excerpts] for row in compared.rows]
    assert places == [[(e.passage, e.start, e.end) for e in t.value.excerpts] for t in traced]


def test_no_answer_in_what_was_retrieved_is_said():
    passage = Passage("0", texts()[0])
    asked, found = [Asked("Who?", ("Zoe",))], {"Who?": [passage]}
    lost = compare(asked, found, EMBEDDED_SCORER, draws=Draws(10), bar=progress_bar)
    figures = proof(lost, skipped=None, price=None)
    assert "nothing can be said" in sentence(figures) and figures["verdict"] == "too few answers"
    assert figures["saving"] is None


def test_questions_as_people_have_them(tmp_path):
    given = [{"question": "Who?", "answers": ["Ann"]}, {"question": "When?", "answer": "May"}]
    asked = questions_in(write(tmp_path / "q.jsonl", [*given, {"question": "Why?"}]), 9)
    assert asked == [Asked("Who?", ("Ann",)), Asked("When?", ("May",)), Asked("Why?")]
    (tmp_path / "q.txt").write_text("Who?\n\nWhen?\n")
    assert questions_in(tmp_path / "q.txt", 9) == [Asked("Who?"), Asked("When?")]
    bad = write(tmp_path / "bad.jsonl", [{"question": "Who?"}, {"question": 3}])
    with pytest.raises(InputError, match="row 2: `question` must be"):
        questions_in(bad, 9)


def test_questions_are_made_of_sentences():
    text = "It rained. The old stone bridge was built in the spring by Ann Lee, they say."
    assert questions_from([Passage("0", text), Passage("1", "Short.")], 5) == [
        Asked("The old stone bridge was built in the spring by what, they say?", ("Ann Lee",), text)
    ]


MARKUP = [
    "| The old stone bridge was built in the spring by Ann Lee, they say. | 1851 | a | b |",
    "The old stone bridge " + "and its two abutments " * 30 + "were built by Ann Lee.",
    "```\nThe old stone bridge was built in the spring by Ann Lee, they say.\n```",
    "    The old stone bridge was built in the spring by Ann Lee, they say.",
    "- The old stone bridge was built in the spring by Ann Lee, they say.",
    "# The old stone bridge was built in the spring by Ann Lee, they say.",
    "The old `stone` bridge was built in the spring by Ann Lee, they say.",
    "The [old stone bridge](bridge.md) was built in the spring by Ann Lee, they say.",
    "[![Build](https://img.shields.io/b.svg)] was built in the spring by Ann Lee, they say.",
    "<b>The old stone bridge was built in the spring by Ann Lee, they say.</b>",
    "The function build(bridge) was called in the spring by Ann Lee, they say.",
    "It was built with --bridge in the spring by Ann Lee, as they say.",
    "the old stone bridge was built in the spring by Ann Lee, they say.",
    "The old stone bridge was built in the spring by Ann Lee, they say",
    "The file bridge.toml was written in the spring by Ann Lee, they say.",
    "Contents Bridges Mills Towers Harbours and Libraries built by Ann Lee, Page Twelve.",
]


@pytest.mark.parametrize("text", MARKUP)
def test_no_question_is_made_of_what_is_no_prose(text):
    assert questions_from([Passage("0", text)], 5) == []


class Seeing:
    """Answer with the name that a prompt gives for the thing in question; nothing without it."""

    name = "seeing"

    def generate(self, prompts):
        return [self.one(prompt) for prompt in prompts]

    def one(self, prompt):
        if "Answer Yes or No" in prompt:
            return "Yes"
        there = [w for w, t in zip(WHO, WHAT, strict=True) if f"Who built the {t}?" in prompt]
        return there[0] + " Smith" if there and f"by {there[0]}" in prompt else "nobody"


@needs_index
def test_a_language_model_says_what_is_kept(small, tmp_path, monkeypatch):
    monkeypatch.setattr(trial, "load_asker", lambda asking, hardware: AskLLM(Seeing()))
    page = tmp_path / "page.html"
    given = [*small, "--k", 2, "--llm", "seeing", "--out", page, "--quiet"]
    told = json.loads(run(*given, "--json").stdout)
    assert told["there"] == len(WHO) and told["skipped"] == 1.0 and told["worth it"]
    done = run(*given, "--price-in", 2)
    assert done.stdout.startswith("Worth it: ") and "where seeing gives it" in done.stdout
    assert "Retrieval can be skipped for 100%." in done.stdout and "in money" in done.stdout


@needs_index
def test_answers_of_a_model_that_was_trained_anew_are_not_taken(small, tmp_path, monkeypatch):
    monkeypatch.setattr(trial, "load_asker", lambda asking, hardware: AskLLM(Seeing()))
    (tmp_path / "lm").mkdir()
    (tmp_path / "lm" / "weights").write_text("first")
    given = [*small, "--k", 2, "--llm", tmp_path / "lm", "--out", tmp_path / "page.html", "--quiet"]
    for _ in range(2):
        run(*given)
    (tmp_path / "lm" / "weights").write_text("again")
    with pytest.raises(InputError, match="--llm.*choose another output"):
        run(*given)


@needs_index
def test_a_language_model_out_of_reach_ends_it_before_the_work(small, tmp_path, monkeypatch):
    class Silent(Seeing):
        def one(self, prompt):
            raise ConnectionError("refused")

    monkeypatch.setattr(trial, "load_asker", lambda asking, hardware: AskLLM(Silent(), wait=0.0))
    for given in (small, small[:1]):  # with questions, and where it writes them
        with pytest.raises(PortError, match="does not answer: .*refused"):
            run(*given, "--llm", "silent", "--out", tmp_path / "page.html")


def lists():
    """Rows as a user's own retriever returned them: three passages of each question."""
    passages = [{"title": t, "text": text} for t, text in zip(WHAT, texts(), strict=True)]
    return [
        {**one, "passages": [passages[(at + n) % len(WHAT)] for n in (1, 0, 2)]}
        for at, one in enumerate(questions())
    ]


WITHOUT = """
import sys
for name in ("faiss", "torch", "scipy"):
    sys.modules[name] = None
from fitrag_integrations.core import extras
extras.installed = lambda name, there=extras.installed: name not in sys.modules and there(name)
from fitrag_integrations.cli import main
main()
"""


def test_lists_of_an_own_retriever_are_tried_on_a_core_install(tmp_path):
    odd = [{"question": "Who?"}, {"question": " ", "passages": ["x"]}, lists()[0], {"no": 1}]
    rows = write(tmp_path / "rows.jsonl", [*lists(), *odd])
    given = ["try", rows, "--out", tmp_path / "page.html", "--json"]
    command = [sys.executable, "-c", WITHOUT, *map(str, given)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["there"] == told["questions"] == len(WHO) and told["verdict"] == "worth it"
    assert [note["line"] for note in told["left out"]] == [23, 24, 25, 26]
    assert "an earlier row asks" in told["left out"][2]["reason"]
    assert "no intervals" in (tmp_path / "page.html").read_text()
    assert told["low"] is None and told["saving"]["bounds"][0] > 0.1


def test_lists_bring_their_questions(tmp_path):
    rows = write(tmp_path / "rows.jsonl", lists()[:2])
    with pytest.raises(InputError, match="the rows bring their questions"):
        run(rows, write(tmp_path / "q.jsonl", questions()), "--out", tmp_path / "page.html")


HEAD = "city,founded by,inhabitants\nUlm,nobody,126 000\nMainau,a monk,\n"
TABLE_FILES = {
    "towns.csv": HEAD,
    "towns.tsv": HEAD.replace(",", "\t"),
    "towns.json": '{"rows": [{"city": "Ulm", "founded by": "nobody", "inhabitants": "126 000"},'
    ' {"city": "Mainau", "founded by": "a monk", "inhabitants": null}]}',
    "towns.yaml": "- {city: Ulm, founded by: nobody, inhabitants: 126 000}\n"
    "- {city: Mainau, founded by: a monk}\n",
    "towns.jsonl": '{"city": "Ulm", "founded by": "nobody", "inhabitants": "126 000"}\n'
    '{"city": "Mainau", "founded by": "a monk"}\n',
}


@pytest.mark.parametrize("name", TABLE_FILES)
@pytest.mark.parametrize("folder", [False, True])
def test_rows_of_a_table_are_passages_with_their_header(tmp_path, name, folder):
    (tmp_path / name).write_text(TABLE_FILES[name])
    if folder:
        (tmp_path / "more.txt").write_text("The Iller ends at Ulm.")
        (tmp_path / "photo.png").write_bytes(b"\x89PNG")
    notes = []
    given = read_given(tmp_path if folder else tmp_path / name, 9, notes)
    made = [one for one in given.passages if one.source == name]
    assert [one.text for one in made] == [
        "city: Ulm; founded by: nobody; inhabitants: 126 000",
        "city: Mainau; founded by: a monk",
    ]
    assert {one.title for one in made} == {"towns"} and made[1].id == f"{name}#2"
    assert len(given.passages) == 2 + folder
    assert [note.file for note in notes] == (["photo.png"] if folder else [])


@pytest.mark.parametrize("name", ["a.csv", "a.json", "a.yaml"])
def test_questions_of_a_table(tmp_path, name):
    text = {
        "a.csv": "question,answer\nWho?,Ann\n",
        "a.json": '[{"question": "Who?", "answer": "Ann"}]',
    }
    (tmp_path / name).write_text(text.get(name, "- question: Who?\n  answer: Ann\n"))
    assert questions_in(tmp_path / name, 9) == [Asked("Who?", ("Ann",))]


@pytest.mark.parametrize("name", ["away", "away/rows.jsonl", "empty.csv", "bad.json"])
def test_what_cannot_be_read_is_named(tmp_path, name):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(InputError, match=name) as told:
        read_given(tmp_path / name, 9, [])
    assert "`.`" not in str(told.value) and " .: " not in str(told.value)


def test_a_folder_that_cannot_be_opened_is_named_in_full(tmp_path):
    notes = []
    corpus_files(tmp_path / "away", notes.append)
    assert [note.file for note in notes] == [str(tmp_path / "away")]
