"""Copies and overlapping chunks are shown once; everything dropped has a row with its reason."""

import json
import pickle
import re
from dataclasses import replace

import pytest
from by_sentence import BySentence
from hypothesis import given, settings
from hypothesis import strategies as st

from fitrag_integrations.flow import run
from fitrag_integrations.methods import ITRG, Crag, FitRag, Refiner, SlimPLM, TokenReducer
from fitrag_integrations.methods.baselines import Direct, IterRetgen, Refeed, SelfAsk
from fitrag_integrations.methods.fitrag.method import Reranking
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import BiLabelScore, Context, Excerpt, Passage
from fitrag_integrations.values.windows import apart, by_score, same_text, usable, windows

QUESTION = "Who wrote the score of Amarcord?"
COPIES = [
    Passage(f"copy {n}", f"Nino Rota{' ' * n} wrote the score of Amarcord.", "Score", f"{n}.md")
    for n in range(1, 6)
]
OTHERS = [Passage("milan", "Rota was born in Milan in 1911."), Passage("rain", "Rain is wet.")]
GIVEN = [*COPIES, *OTHERS, Passage("blank", " \n")]
FACTS = [f"Fact {n} is that river {n} has {n * 7} bridges." for n in range(40)]
TEXT = " ".join(FACTS)


def words(pairs):
    return [BiLabelScore(("score" in p.text) / 2 + ("Rota" in p.text) / 4) for _, p in pairs]


def grades(pairs):
    return [2 * label.has_answer - 1 for label in words(pairs)]


def chunks(size=300, overlap=100, source="rivers.md"):
    """Cut a text as LangChain's recursive splitter does, with `add_start_index`."""
    starts = [TEXT.find(" ", at) + 1 for at in range(0, len(TEXT) - overlap, size - overlap)]
    return [
        Passage(f"{n}", TEXT[at : at + size], "", source, {"source": source, "start_index": at})
        for n, at in enumerate(starts)
    ]


def context_of(made, given=GIVEN):
    if hasattr(made, "context"):
        return run(made.context(QUESTION, given)).value
    ports = Ports(lambda queries: [given for _ in queries], generate=lambda prompts: ["Rota."])
    return run(made(QUESTION, ports)).value


DOORS = {
    "reranker": lambda **how: Reranking(scorer=words, top_n=4, **how),
    "compressor": lambda **how: TokenReducer(scorer=words, detector=False, **how),
    "refiner": lambda **how: Refiner(grades, threshold=-0.6, **how),
    "fitrag": lambda **how: FitRag(words, detector=False, **how),
    "crag": lambda **how: Crag(
        grades, thresholds="popqa", strip_threshold=-0.6, allow_other_model=True, **how
    ),
    "slimplm": lambda **how: SlimPLM(lambda prompts: ["no"] * len(prompts), rewrite=False, **how),
    "itrg": lambda **how: ITRG(rounds=1, **how),
}


@pytest.mark.parametrize("door", DOORS)
def test_five_copies_are_shown_once_and_every_document_has_a_row(door):
    context = context_of(DOORS[door]())
    texts = [" ".join(one.text.split()) for one in context.excerpts]
    assert texts.count("Nino Rota wrote the score of Amarcord.") == 1
    rows = [row for row in context.selection if row.whole]
    assert [(row.at, row.passage) for row in rows] == [(n, p.id) for n, p in enumerate(GIVEN)]
    assert [row.reason for row in rows[1:5]] == ["duplicate"] * 4
    assert rows[1].detail.startswith("same text as Score") and rows[-1].reason == "blank"
    assert all(row.kept or row.reason for row in rows)
    kept = {one.passage.id for one in context.excerpts}
    assert {row.passage for row in rows if row.kept} == kept
    listed = context.explain(dropped=True)
    assert re.search("dropped 2. Score.*: duplicate, same text as Score", listed)
    assert "documents (4 duplicate, " in context.explain() and "dropped 2" not in context.explain()
    assert "same text as Score" in context._repr_html_()


