"""Why a compression kept what it kept: reasons, gaps and savings, by hand on a few sentences."""

import json
import pickle
import re

import pytest

from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import run
from fitrag_integrations.methods import Compression, Refiner, compress, explain_compression
from fitrag_integrations.methods.explain.explaining import explained_refinement
from fitrag_integrations.methods.fitrag.reducer import score_port
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


def explained(**settings):
    return explain_compression(QUESTION, PASSAGES, scorer=score, **{**SETTINGS, **settings})


@pytest.mark.parametrize("max_tokens", [None, 6, 12, 8])
def test_it_keeps_what_the_compression_keeps(max_tokens):
    found = explained(max_tokens=max_tokens)
    flow = compress(QUESTION, PASSAGES, score_port(score), max_tokens=max_tokens, **SETTINGS)
    assert list(found.kept) == run(flow).value
    assert {one.excerpt for one in found.weighed if one.kept} == set(found.kept)
    assert len(found.kept) + len(found.dropped) == len(found.weighed) == 3


def test_what_the_budget_drops_is_told_with_its_gap():
    found = explained(max_tokens=8)  # 1. Amarcord: Rota wrote the score. + 2. Nino Rota: ... > 8
    (film, rota, rain) = found.weighed
    assert (film.kept, film.why) == (True, "the best of its passage")
    assert (film.at, film.of, film.lead, film.gap) == (2, 3, 1.0, 0.0)
    assert (rota.kept, rota.why) == (False, "over max_tokens=8")
    assert (rota.gap, rota.tokens, rota.lead) == (-0.5, 8, None)
    assert rain.gap == -1.0
    assert found.details["tokens_in"] == 26
    assert found.details["tokens_out"] == 6
    assert found.notes == ("2 of 3 excerpts left out by max_tokens=8",)


@pytest.mark.parametrize("limits", [{}, {"max_tokens": 100}, {"max_share": 1.0}])
def test_what_the_detector_drops_is_told(limits):
    found = explained(detector=Enough(), **limits)
    assert not any("left out by" in note for note in found.notes)  # no budget did it
    assert [one.kept for one in found.weighed] == [True, True, False]
    assert found.dropped[0].why == "the detector found those before it to be enough"
    assert found.dropped[0].gap == -0.5


def test_windows_that_were_joined_count_as_kept():
    found = explained(per_passage=None)
    assert all(one.kept for one in found.weighed)
    assert {one.why for one in found.weighed} == {"among the best of its passage"}


def test_a_limit_by_share_is_told_as_such():
    found = explained(max_share=0.3)
    assert [one.why for one in found.weighed] == [
        "the best of its passage",
        "over max_share=0.3",
        "over max_share=0.3",
    ]
    both = explained(max_share=0.3, max_tokens=8)
    assert both.dropped[0].why == "over max_tokens=8 or max_share=0.3"
    assert both.details["max_share"] == 0.3


def test_nothing_kept_has_no_gap():
    found = explained(max_tokens=1)
    assert found.kept == ()
    assert {one.gap for one in found.weighed} == {None}
    assert "0 of 26 tokens" in str(found)


def test_it_tells_itself_line_by_line():
    found = explained(max_tokens=8)
    assert str(found) == (
        f"{QUESTION} -> kept 1 of 3 excerpts of 4 passages, 6 of 26 tokens, 23%, 20 saved"
    )
    assert found.explain().splitlines() == [
        f"question: {QUESTION}",
        "kept 1 of 3 excerpts, 6 of 26 tokens, 23%, 20 saved",
        "kept Amarcord [20:41] 1.00 (number 2 of 3, +1.00 to the next), 6 tokens: "
        "the best of its passage",
        "dropped Nino Rota [0:23] 0.50 (number 1 of 1), 8 tokens: over max_tokens=8, "
        "-0.50 to the last kept",
        "dropped rain [0:11] 0.00 (number 1 of 2, +0.00 to the next), 3 tokens: "
        "over max_tokens=8, -1.00 to the last kept",
        "note: 2 of 3 excerpts left out by max_tokens=8",
    ]


def test_the_html_shows_every_passage_whole_and_marks_what_was_kept():
    shown = explained(max_tokens=8)._repr_html_()
    assert re.findall(r"<mark[^>]*>([^<]*)</mark>", shown) == ["Rota wrote the score."]
    bare = re.sub(r"<[^>]*>", "", shown)
    for passage in PASSAGES:
        assert passage.text in bare
    assert shown.count("<details open>") == 1
    assert "opacity" in shown


def test_hostile_texts_are_escaped():
    sly = "<script>x</script>\"' \u202e"
    found = explain_compression(sly, [Passage(sly, sly, sly, sly)], scorer=score, **SETTINGS)
    assert "<script" not in found._repr_html_()
    assert "\u202e" not in found._repr_html_()


def test_it_survives_json_and_pickle():
    found = explained(max_tokens=8)
    assert Compression.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize("settings", [{"window": 0}, {"max_tokens": 0}, {"stride": 2}])
def test_a_wrong_setting_is_told(settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        explained(**settings)
    with pytest.raises(InputError, match="question"):
        explain_compression(" ", PASSAGES, scorer=score)


def grade(pairs):
    return [("Rota" in passage.text) + ("score" in passage.text) - 1.0 for _, passage in pairs]


@pytest.mark.parametrize(
    ("settings", "reasons"),
    [
        ({}, ["reaches the threshold 0.00"] * 2 + ["1.00 under the threshold 0.00"] * 3),
        (
            {"top_n": 1},
            ["reaches the threshold 0.00", "not among the best top_n=1"]
            + ["1.00 under the threshold 0.00"] * 3,
        ),
        (
            {"max_tokens": 8},
            ["reaches the threshold 0.00", "over max_tokens=8"]
            + ["1.00 under the threshold 0.00"] * 3,
        ),
    ],
)
def test_a_refiner_tells_which_limit_dropped_a_strip(settings, reasons):
    refiner = Refiner(grade, threshold=0.0, sentences=1, count_tokens=words, **settings)
    found = run(explained_refinement(QUESTION, PASSAGES, refiner)).value
    assert [one.why for one in found.weighed] == reasons
    assert found.kept == run(refiner(QUESTION, PASSAGES)).value.excerpts
    assert found.weighed[2].gap == (-2.0 if settings else -1.0)


def test_the_best_strip_under_the_threshold_says_so():
    refiner = Refiner(lambda pairs: [-0.5] * len(pairs), threshold=0.5, sentences=1)
    found = run(explained_refinement(QUESTION, PASSAGES, refiner)).value
    assert [one.why for one in found.weighed][:2] == [
        "the best, though under 0.50",
        "1.00 under the threshold 0.50",
    ]


def test_a_trace_tells_it_too():
    refiner = Refiner(grade, threshold=0.0, sentences=1)
    traced = run(explained_refinement(QUESTION, PASSAGES, refiner))
    assert traced.explain().splitlines()[1].startswith("1. evaluate: 5 asked")
    assert "kept Amarcord" in traced.explain()
    assert "<mark" in traced._repr_html_()
