"""Why a compression kept what it kept: reasons, gaps and savings, by hand on a few sentences."""

import json

import pytest
from by_sentence import BySentence

from fitrag_integrations.flow import run
from fitrag_integrations.methods import Compression, Refiner, compress, explain_compression
from fitrag_integrations.methods.explaining import explained
from fitrag_integrations.types import BiLabelScore, Passage

QUESTION = "Who wrote the score of Amarcord?"
FILM = Passage("film", "Amarcord is a film. Rota wrote the score. It won.", "Amarcord")
ROTA = Passage("rota", "Rota was born in Milan.", "Nino Rota")
RAIN = Passage("rain", "Rain falls. It is wet.")
BLANK = Passage("blank", " \n")
PASSAGES = [RAIN, FILM, BLANK, ROTA]


def score(pairs):
    texts = [passage.text for _, passage in pairs]
    return [BiLabelScore(("Rota" in text) / 2, ("score" in text) / 2) for text in texts]


def words(text):
    return len(text.split())


class Enough:
    threshold = 0.5

    def eligible(self, combinations):
        return [float(len(combination) >= 2) for combination in combinations]


SETTINGS = {"window": 1, "detector": False, "count_tokens": words}


def compressed(**settings):
    return explain_compression(QUESTION, PASSAGES, **{"scorer": score, **SETTINGS, **settings})


@pytest.mark.parametrize("max_tokens", [None, 6, 12, 8])
def test_it_keeps_what_the_compression_keeps(max_tokens):
    found = compressed(max_tokens=max_tokens)
    kept = compress(QUESTION, PASSAGES, scorer=score, max_tokens=max_tokens, **SETTINGS)
    assert list(found.kept) == kept
    places = {(one.at, one.start, one.end) for one in found.weighed if one.kept}
    assert places == {(PASSAGES.index(one.passage), one.start, one.end) for one in found.kept}
    assert {one.at for one in found.weighed} == {0, 1, 2, 3}, "no passage is lost"


def reasons(found):
    return [(one.name, one.kept, one.reason, one.detail) for one in found.weighed]


def test_what_the_budget_drops_is_named():
    found = compressed(max_tokens=8)  # 1. Amarcord: Rota wrote the score. + 2. Nino Rota: ... > 8
    assert reasons(found) == [
        ("Amarcord", True, "", ""),
        ("Nino Rota", False, "budget", "over max_tokens=8"),
        ("rain", False, "budget", "over max_tokens=8"),
        ("Amarcord", False, "per_passage", "per_passage=1"),
        ("Amarcord", False, "per_passage", "per_passage=1"),
        ("rain", False, "per_passage", "per_passage=1"),
        ("rain", False, "budget", "over max_tokens=8"),
        ("blank", False, "blank", "no text"),
    ]
    film, rota, *_ = found.weighed
    assert (film.at, film.start, film.end, film.score, film.whole) == (1, 20, 41, 0.5, False)
    assert (rota.at, rota.start, rota.end, rota.score, rota.whole) == (3, 0, 23, 0.25, True)
    assert found.details["tokens_in"] == 27
    assert found.details["tokens_out"] == 6
    assert found.notes == (
        "1 of 4 passages left out: no text",
        "2 of 3 excerpts left out by max_tokens=8",
    )


@pytest.mark.parametrize("limits", [{}, {"max_tokens": 100}, {"max_share": 1.0}])
def test_what_the_detector_drops_is_named(limits):
    found = compressed(detector=Enough(), **limits)
    assert not any("left out by" in note for note in found.notes)  # no budget did it
    assert [one.name for one in found.weighed if one.kept] == ["Amarcord", "Nino Rota"]
    assert {one.reason for one in found.dropped if one.name == "rain"} == {
        "detector",
        "per_passage",
    }


def test_windows_that_were_joined_count_as_kept():
    found = compressed(scorer=BySentence(score), max_share=None)
    assert [one.name for one in found.dropped] == ["blank"]


