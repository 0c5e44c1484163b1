"""The demo's sample, figures and pipelines; and an index made by the command."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from command_fakes import FirstWord, Words, write

from fitrag_integrations.commands.demo import demo, stacks
from fitrag_integrations.commands.demo.demo import equal_answers
from fitrag_integrations.commands.demo.figures import compared, figures, gate_figures, is_right
from fitrag_integrations.commands.demo.stacks import (
    FirstPassages,
    Parts,
    Question,
    Worked,
    langchain_stack,
    llama_index_stack,
    plain_stack,
)
from fitrag_integrations.commands.engine import models
from fitrag_integrations.types import BiLabelScore, Excerpt, Passage, RetrievalDecision

BUILDS = (langchain_stack, llama_index_stack, plain_stack)
TEXTS = ("Ann wrote it in May. It sold. Bo read it.", "Rain falls in May. It ends.", "Cy came.")


class Letters:
    """Encode a text as how often it has each of four letters."""

    name = "letters"
    width = 4

    def encode(self, texts):
        return [[float(text.lower().count(letter)) for letter in "anwi"] for text in texts]


def passages():
    return [Passage(f"p{i}", text, f"T{i}") for i, text in enumerate(TEXTS)]


@pytest.fixture
def index():
    from fitrag_integrations.retrieval import FaissIndex

    return FaissIndex.build(passages(), encoder=Letters())


def values(found):
    return SimpleNamespace(**{name: figure.value for name, figure in found.items()})


def question(text="who wrote it", *, answerable=True, ids=("p0",)):
    return Question(text, ("Ann",), frozenset(ids), answerable)


def test_both_frameworks_and_none_give_the_same(index):
    parts = Parts(index, Words(), FirstWord(), k=3)
    asked = [question(), question("when is rain"), question("who came in")]
    chain, engine, plain = (parts.stack(build)(asked) for build in BUILDS)
    assert equal_answers({"a": (chain, 1.0), "b": (engine, 1.0), "c": (plain, 1.0)}) == 3
    for one, other in [*zip(chain, engine, strict=True), *zip(chain, plain, strict=True)]:
        for name in ("found", "ranked", "kept"):
            assert list(map(place, getattr(one, name))) == list(map(place, getattr(other, name)))
        assert one.prompt == other.prompt
        assert len(one.found) == 3 and len(one.ranked) == 3


def place(item):
    if isinstance(item, Passage):
        return item.id, item.metadata["retrieval_score"]
    return item.passage.id, item.start, item.end, item.score, item.labels.has_answer


class Sure:
    """Know the questions that begin with "who", and answer with the last word of the prompt."""

    draft_tokens = 0
    threshold = 0.5
    prompt = "Say it: {question}"

    @property
    def drafter(self):
        return self

    def p_known(self, questions, drafts):
        return [0.9 if question.startswith("who") else 0.1 for question in questions]

    def generate(self, prompts):
        return [prompt.split()[-1] for prompt in prompts]


def test_what_is_known_is_not_retrieved_for_in_both(index):
    parts = Parts(index, Words(), FirstWord(), k=3, gate=Sure())
    asked = [question(), question("when is rain"), question("who came in")]
    chain, engine, plain = (parts.stack(build)(asked) for build in BUILDS)
    for worked in (chain, engine, plain):
        assert [each.skipped for each in worked] == [True, False, True]
        assert [each.decision.p_known for each in worked] == [0.9, 0.1, 0.9]
        assert (worked[0].answer, worked[0].prompt) == ("it", "Say it: who wrote it")
        assert worked[0].found == worked[0].ranked == worked[0].kept == ()
        assert len(worked[1].found) == 3
    assert [each.decision for each in chain] == [each.decision for each in engine]
    assert [each.answer for each in chain] == [each.answer for each in engine]
    assert [each.prompt for each in chain] == [each.prompt for each in engine]


def test_gate_figures_by_hand():
    ann, *_ = passages()
    whole = Excerpt.whole(ann, score=1.0, labels=BiLabelScore(0.5, 0.5))
    known = RetrievalDecision(False, 0.9, 0.5, "known")
    unknown = RetrievalDecision(True, 0.1, 0.5, "unknown")

    def worked(answer, prompt, decision, asked=None):
        found = ((), (), ()) if decision is known else ((ann,), (whole,), (whole,))
        return Worked(asked or question(), *found, prompt, answer, 2, decision)

    rows = [
        worked("It was Ann.", "who", known),
        worked("Bo", "who", known, question("who", answerable=False, ids=())),
        worked("Ann", "who " * 40, unknown),
        worked("", "who " * 40, unknown),
    ]
    again = [worked("Bo", "who " * 40, None), worked("", "who " * 40, None, rows[1].question)]
    got = values(gate_figures(rows, again, 0.5))
    assert (got.threshold, got.skipped) == (0.5, 0.5)
    assert (got.right_skipped, got.right_if_retrieved, got.right_retrieved) == (0.5, 0.5, 0.5)
    assert got.tokens < got.tokens_if_retrieved
    assert not is_right(rows[1], extractive=True)  # it was asked to know, not to abstain
    none = values(gate_figures(rows[2:], [], 0.5))
    assert (none.skipped, none.right_skipped, none.right_if_retrieved) == (0.0, None, None)
    assert none.tokens == none.tokens_if_retrieved
    left_out = values(figures(rows, 1.0, extractive=True))
    assert left_out.recall_1_before == 1.0 and left_out.tokens_before > 0


def test_a_chat_model_answers_in_both(index):
    from langchain_core.language_models import FakeListChatModel

    parts = Parts(index, Words(), FirstWord(), FakeListChatModel(responses=["Ann"]), k=2)
    for build in BUILDS:
        assert [each.answer for each in parts.stack(build)([question()])] == ["Ann"]


def test_figures_by_hand():
    ann, rain, _ = passages()
    labels = BiLabelScore(0.5, 0.5)

    def worked(asked, found, ranked, kept, answer):
        wholes = tuple(Excerpt.whole(p, score=1.0, labels=labels) for p in ranked)
        return Worked(asked, found, wholes, kept, "prompt", answer, 2)

    first = Excerpt(ann, 0, 20)
    measured = figures(
        [
            worked(question(), (rain, ann), (ann, rain), (first,), "Ann"),
            worked(question(), (ann, rain), (rain, ann), (Excerpt(ann, 21, 29),), "Rain"),
            worked(question(answerable=False, ids=()), (rain,), (rain,), (), ""),
            worked(question(answerable=False, ids=()), (rain,), (rain,), (), "Ann"),
        ],
        2.0,
        extractive=True,
    )
    got = values(measured)
    assert (got.accuracy, got.answerable, got.unanswerable) == (0.5, 0.5, 0.5)
    assert (got.recall_1_before, got.recall_1_after) == (0.5, 0.5)
    assert (got.recall_5_before, got.recall_5_after) == (1.0, 1.0)
    assert got.kept == 0.5
    assert got.milliseconds == 500.0
    assert got.saved == pytest.approx(1 - got.tokens_after / got.tokens_before)


def test_the_sample_is_spread_and_holds_enough_unanswerable_questions():
    sample = stacks.questions(150)
    assert len(sample) == len(set(sample)) == 150
    assert sum(not each.answerable for each in sample) >= 30
    assert len(stacks.questions(10)) == 10
    assert len(stacks.questions(9999)) == 381
    assert stacks.spread("abcdef", 3) == ["a", "c", "e"]


def test_examples_fit_a_terminal(index, capsys):
    parts = Parts(index, Words(), FirstWord(), k=3)
    worked = parts.stack(langchain_stack)([question(), question("[bold]odd[/bold] one")])
    gated = replace(parts, gate=Sure())
    worked += gated.stack(langchain_stack)([question("who may that be")])
    for each in demo.chosen(worked, 3, extractive=True):
        demo.show_worked(each)
    demo.show_figures({"one": gate_figures(worked, [], 0.5)}, ["said"])
    shown = capsys.readouterr().out
    assert "Gate: the model seems to know it" in shown
    assert "[bold]odd[/bold] one" in shown
    assert max(map(len, shown.splitlines())) <= 100


def worked_on(text, kept, answer, asked=None, ranked=None):
    """Build a question's way over one passage, of which `kept` is a span."""
    passage = Passage("p0", text, "T")
    whole = Excerpt.whole(passage, score=1.0, labels=BiLabelScore(0.5, 0.5))
    ranked = (whole,) if ranked is None else ranked
    excerpts = (Excerpt(passage, *kept),)
    return Worked(asked or question(), (passage,), ranked, excerpts, "prompt", answer, 10)


