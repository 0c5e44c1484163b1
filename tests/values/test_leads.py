"""Excerpts with a lead: several exact slices, with a mark where text was left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitrag_integrations.errors import InputError
from fitrag_integrations.methods.citing import highlight, restored
from fitrag_integrations.methods.metadata import marks
from fitrag_integrations.methods.prompts import render_excerpts
from fitrag_integrations.types import Excerpt, Passage
from fitrag_integrations.values.windows import merge

TABLE = Passage("p", "| name | port |\n|---|---|\n| web | 8080 |\n| metrics | 9464 |", "Ports")
HEAD = (0, 25)
WEB, METRICS = Excerpt(TABLE, 26, 40, 0.5, lead=(HEAD,)), Excerpt(TABLE, 41, 59, 0.9, lead=(HEAD,))


def test_slices_run_on_or_are_parted_by_a_mark():
    assert WEB.text == "| name | port |\n|---|---|\n| web | 8080 |"
    assert METRICS.text == "| name | port |\n|---|---|\n…\n| metrics | 9464 |"
    assert METRICS.body == "| metrics | 9464 |"
    inside = Excerpt(Passage("p", "In all: one, two, three"), 18, 23, lead=((0, 7),))
    assert inside.text == "In all: … three"


def test_a_prompt_shows_a_lead_once():
    for shown, text in (([METRICS, WEB], TABLE.text), ([METRICS], METRICS.text)):
        assert render_excerpts(shown) == f"1. Ports: {text}".replace("\n", "\n   ")


def test_merging_keeps_what_is_not_covered_of_the_leads():
    (joined,) = merge([WEB, METRICS])
    assert (joined.start, joined.end, joined.lead, joined.score) == (26, 59, (HEAD,), 0.9)
    (whole,) = merge([Excerpt(TABLE, 0, 25), WEB])
    assert (whole.start, whole.end, whole.lead) == (0, 40, ())


def test_a_lead_survives_rows_and_metadata():
    assert Excerpt.from_dict(METRICS.to_dict()) == METRICS
    assert "lead" not in Excerpt(TABLE, 0, 25).to_dict()
    piece = Passage("piece", METRICS.text, "Ports", metadata=marks(METRICS, "fitrag"))
    assert restored(piece, {"p": TABLE}).spans == METRICS.spans
    assert restored(piece, {"p": Passage("p", "of another text " * 9)}) == Excerpt.whole(piece)
    assert highlight(METRICS).count("⟦") == 2


@pytest.mark.parametrize("lead", [((0, 42),), ((9, 3),), ((5, 9), (0, 4)), (7,), "09", None])
def test_a_lead_that_is_no_place_before_the_excerpt_is_refused(lead):
    with pytest.raises(InputError, match=r"Excerpt\.lead"):
        Excerpt(TABLE, 41, 59, lead=lead)


@given(st.data())
def test_places_in_the_text_shown_are_found_in_the_passage(data):
    text = data.draw(st.text("ab \n", min_size=1, max_size=30))
    edges = sorted(data.draw(st.lists(st.integers(0, len(text)), min_size=4, max_size=6)))
    spans = list(zip(edges[::2], edges[1::2], strict=False))
    *lead, (start, end) = spans
    excerpt = Excerpt(Passage("p", text), start, end, lead=tuple(lead))
    for at, sign in enumerate(excerpt.text):
        first, last = excerpt.located(at, at + 1)
        assert 0 <= first <= last <= len(text)
        if sign in "ab":
            assert text[first:last] == sign