@pytest.mark.parametrize(
    "made", [Direct(k=2), Refeed(k=2), IterRetgen(rounds=1, k=2), SelfAsk(k=2)]
)
def test_baselines_have_a_row_for_every_document(made):
    context = context_of(made)
    rows = [row for row in context.selection if row.whole]
    assert [row.at for row in rows] == list(range(len(GIVEN)))
    reasons = ["", *["duplicate"] * 4, "", "k", "blank"]
    assert [row.reason for row in rows] == reasons


@pytest.mark.parametrize("door", DOORS)
def test_copies_stay_where_that_is_asked_for(door):
    given = [*COPIES[:3], *OTHERS]
    context = context_of(DOORS[door](deduplicate=False), given)
    assert len([one for one in context.excerpts if "Amarcord" in one.text]) == 3
    assert not [row for row in context.selection if row.reason == "duplicate"]


@pytest.mark.parametrize("door", DOORS)
def test_overlapping_chunks_come_back_in_whole_sentences(door):
    context = context_of(DOORS[door](), chunks())
    texts = [one.text for one in context.excerpts]
    counts = [sum(fact in text for text in texts) for fact in FACTS]
    assert max(counts) == (2 if door == "reranker" else 1)
    if door == "reranker":
        assert all(one.text == one.passage.text for one in context.excerpts)


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.integers(0, 150), st.integers(5, 120)), min_size=1, max_size=8),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_a_sentence_that_is_whole_in_a_chunk_stays_whole(spans, trim, chance):
    passages = [
        Passage(f"{n}", TEXT[at : at + size], "", "s", {"start_index": at})
        for n, (at, size) in enumerate(spans)
    ]
    pieces = [Excerpt.whole(one, score=chance.random()) for one in passages]
    if trim and chance.random() < 0.5:
        pieces = [
            replace(w, score=chance.random()) for one in passages for w in windows(one, size=1)
        ]
    kept = apart(by_score(pieces), trim=trim)
    for fact in FACTS:
        if any(fact in one.text for one in pieces):
            assert any(fact in one.text for one in kept)
    assert trim or all(one in pieces or one.text == one.passage.text for one in kept)


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [  # sentences of ten characters
        ((0, 50, 0.9), (20, 80, 0.5), [(0, 50), (50, 80)]),  # the worse loses what is shown
        ((0, 50, 0.5), (20, 80, 0.9), [(0, 20), (20, 80)]),
        ((0, 45, 0.9), (15, 80, 0.5), [(0, 45), (40, 80)]),  # in whole sentences
        ((0, 45, 0.5), (15, 80, 0.9), [(0, 20), (15, 80)]),
        ((0, 15, 0.9), (12, 30, 0.5), [(0, 15), (12, 30)]),
        ((0, 80, 0.9), (20, 60, 0.5), [(0, 80)]),  # what holds the other stays
        ((20, 60, 0.9), (0, 80, 0.5), [(0, 80)]),
        ((0, 40, 0.9), (40, 80, 0.5), [(0, 40), (40, 80)]),
    ],
)
def test_two_chunks_of_one_source(first, second, kept):
    text = "".join(f"Kim {n} is. " for n in range(10))
    found = [
        Excerpt.whole(Passage(f"{at}", text[at:end], "", "s", {"start_index": at}), score=score)
        for at, end, score in (first, second)
    ]
    shown = apart(by_score(found))
    places = [(int(e.passage.id) + e.start, int(e.passage.id) + e.end) for e in shown]
    assert [(a, -(-b // 10) * 10 if b % 10 == 9 else b) for a, b in sorted(places)] == kept
    assert max(e.score for e in shown) == 0.9


WORDS = "Rota wrote **the** score in 1973."
COPIED = {
    "case": ("ROTA WROTE THE SCORE IN 1973.", True),
    "marks": ("“Rota wrote the score”, in 1973!", True),
    "markup": ("<p><b>Rota</b>&nbsp;wrote the <i>score</i> in `1973`</p>", True),
    "a quote": ("> Rota wrote\n> the score in 1973.", True),
    "a list": ("* Rota wrote the score in 1973", True),
    "another number": ("Rota wrote the score in 1937.", False),
    "another word": ("Rota wrote a score in 1973.", False),
}


@pytest.mark.parametrize("name", COPIED)
def test_copies_are_told_by_their_words(name):
    text, same = COPIED[name]
    given = [Passage("a", WORDS), Passage("b", text), Passage("c", "Rain is wet.")]
    context = context_of(DOORS["compressor"](), given)
    assert (len([one for one in context.excerpts if "19" in one.text]) == 1) is same
    assert (len(usable(given)[0]) == 2) is same


@pytest.mark.parametrize(
    ("one", "other"),
    [("It is -5 °C", "It is 5 °C"), ("x < 5", "x > 5"), ("C++", "C"), ("$5", "€5"), ("1.5", "15"),
     ("a == b", "a != b"), ("!!!", "???")],
)  # fmt: skip
def test_signs_that_change_what_is_said_are_no_punctuation(one, other):
    assert same_text(one) != same_text(other)


def test_offsets_that_do_not_count_in_one_text_are_not_believed():
    pages = [Passage(name, name * 30, "", "a.pdf", {"start_index": 0}) for name in "xyz"]
    assert apart(map(Excerpt.whole, pages)) == [Excerpt.whole(page) for page in pages]


def test_the_same_sentence_in_two_passages_is_kept_once():
    one = Passage("a", "Rota wrote the score. It won a prize.", "A")
    two = Passage("b", "Rain fell. Rota wrote  the score.", "A")
    made = TokenReducer(scorer=BySentence(words), max_share=None)
    context = context_of(made, [one, two])
    assert "".join(e.text for e in context.excerpts).count("wrote") == 1
    (row,) = [row for row in context.selection if row.reason == "duplicate"]
    assert (row.passage, row.start, row.whole) == ("b", 11, False)
    assert "same text as A" in row.detail
    assert "1 of 4 excerpts left out: repeated" in context.notes


def test_rows_survive_json_and_pickle():
    context = context_of(DOORS["fitrag"](top_n=1))
    assert {row.reason for row in context.selection} >= {"duplicate", "top_n", "blank"}
    again = Context.from_dict(json.loads(json.dumps(context.to_dict())))
    assert again.selection == context.selection
    assert pickle.loads(pickle.dumps(context)).selection == context.selection


def test_a_long_selection_is_shown_in_part():
    given = [Passage(str(n), f"Text number {n}.") for n in range(200)]
    context = context_of(Reranking(scorer=words, top_n=5), given)
    assert len(context.selection) == 200
    lines = context.explain(dropped=True).splitlines()
    assert len(lines) < 40 and lines[-1] == "and 165 more documents, all in `selection`"


@pytest.mark.parametrize(
    "unseen",
    ["\u200b\u200d", "\ufeff", "\u00ad", "\u2060 \n", "\u2800\u3164", "\x00\x07", "\u202e\u200f"],
)
def test_what_cannot_be_seen_is_no_text(unseen):
    rota = Passage("b", f"Rota.\n\n{unseen}\n\nIt won.")
    kept, notes = usable([Passage("a", unseen), rota])
    assert (kept, notes) == ([rota], ("1 of 2 passages left out: no text",))
    assert [one.text for one in windows(rota, size=1)] == ["Rota.", "It won."]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("texts", [[], [" "], ["one"], ["one"] * 5, ["one", "two", "one"]])
def test_bad_input_ends_in_an_answer_with_notes(door, texts):
    given = [Passage(str(n), text) for n, text in enumerate(texts)]
    context = context_of(DOORS[door](), given)
    assert len([row for row in context.selection if row.whole]) == len(texts)
    assert context.excerpts or context.notes


def test_windows_of_a_long_text_get_a_row_each():
    passage = Passage("long", TEXT)
    made = TokenReducer(scorer=BySentence(words), max_tokens=40)
    context = context_of(made, [passage])
    parts = [row for row in context.selection if not row.whole]
    kept = sum(len(windows(Passage("", one.text), size=1)) for one in context.excerpts)
    assert kept and len(parts) + kept == len(windows(passage, size=1))
    assert {row.reason for row in parts} == {"budget"}