def test_compared_by_hand():
    text, other = "It rained. Ann wrote it.", question(answerable=False, ids=())
    elsewhere = question("in another passage", ids=("p9",))
    cut = [
        worked_on(text, (0, 10), "", ranked=()),
        worked_on(text, (0, 10), "", elsewhere, ranked=()),
        worked_on(text, (0, 10), "", other, ranked=()),
    ]
    best = [
        worked_on(text, (11, 24), "Ann"),
        worked_on(text, (11, 24), "Bo", elsewhere),
        worked_on(text, (11, 24), "Ann", other),
    ]
    got = compared(cut, best, extractive=True)
    rows = {name: (row.plain, row.fitrag, row.questions) for name, row in got.items()}
    assert rows.pop("tokens of the prompt's passages")[2] == 3
    assert rows == {
        "the answer is in the prompt": (0.0, 0.5, 2),  # not where it stands by chance
        "the answer is in the first passage": (0.5, 0.5, 2),
        "the answer given is right": (0.0, 0.5, 2),
        "no answer where there is none": (1.0, 0.0, 1),
    }
    held = got["the answer is in the prompt"]
    assert held.change.value == 0.5 and held.change.bounds[0] <= 0.5 <= held.change.bounds[1]
    assert "no answer where there is none" not in compared(cut, best, extractive=False)


