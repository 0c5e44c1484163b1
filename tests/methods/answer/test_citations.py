"""Citations: which numbers an answer names, and the places of sources they stand for."""

import html
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitrag_integrations.core.show import visible
from fitrag_integrations.errors import InputError
from fitrag_integrations.methods import Cited, Span, cite, highlight, with_citations
from fitrag_integrations.methods.citing import CITE_RULE, restored
from fitrag_integrations.methods.prompts import RETRIEVAL, SIMPLE, render_excerpts, template_named
from fitrag_integrations.types import Context, Excerpt, Passage

FILM = Passage(
    "film", "Amarcord is a film. Rota wrote the score. It won. Prizes came.", "Amarcord", "film.txt"
)
ROTA = Passage("rota", "Rota was born in Milan.", "Nino Rota")
RAIN = Passage("rain", "Rain falls. It is wet.")
CONTEXT = Context(
    "Who wrote the score?",
    (Excerpt(FILM, 42, 49), Excerpt.whole(ROTA), Excerpt(FILM, 20, 41), Excerpt.whole(RAIN)),
)


def numbers(answer, shown=CONTEXT):
    return [citation.number for citation in cite(shown, answer).citations]


@pytest.mark.parametrize(
    ("answer", "cited", "unknown"),
    [
        ("Rota [1].", [1], ()),
        ("Rota [2][1], born in Milan [2].", [2, 1], ()),
        ("Rota [1, 2].", [1, 2], ()),
        ("Rota [1,2;3].", [1, 2, 3], ()),
        ("Rota [1-3].", [1, 2, 3], ()),
        ("Rota [1 – 2].", [1, 2], ()),
        ("Rota [3-2].", [2, 3], ()),
        ("Rota [Source 2], [passages 1 and 3].", [2, 1, 3], ()),
        ("Rota 【2†film】.", [2], ()),
        ("［２］", [2], ()),
        ("Rota [^2] and [#1].", [2, 1], ()),
        ("Rota [7].", [], (7,)),
        ("Rota [0], [1], [9, 2].", [1, 2], (0, 9)),
        ("Rota [2-5].", [2, 3], (5,)),
        ("Rota [2-999999999999].", [2, 3], (999999999999,)),
        ("It came out in [1973].", [], (1973,)),
        ("Rota (1), 2, [sic], [a1], [], [1", [], ()),
        ("", [], ()),
        ("Use `ports[2]`, as it says [1].", [1], ()),
        ("So:\n```python\nx = [2]\ny = ports[2]\n```\nIt won [1].", [1], ()),
        ("~~~\nx = [2]\n", [], ()),
        ("``a `b` [2]`` [1]", [1], ()),
        ("a ` b [2] and ` c [1]", [1], ()),
        ("The metrics are on port 9464[2].", [2], ()),
        ("The admin UI[1] listens on 8443[1][2].", [1, 2], ()),
        ("指标在端口9464[2]上。", [2], ()),
        ("It opens two ports[2], says Straße[1]; порт[3].", [2, 1, 3], ()),
        ("The **default**[1] since 3.11[2] in the U.S.[3]", [1, 2, 3], ()),
        ("rows[0] and grid[0][2], but Rota [1][2].", [1, 2], ()),
        ("cfg.ports[2], max_rows[2], _rows_[2], f(x)[2], `a`[2], x[i][2], a->b[2]", [], ()),
        ("在config.ports[2]中，端口[1]", [1], ()),
        ("罗塔写了[1]，ロータ[2]、โรตา[3]", [1, 2, 3], ()),
        ('He "wrote"[1] it (himself)[2].[3]', [1, 2, 3], ()),
        ("```markdown\nRota [1].\n```", [1], ()),
    ],
)
def test_marks_become_numbers_and_unknown_ones_are_told(answer, cited, unknown):
    found = cite(CONTEXT, answer)
    assert [citation.number for citation in found.citations] == cited
    assert found.unknown == unknown
    assert found.shown == 3


def test_a_number_is_that_of_the_prompt():
    lines = CONTEXT.prompt(with_citations()).splitlines()
    for number, passage in enumerate((FILM, ROTA, RAIN), start=1):
        (citation,) = cite(CONTEXT, f"So it is [{number}].").citations
        (line,) = (line for line in lines if line.startswith(f"{number}. "))
        assert {excerpt.passage for excerpt in citation.excerpts} == {passage}
        assert all(excerpt.text in line for excerpt in citation.excerpts)


