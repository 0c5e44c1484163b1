"""The parser of claims and queries: both grammars back exactly, anything else without a raise."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fitrag_integrations.errors import InputError
from fitrag_integrations.methods.slimplm.claims import (
    AS_JSON,
    AS_LINES,
    CUT,
    LONGEST_QUERY,
    MOST_LEADS,
    NO_QUERY,
    OPEN,
    REPEATED,
    TOO_LONG,
    TOO_MANY,
    parse_claims,
)
from fitrag_integrations.values.slimplm import Lead, Leads, render

SCORE = Lead("Nino Rota wrote the score of Amarcord", "Amarcord score composer", True)
COMMON = Lead("A score is music (mostly written down) for a film", "", False)
BORN = Lead(
    'Rota was born in 1911 (3 December) in "Milan"', "Nino Rota (composer) birth place", True
)
WHO = Lead("Who wrote the score of Amarcord?", "Amarcord (1973 film) music", True)
LEADS = Leads((WHO,), (SCORE, COMMON, BORN))
RELEASED = (
    "<Questions> <Question(Who wrote the score of Amarcord?)> <NeedSearch(True)> "
    "<Query(Amarcord (1973 film) music)> </Questions> <Claims> "
    "<Claim(Nino Rota wrote the score of Amarcord)> <NeedSearch(True)> "
    "<Query(Amarcord score composer)> "
    "<Claim(A score is music (mostly written down) for a film)> <NeedSearch(False)> <Query()> "
    '<Claim(Rota was born in 1911 (3 December) in "Milan")> <NeedSearch(True)> '
    "<Query(Nino Rota (composer) birth place)> </Claims>"
)
PAPER = (
    "<Question> Who wrote the score of Amarcord? <Query> Amarcord (1973 film) music "
    "<Claim> Nino Rota wrote the score of Amarcord <Query> Amarcord score composer "
    "<Claim> A score is music (mostly written down) for a film <Query> "
    '<Claim> Rota was born in 1911 (3 December) in "Milan" '
    "<Query> Nino Rota (composer) birth place"
)


def said(leads):
    return [(lead.text, lead.query) for lead in (*leads.questions, *leads.claims)]


def test_the_released_grammar():
    assert render(LEADS, "released") == RELEASED
    assert parse_claims(RELEASED) == Leads(LEADS.questions, LEADS.claims, "released")
    before = "<Task(knowledge questions)> <Timeliness(False)>"  # as the released weights write
    assert parse_claims(f"{before} {RELEASED} </s>") == parse_claims(RELEASED)


def test_the_papers_grammar():
    assert render(LEADS, "paper") == PAPER
    found = parse_claims(PAPER)
    assert (found.grammar, found.repairs) == ("paper", ())
    assert said(found) == said(LEADS)
    assert [lead.wanted for lead in found.claims] == [True, False, True]


WORDS = st.text("ab é9?'.,-", min_size=1, max_size=12).map(lambda text: f"w{text}w")
PAIRED = st.lists(st.tuples(WORDS, st.booleans()), min_size=1, max_size=3).map(
    lambda parts: " ".join(f"({word})" if paired else word for word, paired in parts)
)


@st.composite
def any_leads(draw):
    drawn = draw(st.lists(st.tuples(PAIRED, PAIRED, st.booleans()), unique_by=first, max_size=6))
    leads = [Lead(text, query if need else "", need) for text, query, need in drawn]
    cut = draw(st.integers(0, len(leads)))
    return Leads(tuple(leads[:cut]), tuple(leads[cut:]))


def first(drawn):
    return drawn[0].casefold()


@given(any_leads(), st.sampled_from(["paper", "released"]))
@settings(max_examples=60)
def test_what_is_written_is_read_back(leads, grammar):
    found = parse_claims(render(leads, grammar))
    assert said(found) == said(leads)
    assert found.repairs == ()


@pytest.mark.parametrize(
    ("written", "expected", "repair"),
    [
        ("<Claim(a b (c)> <Search(True)> <Query(who d)>", [("a b (c", "who d")], None),
        ("<Claim(a b (c) <NeedSearch(True) <Query(who d", [("a b (c)", "who d")], CUT),
        ("<Claim(a b) <Query(who d)>", [("a b", "who d")], OPEN),
        ("< claim (a b)> <need search(true)> <search word(who d)>", [("a b", "who d")], None),
        ("<CLAIM_1(a b)><NEED_SEARCH(TRUE)><QUERY_1(who d)>", [("a b", "who d")], None),
        ("<Claim 1(a b)><Query 1(who d)>", [("a b", "who d")], None),
        ("<Claim>a b</Claim><Query>who d</Query>", [("a b", "who d")], None),
        ("<Claim: a b> <Query: who d>", [("a b", "who d")], None),
        ("<Claim(a b)> <NeedSearch(True)>", [("a b", "a b")], NO_QUERY),
        ("<Claim(a b)> <NeedSearch(True)> <Query()>", [("a b", "a b")], NO_QUERY),
        ("<Claim(a b)>", [("a b", "")], None),
        ("<Question(who is a?)>", [("who is a?", "who is a?")], NO_QUERY),
        ("<Claim(a b)> <Query(q one)> <Query(q two)>", [("a b", "q one"), ("a b", "q two")], None),
        ("<Query(q one)> <Query(q two)>", [("", "q one"), ("", "q two")], None),
        ("<Claim(a b)> <Query(q)> " * 3, [("a b", "q")], REPEATED),
        ("<Claim> a b <Query> who d\n\nNote: I made this up.", [("a b", "who d")], None),
        ("Sure!\n<Claim> a\nb\n<Query> who d", [("a b", "who d")], None),
        ("Claim 1: a b\nQuery 1: who d\n", [("a b", "who d")], AS_LINES),
        ("1. **Claim:** a b\n   - **Query:** `who d`", [("a b", "who d")], AS_LINES),
        ('[{"claim": "a b", "needSearch": true, "query": "d"}]', [("a b", "d")], AS_JSON),
        ('```json\n{"query": "d", "claim": "a b"}\n```', [("a b", "d")], AS_JSON),
        ('{"claims": ["a", "c"], "queries": ["e"]}', [("", "e"), ("a", ""), ("c", "")], AS_JSON),
        ("{'claim': 'a b', 'query': 'd e", [("a b", "d e")], AS_JSON),
        ('{"claim": "a \\"b\\"", "search": false, "query": "d', [('a "b"', "d")], AS_JSON),
        ("<think><Claim(no)></think><Claim(a b)> <Query(d)>", [("a b", "d")], None),
        ("<Claim(claim 1)> <Search(True/False)> <Query(query 1)> ...", [], None),
        ("<Claim(a)> <Query(d\x00\ud800e)>", [("a", "d  e")], None),
    ],
)  # fmt: skip
def test_repairs(written, expected, repair):
    found = parse_claims(written)
    assert said(found) == expected
    if repair is not None:
        assert repair in found.repairs
    elif "query" not in written.lower() or not expected:
        assert found.repairs == ()


def test_search_is_read_only_where_it_is_said():
    for written, search in [("True", True), ("no", False), ("True/False", None), ("maybe", None)]:
        (lead,) = parse_claims(f"<Claim(a b)> <NeedSearch({written})> <Query(d)>").claims
        assert lead.search is search
        assert lead.wanted is (search is not False)


@pytest.mark.parametrize(
    "written",
    [
        None,
        7,
        "",
        "   ",
        "I do not know.",
        "<",
        "{",
        "[" * 50_000,
        "Known (False)",
        "<Claim",
        "((((",
    ],
)
def test_nothing_to_read_is_no_claim(written):
    assert parse_claims(written) == Leads()


def test_a_model_that_repeats_forever_is_cut_off():
    many = " ".join(f"<Claim(a fact {n})> <Query(q {n})>" for n in range(5000))
    found = parse_claims(many)
    assert len(found.claims) == MOST_LEADS and TOO_MANY in found.repairs
    assert said(parse_claims("<Claim(a fact)> <Query(q)> " * 50_000)) == [("a fact", "q")]
    long = parse_claims(f"<Claim(a fact)> <Query({'why ' * 20_000})>")
    assert said(long) == [("a fact", "")] and TOO_LONG in long.repairs
    assert len(parse_claims(f"<Claim({'a' * 9000})> <Query(q)>").claims[0].text) == 1000


NEARLY = st.text("<>()/:=\"'{}[],.\n\\ ClaimQueryNeedSearchTrueQuestion1", max_size=300)
MARKS = st.sampled_from(["", "(", ")>", "<Claim(", "<Query>", "\n", "\ud800", '"', "}"])


@given(NEARLY, MARKS, st.data(), st.sampled_from([RELEASED, PAPER, json.dumps(LEADS.to_dict())]))
@settings(max_examples=200)
def test_nearly_claims_and_altered_ones_never_raise(nearly, mark, data, written):
    sound(parse_claims(nearly))
    start = data.draw(st.integers(0, len(written)))
    end = data.draw(st.integers(start, len(written)))
    sound(parse_claims(written[:start] + mark + written[end:]))


def sound(leads):
    """Whatever was read, queries fit a retriever and the record holds together."""
    assert Leads.from_dict(leads.to_dict()) == leads
    for lead in (*leads.questions, *leads.claims):
        assert lead.text or lead.query
        assert len(lead.query) <= LONGEST_QUERY and "\n" not in lead.query
        lead.query.encode()
    assert bool(leads.grammar) == bool(leads.questions or leads.claims)


def test_wrong_leads_are_refused():
    with pytest.raises(InputError, match=r"Lead\.search` must be"):
        Lead("a", "b", 1)
    with pytest.raises(InputError, match=r"Leads\.claims\[0\]"):
        Leads(claims=("a",))
    with pytest.raises(InputError, match="grammar` must be"):
        render(LEADS, "json")


INVENTED = "\n\nQuestion: Who wrote Faust?\nAnswer: Goethe wrote it."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"<Claim> Oslo is in Norway <Query> Oslo{INVENTED}", [("Oslo is in Norway", "Oslo")]),
        (f"Claim 1: Oslo is in Norway\nQuery: Oslo{INVENTED}", [("Oslo is in Norway", "Oslo")]),
        (INVENTED, []),
        ("Question: Who wrote Faust?", []),  # cut off before its answer
        ("Question: Who wrote it?\nQuery: Faust author", [("Who wrote it?", "Faust author")]),
    ],
)
def test_a_question_that_was_made_up_is_no_query(text, expected):
    leads = parse_claims(text)
    assert [(lead.text, lead.query) for lead in (*leads.questions, *leads.claims)] == expected
