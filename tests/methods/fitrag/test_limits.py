"""How many passages and sentences one call reads, and how it reports the rest."""

import pytest

from fitrag_integrations import compress, rerank
from fitrag_integrations.flow import run
from fitrag_integrations.methods import Crag, FitRag
from fitrag_integrations.methods.fitrag.method import MAX_PASSAGES
from fitrag_integrations.models.bundled import BundledScorer
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import BiLabelScore, Passage

QUESTION = "Who wrote the score?"
LINES = [f"In chapter {n} it rains on the town for all of {n} days." for n in range(9)]
ANSWER = "Nino Rota wrote the score."
LONG = " ".join([*LINES, ANSWER, *LINES])
GIVEN = [Passage("long", LONG), Passage("rota", ANSWER, "Rota"), Passage("film", LINES[3])]


class Words:
    """Scores by whether the answer is in a text; keeps what it reads."""

    def __init__(self):
        self.read = []

    def score(self, pairs):
        self.read += [passage.text for _, passage in pairs]
        return [BiLabelScore(0.9 if "Rota" in passage.text else 0.1) for _, passage in pairs]


def ran(door, scorer, given):
    how = {"top_n": None, "max_tokens": 60} if door is not rerank else {"top_n": None}
    if door is FitRag:
        method = FitRag(scorer, **how)
        return run(method(QUESTION, Ports(retrieve=lambda queries: [given] * len(queries)))).value
    return door(QUESTION, given, scorer=scorer, **how).context


DOORS = pytest.mark.parametrize("door", [rerank, compress, FitRag], ids=lambda one: one.__name__)


@DOORS
def test_passages_beyond_the_limit_are_neither_read_nor_silent(door):
    many = [Passage(str(n), f"In chapter {n} it rains.") for n in range(MAX_PASSAGES - 1)]
    scorer = Words()
    context = ran(door, scorer, [GIVEN[0], *many, *GIVEN[1:]])
    assert context.excerpts[0].passage is GIVEN[0]
    assert "2 of 1002 passages left out by the limit of 1,000 passages" in context.notes
    left = [row.passage for row in context.selection if row.reason == "max_passages"]
    assert left == ["rota", "film"] and ANSWER not in scorer.read


@DOORS
def test_sentences_beyond_the_limit_are_neither_read_nor_silent(door):
    long = Passage("long", " ".join(f"Day {n} was dry in the hills." for n in range(6000)))
    scorer = Words()
    context = ran(door, scorer, [long, *GIVEN])
    note = "passage 1 read in part and 3 of 4 passages left out by the limit of 5,000 sentences"
    assert note in context.notes
    assert all("Rota" not in text and "Day 5000 " not in text for text in scorer.read)
    parts = [row for row in context.selection if row.reason == "max_sentences" and not row.whole]
    assert [(row.passage, row.end) for row in parts] == [("long", len(long.text))]


@DOORS
def test_enough_room_leaves_nothing_out(door):
    context = ran(door, Words(), GIVEN)
    assert not [note for note in context.notes if "the limit of" in note]


SCRIPTS = {
    "Chinese": ("谁写了配乐？", "尼诺·罗塔为这部电影写了配乐。"),
    "Arabic": ("من كتب الموسيقى؟", "كتب نينو روتا موسيقى الفيلم."),
    "Cyrillic": ("Кто написал музыку?", "Нино Рота написал музыку к фильму."),
    "Korean": ("누가 음악을 썼나요?", "니노 로타가 영화 음악을 썼다."),
}


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("door", [rerank, compress, FitRag, Crag], ids=lambda door: door.__name__)
def test_a_script_that_the_bundled_models_do_not_read_is_noted(door, name):
    question, text = SCRIPTS[name]
    given = [Passage("a", text), Passage("b", f"{text} {text}"), Passage("c", ANSWER)]

    def notes(question, given, **own):
        if door not in (FitRag, Crag):
            return door(question, given, **own).context.notes
        ports = Ports(retrieve=lambda queries: [given for _ in queries])
        return run(door(*own.values())(question, ports)).value.notes

    def noted(*of, **own):
        return [note for note in notes(*of, **own) if "bundled model reads English" in note]

    (note,) = noted(question, given)
    assert note.startswith(f"the question and 2 of 3 passages in {name} script")
    (note,) = noted(question, GIVEN)
    assert note.startswith(f"the question in {name} script")
    (note,) = noted(QUESTION, given)
    assert note.startswith(f"2 of 3 passages in {name} script")
    assert not noted(QUESTION, [*GIVEN, given[0]])
    assert not noted("Wer schrieb Fellinis Filmmusik für „Otto e mezzo“?", GIVEN)
    if door is not Crag:
        assert not noted(question, given, scorer=Words())


def test_the_bundled_scorer_passed_by_hand_gets_the_same_note():
    question, text = SCRIPTS["Arabic"]
    context = compress(question, [text], scorer=BundledScorer.embedded()).context
    assert context.notes == compress(question, [text]).context.notes