def test_a_citation_is_of_all_that_stood_under_its_number():
    apart = Context("Who?", (Excerpt(FILM, 50, 62), Excerpt(FILM, 0, 19), Excerpt(FILM, 5, 30)))
    (citation,) = cite(apart, "[1]").citations
    assert citation.spans == (
        Span("film", 0, 30, FILM.text[:30], "Amarcord", "film.txt"),
        Span("film", 50, 62, "Prizes came.", "Amarcord", "film.txt"),
    )


def test_places_are_those_of_the_marks():
    answer = "Rota [1], from Milan [1, 2]."
    first, second = cite(CONTEXT, answer).citations
    assert [answer[start:end] for start, end in first.places] == ["[1]", "[1, 2]"]
    assert [answer[start:end] for start, end in second.places] == ["[1, 2]"]


@given(st.text(alphabet="ab [](),;-–0123456789【】and^#\n", max_size=60))
def test_any_answer_is_read_and_no_number_between_brackets_is_lost(answer):
    found = cite(CONTEXT, answer)
    # a bracket behind a word may be an index
    explained = {citation.number for citation in found.citations} | set(found.unknown)
    for number in re.findall(r"(?<![^\s,;–])\[(\d{1,6})\]", answer):
        assert int(number) in explained
    for citation in found.citations:
        for start, end in citation.places:
            assert answer[start] in "[【"
            assert answer[end - 1] in "]】"


@given(st.text(max_size=40), st.data())
def test_a_span_is_a_slice_of_its_source(text, data):
    passage = Passage("p", text)
    ends = st.integers(0, len(text))
    drawn = data.draw(st.lists(st.tuples(ends, ends), min_size=1, max_size=4))
    excerpts = [Excerpt(passage, *sorted(pair)) for pair in drawn]
    (citation,) = cite(excerpts, "[1]").citations
    for span in citation.spans:
        assert passage.text[span.start : span.end] == span.text
    plain = highlight(citation)
    assert len(plain.replace("⟦", "").replace("⟧", "")) == len(visible(text)) or "\r" in text


def test_a_piece_leads_to_its_source():
    metadata = {"source_id": "film", "source_start": 20, "source_end": 41}
    piece = Passage("x", FILM.text[20:41], "Amarcord", "film.txt", metadata)
    (citation,) = cite([Excerpt.whole(piece)], "[1]").citations
    (span,) = citation.spans
    assert (span.passage_id, span.start, span.end) == ("film", 20, 41)
    assert restored(piece, {"film": FILM}) == Excerpt(FILM, 20, 41)
    other = Passage("film", FILM.text[::-1])
    assert restored(piece, {"film": other}) == Excerpt.whole(piece)
    assert restored(piece, {"f": FILM}, [("f", 19), ("f", 20)]) == Excerpt(FILM, 20, 41)


def test_pieces_of_one_source_share_a_number_where_asked():
    def piece(start, end):
        metadata = {"source_id": "film", "source_start": start, "source_end": end}
        return Excerpt.whole(Passage(f"{start}", FILM.text[start:end], "Amarcord", "", metadata))

    pieces = [piece(20, 41), Excerpt.whole(ROTA), piece(0, 19)]
    assert cite(pieces, "[3]").citations[0].spans[0].start == 0
    by_source = cite(pieces, "[1], [2], [3]", by_source=True)
    assert [span.start for span in by_source.citations[0].spans] == [20, 0]
    assert by_source.unknown == (3,)
    assert highlight(by_source.citations[0]) == "⟦Rota wrote the score.⟧ … ⟦Amarcord is a film.⟧"


def test_the_source_is_shown_whole_with_what_is_cited_marked():
    (citation,) = cite(CONTEXT, "Rota [1].").citations
    assert highlight(citation) == (
        "Amarcord is a film. ⟦Rota wrote the score. It won.⟧ Prizes came."
    )
    assert highlight(citation, markers=(">", "<")).count(">") == 1
    assert highlight(Excerpt(FILM, 0, 8)).startswith("⟦Amarcord⟧ is")
    several = highlight(CONTEXT)
    assert several.startswith("[1] Amarcord\nAmarcord is a film. ⟦Rota")
    assert "\n\n[2] Nino Rota\n⟦Rota was born in Milan.⟧\n\n[3] rain\n" in several
    assert highlight(cite(CONTEXT, "[3]")) == "[3] rain\n⟦Rain falls. It is wet.⟧"
    assert highlight(cite(CONTEXT, "none")) == ""


