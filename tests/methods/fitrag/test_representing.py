"""Which windows speak for a passage, and what of them a reducer keeps."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from by_sentence import BySentence
from hypothesis import given
from hypothesis import strategies as st

from fitrag_integrations import BiLabelScore, Excerpt, Passage
from fitrag_integrations.errors import ThresholdMismatchError
from fitrag_integrations.flow import run, run_many
from fitrag_integrations.methods import defaults as _defaults
from fitrag_integrations.methods.fitrag.method import FitRag, TokenReducer
from fitrag_integrations.values.windows import apart, by_score

TEXT = "The Danube is long. Gold lies in it. Nobody fishes. Gold is dear. The sea is near."
LONG = Passage("1", TEXT)
QUESTION = "where is the gold?"


class Gold:
    """Find gold."""

    name = "gold"

    def score(self, pairs):
        return [self.one(passage.text) for _, passage in pairs]

    def one(self, text):
        return BiLabelScore(0.9 if "Gold" in text else 0.1, 0.8 if "dear" in text else 0.2)


@dataclass
class Enough:
    """Ask for so many excerpts, and remember what was left out."""

    count: int
    scorer: str = "gold"
    threshold: float = 0.7
    seen: list = field(default_factory=list)

    def eligible(self, combinations):
        raise AssertionError("it sees the rest as well")

    def eligible_among(self, pairs):
        self.seen.append([(len(kept), len(left)) for kept, left in pairs])
        return [0.9 if len(kept) >= self.count else 0.69 for kept, _ in pairs]

    def check_scorer(self, name):
        if name and name != self.scorer:
            raise ThresholdMismatchError(f"for {self.scorer}, given {name}")


def kept_by(scorer=None, passages=(LONG,), **options):
    context = run(
        TokenReducer(scorer=scorer or Gold(), **options).context(QUESTION, passages)
    ).value
    return [excerpt.text for excerpt in context.excerpts], context.notes


def sentences_by(name="gold"):
    return BySentence(Gold().score, name)


def piece(start, end, score, passage=LONG):
    return Excerpt(passage, start, end, score)


def representatives(found, most=1):
    return apart(by_score(found), per_passage=most)


def test_one_window_speaks_for_a_passage_and_several_do_not_overlap():
    found = [piece(0, 10, 0.2), piece(5, 15, 0.9), piece(12, 20, 0.8), piece(15, 20, 0.1)]
    assert representatives(found) == [found[1]]
    assert representatives(found, None) == [found[1], found[3]]
    assert representatives(found, 1) == [found[1]]


def test_every_sentence_can_stand_for_itself_and_neighbours_are_joined():
    sentences = {"scorer": sentences_by(), "max_share": None}
    everything, notes = kept_by(**sentences)
    assert everything == [TEXT] and notes == ()
    kept, _ = kept_by(**sentences, detector=Enough(2))
    assert kept == ["Gold is dear.", "Gold lies in it."]
    assert kept_by(window=1)[0] == ["Gold is dear."]


def test_a_share_of_the_tokens_bounds_what_is_kept():
    count = len  # characters
    kept, notes = kept_by(sentences_by(), max_share=0.5, count_tokens=count)
    assert sum(map(len, kept)) <= len(TEXT) / 2 and "Gold is dear." in kept[0]
    assert notes[0].endswith("excerpts left out by max_share=0.5")
    assert kept_by(window=1, max_share=0.01)[0] == ["Gold is dear."]  # never nothing
    assert kept_by(max_share=1.0)[1] == ()


def test_a_detector_may_see_what_is_left_out():
    detector = Enough(2)
    kept_by(sentences_by(), detector=detector, max_share=0.8, count_tokens=len)
    (seen,) = detector.seen
    assert [sum(one) for one in seen] == [5] * len(seen) and seen[0] == (1, 4)


def test_all_prefixes_of_all_questions_are_one_call():
    detector = Enough(9)
    reducer = TokenReducer(scorer=sentences_by(), detector=detector)
    run_many([reducer.context(QUESTION, [LONG]) for _ in range(3)])
    assert len(detector.seen) == 1 and len(detector.seen[0]) == 15


def test_a_detector_refuses_another_scorers_scores():
    with pytest.raises(ThresholdMismatchError, match="for other, given gold"):
        kept_by(detector=Enough(1, scorer="other"))


def test_the_embedded_detector_is_for_its_own_scores_and_windows(monkeypatch):
    class Shipped(_defaults.EmbeddedDetector):
        fitted_for = {"scorer": "gold", "window": 1, "stride": 1, "per_passage": None}

    one = Shipped()
    monkeypatch.setattr(_defaults, "EMBEDDED_DETECTOR", one)
    monkeypatch.setitem(_defaults._loaded, "detector", Enough(1))
    assert kept_by(sentences_by(), max_share=None)[0] == ["Gold is dear."]
    assert kept_by(sentences_by(), max_share=None, detector=False)[0] == [TEXT]
    assert FitRag(sentences_by(), window=2).plan.detector is None
    assert kept_by(sentences_by("silver"), max_share=None)[0] == [TEXT]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 6)), max_size=20))
def test_those_kept_are_the_ones_that_overlap_no_better_one(places):
    passage = Passage("p", "x" * 40)
    found = [Excerpt(passage, at, at + long) for at, long in places]
    kept = []
    for one in found:
        if all(one.end <= other.start or other.end <= one.start for other in kept):
            kept.append(one)
    assert apart(found, deduplicate=False) == kept


def test_ten_thousand_windows_of_one_passage_are_compared_with_their_neighbours_alone():
    passage = Passage("p", "x" * 40_000)
    windows = [SimpleNamespace(passage=passage, start=at, end=at + 4) for at in range(0, 40_000, 4)]
    assert len(apart(windows, deduplicate=False)) == 10_000
