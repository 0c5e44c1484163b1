"""How many passages and sentences one call reads, and how it reports the rest."""

import pytest

from fitrag_integrations import compress, rerank
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.flow import run
from fitrag_integrations.methods import Crag, FitRag
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


def ran(door, scorer, **limits):
    if door is FitRag:
        method = FitRag(scorer, **limits)
        return run(method(QUESTION, Ports(retrieve=lambda queries: [GIVEN] * len(queries)))).value
    return door(QUESTION, GIVEN, scorer=scorer, **limits).context


@pytest.mark.parametrize("door", [rerank, compress, FitRag], ids=lambda door: door.__name__)
def test_what_a_limit_leaves_out_is_neither_read_nor_silent(door):
    scorer = Words()
    context = ran(door, scorer, max_passages=1)
    assert {one.passage.id for one in context.excerpts} == {"long"}
    assert "2 of 3 passages left out by max_passages=1" in context.notes
    assert [row.why for row in context.selection if row.whole] == ["", *["max_passages=1"] * 2]
    assert ANSWER not in scorer.read

    scorer = Words()
    context = ran(door, scorer, max_sentences=4)
    note = "passage 1 read in part and 2 of 3 passages left out by max_sentences=4"
    assert note in context.notes
    assert all("Rota" not in text and LINES[4] not in text for text in scorer.read)
    assert "dropped 2. Rota" in context.explain(dropped=True)
    parts = [row for row in context.selection if row.reason == "max_sentences" and not row.whole]
    assert [(row.passage, row.end) for row in parts] == [("long", len(LONG))]

    context = ran(door, Words(), max_sentences=len(LINES) * 2 + 1)
    assert "2 of 3 passages left out by max_sentences=19" in context.notes
    assert all(one.passage is GIVEN[0] for one in context.excerpts)


@pytest.mark.parametrize("door", [rerank, compress, FitRag], ids=lambda door: door.__name__)
def test_enough_room_changes_nothing(door):
    for limits in ({"max_passages": None, "max_sentences": None}, {"max_sentences": 21}):
        context = ran(door, Words(), **limits)
        assert context.excerpts == ran(door, Words()).excerpts
        assert not [note for note in context.notes if "max_" in note and "share" not in note]


def test_a_call_of_the_bundled_scorer_ends_and_says_what_it_left_out():
    text = LONG + "\n\n" + " ".join(f"Day {n} was dry in the hills." for n in range(1500))
    found = compress(QUESTION, [text, ANSWER], max_tokens=60, max_sentences=60)
    assert ANSWER in found[0].text
    assert "passage 1 read in part and 1 of 2 passages left out by max_sentences=60" in (
        found.context.notes
    )
    shown = {name: value for name, value, _ in DEFAULTS.rows() if name.startswith("max_")}
    assert (shown["max_passages"], shown["max_sentences"]) == ("1000", "5000")


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