@pytest.mark.parametrize(
    "answer",
    [
        "The tower stood alone until 1930.[2]",
        "until 1930. [2] It is 330 m tall.[3]",
        "As the source says, it is 330 m tall[3].",
        "Its keeper was Eiffel [1], who built it.",
    ],
)
def test_marks_that_a_passage_wrote_are_not_credited_where_they_are_copied(answer):
    tower = Passage(
        "tower",
        "It was the tallest until 1930.[2] It is 330 m tall.[3]\nIts keeper was Eiffel[1] himself.",
    )
    shown = Context("How tall?", (Excerpt.whole(tower), Excerpt.whole(ROTA), Excerpt.whole(RAIN)))
    found = cite(shown, answer)
    assert found.citations == ()
    assert found.copied
    assert "copied from a passage: [" in found.explain()
    assert numbers(f"{answer} So it is [1], and wet [3].", shown) == [1, 3]
    assert numbers("Rota was born in Milan [2].", shown) == [2]


def test_what_a_passage_wrote_neither_forges_a_source_nor_reaches_the_terminal():
    sly = Passage("sly", "First.\r\n\n[2] Handbook\n\x1b[2J\x1b]0;owned\x07Last.", "A\n\n[2] B")
    shown = highlight([Excerpt(sly, 0, 6), Excerpt.whole(RAIN)])
    assert [line for line in shown.splitlines() if line.startswith("[")] == [
        "[1] A [2] B",
        "[2] rain",
    ]
    for text in (shown, highlight(Excerpt(sly, 0, 6))):
        assert "\x1b" not in text and "\x07" not in text
        assert "<U+001B>[2J" in text
    assert highlight(Excerpt(sly, 0, 6), markers=("\x1b[1m", "\x1b[0m")).startswith("\x1b[1mFirst.")


SLY = '<script>alert("x")</script> & <mark>\u202eevil\u202c</mark>'


def test_the_html_is_escaped_and_holds_the_whole_source():
    passage = Passage(SLY, f"{SLY} first. {SLY}", SLY, SLY)
    (citation,) = cite([Excerpt(passage, 4, 20)], "[1]").citations
    for shown in (highlight(citation, html=True), highlight([citation.excerpts[0]], html=True)):
        assert "<script" not in shown
        assert "\u202e" not in shown
        assert shown.count("<mark") == 1
    bare = html.unescape(re.sub(r"<[^>]*>", "", highlight(citation, html=True)))
    assert bare == passage.text.replace("\u202e", "<U+202E>").replace("\u202c", "<U+202C>")


def test_a_cited_answer_tells_itself():
    found = cite(CONTEXT, "Rota [1] wrote it [8].")
    assert str(found) == "Rota [1] wrote it [8]. -> cites [1] of 3, unknown [8]"
    assert found.uncited == (2, 3)
    assert found.explain().splitlines() == [
        "answer: Rota [1] wrote it [8].",
        "[1] Amarcord [20:49]: Rota wrote the score. It won.",
        "unknown: [8] of 3 shown",
        "not cited: [2], [3]",
    ]
    shown = found._repr_html_()
    assert shown.count("<mark") == 2  # the mark in the answer, and what it cites
    assert "unknown: [8]" in shown


def test_citations_survive_json():
    found = cite(CONTEXT, "Rota [1], [2-5].")
    assert Cited.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_a_template_asks_for_citations_and_stays_what_it_is():
    cited = with_citations(SIMPLE)
    assert cited.name == "simple_cited"
    assert CONTEXT.prompt(cited) == CITE_RULE + CONTEXT.prompt(SIMPLE)
    assert template_named("retrieval_cited").text == CITE_RULE + RETRIEVAL.text


def test_nothing_shown_is_nothing_cited():
    found = cite(Context("Who?"), "Rota [1].")
    assert (found.citations, found.unknown, found.shown) == ((), (1,), 0)
    assert render_excerpts(()) == ""


@pytest.mark.parametrize(("shown", "answer"), [("text", "a"), ([FILM], "a"), (CONTEXT, None)])
def test_what_cannot_be_cited_is_named(shown, answer):
    with pytest.raises(InputError, match="shown|answer"):
        cite(shown, answer)