def test_the_first_passages_are_cut_to_the_budget(index):
    parts = Parts(index, Words(), FirstWord(), k=3)
    for most in (6, 20, 500):
        (one,) = parts.stack(plain_stack, FirstPassages(most))([question()])
        assert stacks.cost_of(one.kept) <= most
        texts = " ".join(each.text for each in one.kept)
        assert " ".join(passage.text for passage in one.found).startswith(texts)
        assert one.ranked == ()
    assert len(one.kept) == 6  # every sentence of the three passages


def test_the_opening_is_a_right_answer_that_the_first_passages_lack():
    text = "It rained. Ann wrote it. It sold."
    cut = [worked_on(text, (0, 10), ""), worked_on(text, (0, 24), "Ann")]
    short, long = worked_on(text, (11, 24), "Ann"), worked_on(text, (11, 33), "Ann")
    wrong = worked_on(text, (0, 10), "Bo")
    assert demo.opening(cut, [long, short], extractive=True) is long
    assert demo.opening(cut[:1] * 2, [long, short], extractive=True) is short
    assert demo.opening(cut, [wrong, short], extractive=True) is short
    assert demo.opening(cut, [wrong, wrong], extractive=True) is None


def test_the_first_screen_fits_and_names_what_goes_wrong(capsys):
    text = "It rained. " * 40 + "Ann wrote it."
    asked = [question(), question("none", answerable=False, ids=())]
    cut = [worked_on(text, (0, 10), "", each, ranked=()) for each in asked]
    best = [worked_on(text, (440, 453), "Ann", each) for each in asked]
    table = compared(cut, best, extractive=True)
    demo.DemoPlan()._screen([Passage("p0", text, source="a.md")], cut, best, table)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 105 and len(lines) <= 40
    shown = "\n".join(lines)
    assert "who wrote it" in shown and "**Ann** wrote it." in shown and "Answer: Ann" in shown
    assert "the answer is in the prompt, of 1" in shown and "+100 points" in shown
    assert "0 of 1 retrieved answers lost; 1 of 1 questions without an answer" in shown


def test_the_handbook_answers_its_questions_and_no_others():
    from fitrag_integrations.retrieval import read_corpus

    passages = list(read_corpus(stacks.DOCUMENTS))
    asked = stacks.handbook_questions(passages, 999)
    assert len(asked) == len({each.text for each in asked}) == 80
    assert sum(not each.answerable for each in asked) == 12
    for each in asked:
        assert each.answerable == bool(each.answers) == bool(each.passage_ids), each.text
    some = stacks.handbook_questions(passages, 20)
    assert sum(not each.answerable for each in some) == 3