def test_a_limit_by_share_is_named():
    found = compressed(max_share=0.3)
    assert found.dropped[0].detail == "over max_share=0.3"
    assert found.details["max_share"] == 0.3


@pytest.mark.parametrize(
    ("settings", "reason"), [({"min_score": 0.35}, "min_score"), ({"max_tokens": 1}, "budget")]
)
def test_nothing_kept_names_everything(settings, reason):
    found = compressed(**{"min_score": 0.0, **settings})
    names = {"Nino Rota"} if reason == "min_score" else {"Amarcord", "Nino Rota", "rain"}
    assert names <= {one.name for one in found.dropped if one.reason == reason}
    assert {one.name for one in found.dropped} == {"Amarcord", "Nino Rota", "rain", "blank"}


def test_it_shows_itself_line_by_line():
    found = compressed(max_tokens=8)
    counted = "kept 1 excerpts of 4 passages, 6 of 27 tokens, 22%, 21 saved"
    assert str(found) == f"{QUESTION} -> {counted}"
    head = [
        f"question: {QUESTION}",
        counted,
        "  Amarcord [20:41] 0.50: Rota wrote the score.",
        "note: 1 of 4 passages left out: no text",
        "note: 2 of 3 excerpts left out by max_tokens=8",
    ]
    wholes, parts = "2 over max_tokens=8, 1 blank", "3 per_passage=1, 1 over max_tokens=8"
    assert found.explain().splitlines() == [
        *head,
        f"dropped: 3 documents ({wholes}); 4 parts ({parts}); explain(dropped=True) lists them",
    ]
    assert found.explain(dropped=True).splitlines() == [
        *head,
        "dropped 4. Nino Rota 0.25: budget, over max_tokens=8",
        "dropped 1. rain 0.00: budget, over max_tokens=8",
        "dropped Amarcord [0:19] 0.00: per_passage=1",
        "dropped Amarcord [42:49] 0.00: per_passage=1",
        "dropped rain [12:22] 0.00: per_passage=1",
        "dropped rain [0:11] 0.00: budget, over max_tokens=8",
        "dropped 3. blank: blank, no text",
    ]


def test_it_survives_json():
    found = compressed(max_tokens=8)
    assert Compression.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def grade(pairs):
    return [("Rota" in passage.text) + ("score" in passage.text) - 1.0 for _, passage in pairs]


LOW = [("threshold", "under 0.00")] * 3


@pytest.mark.parametrize(
    ("settings", "dropped"),
    [
        ({}, LOW),
        ({"top_n": 1}, [("top_n", "top_n=1"), *LOW]),
        ({"max_tokens": 8}, [("budget", "over max_tokens=8"), *LOW]),
    ],
)
def test_a_refiner_names_the_limit_that_dropped_a_strip(settings, dropped):
    refiner = Refiner(grade, threshold=0.0, sentences=1, count_tokens=words, **settings)
    found = run(explained(refiner, QUESTION, PASSAGES)).value
    strips = [(one.reason, one.detail) for one in found.dropped if one.reason != "blank"]
    assert [each for each in strips if each[0] != "threshold"] == dropped[: len(dropped) - 3]
    assert ("threshold", "under 0.00") in strips
    assert found.kept == run(refiner(QUESTION, PASSAGES)).value.excerpts


def test_the_best_strip_under_the_threshold_is_kept_alone():
    refiner = Refiner(lambda pairs: [-0.5] * len(pairs), threshold=0.5, sentences=1)
    found = run(explained(refiner, QUESTION, PASSAGES)).value
    assert [one.kept for one in found.weighed][:2] == [True, False]
    assert found.dropped[0].reason == "threshold" and "is kept" in found.notes[-1]


def test_a_trace_tells_it_too():
    refiner = Refiner(grade, threshold=0.0, sentences=1)
    traced = run(explained(refiner, QUESTION, PASSAGES))
    lines = traced.explain().splitlines()
    assert lines[-1].startswith("1. evaluate: 5 asked") and lines[2].startswith("  Amarcord [")
    assert "<mark" in traced._repr_html_()
