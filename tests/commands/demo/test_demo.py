"""The demo's sample, figures and pipelines; and an index made by the command."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from command_fakes import FirstWord, Words, write

from fitrag_integrations.commands.demo import demo, stacks
from fitrag_integrations.commands.demo.demo import equal_answers
from fitrag_integrations.commands.demo.figures import figures, gate_figures, is_right
from fitrag_integrations.commands.demo.stacks import (
    Parts,
    Question,
    Worked,
    langchain_stack,
    llama_index_stack,
)
from fitrag_integrations.commands.engine import models
from fitrag_integrations.types import BiLabelScore, Excerpt, Passage, RetrievalDecision

BUILDS = (langchain_stack, llama_index_stack)
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


def test_both_frameworks_give_the_same(index):
    parts = Parts(index, Words(), FirstWord(), k=3, top_n=2)
    asked = [question(), question("when is rain"), question("who came in")]
    chain, engine = (parts.stack(build)(asked) for build in BUILDS)
    assert equal_answers({"a": (chain, 1.0), "b": (engine, 1.0)}) == 3
    for one, other in zip(chain, engine, strict=True):
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
    parts = Parts(index, Words(), FirstWord(), k=3, top_n=2, gate=Sure())
    asked = [question(), question("when is rain"), question("who came in")]
    chain, engine = (parts.stack(build)(asked) for build in BUILDS)
    for worked in (chain, engine):
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
    parts = Parts(index, Words(), FirstWord(), k=3, top_n=2)
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


def test_the_opening_is_the_right_answer_that_saved_most(capsys):
    labels = BiLabelScore(0.5, 0.5)

    def worked(answer, text, end):
        passage = Passage("p0", text, "T")
        whole = Excerpt.whole(passage, score=1.0, labels=labels)
        kept = (Excerpt(passage, 0, end),)
        return Worked(question(), (passage,), (whole,), kept, "prompt", answer, 2)

    wrong = worked("Bo", "Ann wrote it. " + "It rained. " * 90, 13)
    little = worked("Ann", "Ann wrote it. It rained.", 13)
    much = worked("Ann", "Ann wrote it. " + "It rained. " * 40, 13)
    assert demo.most_saved([wrong, little, much], extractive=True) is much
    assert demo.most_saved([wrong], extractive=True) is None
    demo.show_worked(much, whole=True)
    shown = capsys.readouterr().out
    assert "Before and after: who wrote it" in shown and "Answer: Ann" in shown
    (told,) = [line for line in shown.splitlines() if " -> " in line]
    before, _, after = told.strip("│ ").partition(" tokens")[0].split()
    assert int(before) > 5 * int(after)


@pytest.fixture
def letters(monkeypatch):
    from fitrag_integrations.retrieval import FaissIndex

    def load(folder, options):
        return FaissIndex.load(folder, encoder=Letters())

    monkeypatch.setattr(models, "new_index", lambda options, kind: FaissIndex(Letters(), kind=kind))
    monkeypatch.setattr(models, "load_index", load)


def test_index_builds_adds_and_answers(tmp_path, letters, scorer, fitrag):
    rows = [{"id": p.id, "title": p.title, "text": p.text, "year": 1} for p in passages()]
    corpus = write(tmp_path / "corpus.jsonl", [*rows[:2], b"nonsense", {"text": ""}])
    folder = tmp_path / "index"
    code, out, told = fitrag("index", corpus, folder, "--json")
    assert code == 0
    assert told.count("left out: ") == 2
    summary = json.loads(out)
    assert (summary["passages"], summary["added"], summary["skipped"]) == (2, 2, 2)
    code, _, err = fitrag("index", corpus, folder)
    assert code == 2 and "--add" in err
    more = write(tmp_path / "more.jsonl", rows)
    assert json.loads(fitrag("index", more, folder, "--add", "--json")[1])["added"] == 1
    got = json.loads(fitrag("answer", "who wrote it", "--index", folder, "--k", 2, "--json")[1])
    assert {each["id"] for each in got["context"]} <= {"p0", "p1", "p2"}
    assert len(got["context"]) == 2


def test_an_index_in_parts_is_searched_as_one(tmp_path, letters, scorer, fitrag, monkeypatch):
    from fitrag_integrations.retrieval import IndexShards

    monkeypatch.setattr(
        models, "_opened", lambda kind, folder, _: IndexShards.load(folder, encoder=Letters())
    )
    rows = [{"id": p.id, "title": p.title, "text": p.text} for p in passages()]
    corpus, folder = write(tmp_path / "corpus.jsonl", rows), tmp_path / "index"
    counts = [
        json.loads(fitrag("index", corpus, folder / f"{i}", "--shard", f"{i}/2", "--json")[1])
        for i in range(2)
    ]
    assert sum(each["passages"] for each in counts) == len(rows)
    got = json.loads(fitrag("answer", "who wrote it", "--index", folder, "--k", 3, "--json")[1])
    assert {each["id"] for each in got["context"]} == {"p0", "p1", "p2"}
    code, _, err = fitrag("index", corpus, tmp_path / "other", "--shard", "2/2")
    assert code == 2 and "--shard" in err


def test_an_index_of_nothing_fails(tmp_path, letters, fitrag):
    corpus = write(tmp_path / "corpus.jsonl", [{"text": ""}])
    code, _, told = fitrag("index", corpus, tmp_path / "index")
    assert code == 1 and "0 passages" in told


def test_index_of_a_missing_corpus(tmp_path, fitrag):
    code, _, err = fitrag("index", tmp_path / "nothing", tmp_path / "index")
    assert code == 2 and "corpus" in err


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
        assert report["equal_answers"] == report["questions"] == 8
        assert set(report["figures"]) == {"LangChain", "LlamaIndex"}
        gates = report["gate"]
        assert gates["LangChain"] == gates["LlamaIndex"]
        assert 0 < gates["LangChain"]["skipped"] < 1
        assert gates["LangChain"]["right_skipped"] >= 0.9