@pytest.fixture
def letters(monkeypatch):
    from fitrag_integrations import retrieval

    def load(folder, options, kind="FaissIndex"):
        return getattr(retrieval, kind).load(folder, encoder=Letters())

    monkeypatch.setattr(
        models, "new_index", lambda options, kind: retrieval.FaissIndex(Letters(), kind=kind)
    )
    monkeypatch.setattr(models, "load_index", load)


def test_index_builds_adds_and_answers(tmp_path, letters, scorer, fitrag):
    rows = [{"id": p.id, "title": p.title, "text": p.text, "year": 1} for p in passages()]
    corpus = write(tmp_path / "corpus.jsonl", [*rows[:2], b"nonsense", {"text": ""}])
    folder = tmp_path / "index"
    code, out, told = fitrag("index", corpus, folder, "--json")
    assert code == 0
    assert "2 left out" in told and "line 3" in told and "line 4" in told
    summary = json.loads(out)
    assert (summary["passages"], summary["added"], summary["skipped"]) == (2, 2, 2)
    code, _, err = fitrag("index", corpus, folder)
    assert code == 2 and "--add" in err
    more = write(tmp_path / "more.jsonl", rows)
    assert json.loads(fitrag("index", more, folder, "--add", "--json")[1])["added"] == 1
    got = json.loads(fitrag("answer", "who wrote it", "--index", folder, "--k", 2, "--json")[1])
    assert {each["id"] for each in got["context"]} <= {"p0", "p1", "p2"}
    assert len(got["context"]) == 2


@pytest.mark.parametrize(
    ("name", "left", "code", "said"),
    [
        ("corpus.jsonl", ".index.faiss.0123.tmp", 1, "0 passages"),  # as a killed run leaves it
        ("corpus.jsonl", "notes.txt", 2, "OUT_DIR"),
        ("nothing", "", 2, "corpus"),
    ],
)
def test_no_index_is_made_of_nothing_or_over_other_files(
    tmp_path, letters, fitrag, name, left, code, said
):
    write(tmp_path / "corpus.jsonl", [{"text": ""}])
    (tmp_path / "index").mkdir()
    if left:
        (tmp_path / "index" / left).write_bytes(b"half")
    done = fitrag("index", tmp_path / name, tmp_path / "index")
    assert done[0] == code and said in done[2]


@pytest.mark.slow
class TestEmbedded:
    """The verbs with the models that ship."""

    def test_verbs(self, tmp_path, fitrag):
        row = {
            "id": 1,
            "question": "Who wrote the score of Amarcord?",
            "passages": [
                {"title": "Milan", "text": "Milan is a city in Italy. It is large."},
                {"title": "Amarcord", "text": "It is a film. Nino Rota wrote the score. It won."},
            ],
        }
        source = write(tmp_path / "in.jsonl", [row])
        for verb in ("score", "compress", "read", "answer"):
            out = tmp_path / f"{verb}.jsonl"
            assert fitrag(verb, source, out, "--strict")[0] == 0
            row |= json.loads(out.read_text())
        assert row["scores"][1]["has_answer"] > row["scores"][0]["has_answer"]
        best = row["excerpts"][0]
        assert best["passage"] == 1
        assert row["prompt"].endswith(f"{row['question']}\n")

    def test_demo(self, fitrag):
        code, out, _ = fitrag("demo", "--questions", 8, "--examples", 1, "--json")
        assert code == 0
        report = json.loads(out)
        held = report["compared"]["the answer is in the prompt"]
        assert 0 <= held["first_passages"] <= held["fitrag"] <= 1
        assert report["equal_answers"] == report["questions"] == 8
        assert set(report["figures"]) == {"LangChain", "LlamaIndex"}
        gates = report["gate"]
        assert gates["LangChain"] == gates["LlamaIndex"]
        assert 0 < gates["LangChain"]["skipped"] < 1
        assert gates["LangChain"]["right_skipped"] >= 0.9
