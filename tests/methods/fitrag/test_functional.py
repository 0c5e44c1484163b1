"""The plain functions: what goes in, what comes out, and that they decide as the drop-ins do."""

import doctest
import pickle
from dataclasses import fields
from inspect import Parameter, signature

import pytest

from fitrag_integrations import BiLabelScore, InputError, Passage, compress, rerank
from fitrag_integrations.methods.fitrag import functional

RETURNS = "Returns. Items can be returned within 30 days. Shipping is not refunded."
CARDS = "Gift cards expire after two years. They cannot be exchanged for money."
QUESTION = "Within how many days can items be returned?"


def words(pairs):
    """Score a text by the words it shares with the question."""
    shared = [len({*q.lower().split()} & {*p.text.lower().split()}) / 10 for q, p in pairs]
    return [BiLabelScore(each, each) for each in shared]


def test_the_examples_in_the_docstrings_are_what_comes_out():
    assert doctest.testmod(functional).failed == 0


@pytest.mark.parametrize(
    ("given", "passage"),
    [
        (RETURNS, Passage("1", RETURNS)),
        (Passage("r", RETURNS, "Returns"), Passage("r", RETURNS, "Returns")),
        ({"text": RETURNS}, Passage("1", RETURNS)),
        (
            {"text": RETURNS, "title": "Returns", "source": "a.md", "id": 7, "year": 2024},
            Passage("7", RETURNS, "Returns", "a.md", {"year": 2024}),
        ),
        (
            {"text": RETURNS, "title": None, "metadata": {"a": 1}},
            Passage("1", RETURNS, "", "", {"a": 1}),
        ),
    ],
    ids=["text", "passage", "dict", "dict with all", "dict with metadata"],
)
def test_texts_of_every_kind(given, passage):
    for kept in (
        rerank(QUESTION, [CARDS, given], top_n=1, scorer=words),
        compress(QUESTION, [CARDS, given], max_tokens=14, scorer=words, window=1),
    ):
        (best,) = kept
        assert best.passage == passage
        assert kept.indices == (1,)
        assert best.text == RETURNS[best.start : best.end]
        assert best.score > 0


def test_the_defaults_are_those_of_the_drop_ins():
    from langchain_core.documents import Document

    from fitrag_integrations.langchain import BiLabelReranker, SubDocumentCompressor

    texts = [f"{CARDS} This is text {n}." for n in range(12)] + [RETURNS]
    documents = [Document(text) for text in texts]
    ranked = BiLabelReranker().compress_documents(documents, QUESTION)
    kept = rerank(QUESTION, texts)
    assert [each.text for each in kept] == [each.page_content for each in ranked]
    assert [texts[at] for at in kept.indices] == [each.text for each in kept]
    cut = SubDocumentCompressor().compress_documents(documents, QUESTION)
    assert [each.text for each in compress(QUESTION, texts)] == [d.page_content for d in cut]


def test_what_was_left_out_is_noted():
    kept = compress(QUESTION, [RETURNS, CARDS], max_tokens=14, scorer=words, window=1)
    assert "max_tokens=14" in " ".join(kept.context.notes)
    assert "max_tokens=14" in kept.explain()
    assert QUESTION in kept.context.prompt()
    again = pickle.loads(pickle.dumps(kept))
    assert (again, again.indices, again.context) == (kept, kept.indices, kept.context)


@pytest.mark.parametrize("function", [rerank, compress])
@pytest.mark.parametrize(
    ("texts", "named"),
    [
        (RETURNS, "texts"),
        ({"text": RETURNS}, "texts"),
        ([RETURNS, 7], r"texts\[1\]"),
        ([{"page": RETURNS}], r"texts\[0\]\['text'\]"),
        ([{"text": RETURNS, "title": 3}], r"texts\[0\]\['title'\]"),
        ([{"text": RETURNS, "metadata": "x"}], r"metadata"),
    ],
)
def test_a_wrong_text_is_named(function, texts, named):
    with pytest.raises(InputError, match=named):
        function(QUESTION, texts, scorer=words)


@pytest.mark.parametrize(
    ("function", "step"), [(rerank, functional.Reranking), (compress, functional.TokenReducer)]
)
def test_the_options_are_those_of_the_step_with_its_defaults(function, step):
    given = {name: one.default for name, one in signature(function).parameters.items()}
    assert given == {
        **{"query": Parameter.empty, "texts": Parameter.empty, "title_keys": None},
    } | {one.name: one.default for one in fields(step)}
    with pytest.raises(TypeError, match="wieght"):
        function(QUESTION, [RETURNS], wieght=1)


@pytest.mark.parametrize("function", [rerank, compress])
def test_no_texts_give_nothing(function):
    for texts in ([], ["", " \n"]):
        assert function(QUESTION, texts, scorer=words) == []
    with pytest.raises(InputError, match="^`query` must be a string that is not blank"):
        function(" ", [RETURNS], scorer=words)


def test_a_result_shows_what_was_kept_before_what_was_not():
    texts = [RETURNS, *(f"{CARDS} This is text {n}." for n in range(12))]
    kept = compress(QUESTION, texts, scorer=words, window=1, max_tokens=20)
    first, second, *rest = repr(kept).splitlines()
    assert first.startswith("kept ") and first.endswith(" saved")
    assert second == f"  0 [9:46] {kept[0].score:.2f}: Items can be returned within 30 days."
    assert rest[-1].startswith("dropped: ") and "\ndropped 3." not in repr(kept)
    assert "\ndropped 3." in kept.explain(dropped=True)
    drawn = kept._repr_html_()
    assert drawn == kept.context._repr_html_()
    assert drawn.index("Items can be returned") < drawn.index("dropped: ")
    assert "<details><summary" in drawn  # drops unfold


def by_id(pairs):
    """Score a text by the number that is its id."""
    return [BiLabelScore(int(passage.id.partition("#")[0]) / 10) for _, passage in pairs]


PRICE = "The plan costs 20 dollars a month. It includes support by mail."


@pytest.mark.parametrize("door", [rerank, compress])
@pytest.mark.parametrize(
    ("titles", "texts", "kept"),
    [
        (("Basic plan", "Pro plan"), (PRICE, PRICE), {"1", "9"}),  # two pages
        (("Version 1", "Version 2", "Version 2"), (PRICE,) * 3, {"1", "9"}),
        (("Pro plan", "Pro plan"), (PRICE, PRICE), {"9"}),  # the best-scored of two copies
        (("Pro plan", " Pro  plan"), (PRICE, PRICE.replace(" ", "  ")), {"9"}),
        (("", ""), (PRICE, f"\n{PRICE}\n"), {"9"}),
    ],
)
def test_copies_are_equal_in_text_and_title_and_the_best_scored_stays(door, titles, texts, kept):
    ids = ("1", "5", "9") if len(titles) == 3 else ("1", "9")
    given = [Passage(*each) for each in zip(ids, texts, titles, strict=True)]
    for passages in (given, given[::-1]):
        found = door("What does Pro cost?", passages, scorer=by_id)
        assert {one.passage.id for one in found} == kept
        rows = [row for row in found.context.selection if row.whole and not row.kept]
        assert {row.reason for row in rows} <= {"duplicate"} and len(rows) == len(ids) - len(kept)


KINDS = {
    "product": ["Basic", "Pro", "Team", "Business", "Enterprise", "Student", "Family", "Solo"],
    "region": ["Norway", "Sweden", "Denmark", "Finland", "Iceland", "Estonia", "Latvia", "Poland"],
    "version": [f"{major}.{minor}" for major in range(1, 10) for minor in (0, 5)],
    "month": ["January", "February", "March", "April", "May", "June", "July", "August"],
    "airport": ["Oslo", "Bergen", "Malmo", "Turku", "Aarhus", "Tartu", "Riga", "Gdansk"],
}
PAGES = [
    Passage(f"{kind} {name}", f"This page is about one {kind}. {PRICE}", f"{kind.title()} {name}")
    for kind, names in KINDS.items()
    for name in names
]


@pytest.mark.slow
def test_fifty_pages_of_equal_bodies_are_told_apart_by_their_titles():
    assert len(PAGES) == 50
    for passage in PAGES[::5]:  # some of each kind
        question = f"What does the {passage.title.lower()} cost?"
        assert rerank(question, PAGES, top_n=1)[0].passage.id == passage.id


@pytest.mark.parametrize("scale", [0.1, 0.25, 0.6])
@pytest.mark.parametrize("door", [rerank, compress])
def test_min_score_is_the_relevance_that_is_shown(door, scale):
    def half(pairs):
        return [BiLabelScore(scale * int(p.id[0]) / 9, scale / 2) for _, p in pairs]

    given = [Passage(f"{n}", f"Text number {n} is here.") for n in range(1, 10)]
    every = (
        door("Which text?", given, scorer=half, max_tokens=400, top_n=None)
        if (door is compress)
        else door("Which text?", given, scorer=half, top_n=None)
    )
    least = every[4].score
    found = door("Which text?", given, scorer=half, min_score=least, top_n=None)
    assert [one.score for one in found] == [one.score for one in every[:5]]
    assert all(0 <= one.score <= 1 for one in every)
    assert every[0].score == (every[0].labels.has_answer + every[0].labels.llm_prefer) / 2


def test_tokens_in_and_max_share_are_of_all_that_was_given():
    from langchain_core.documents import Document

    from fitrag_integrations.flow import run
    from fitrag_integrations.langchain import FitRagRetriever, SubDocumentCompressor
    from fitrag_integrations.methods import FitRag, Refiner
    from fitrag_integrations.ports import Ports

    given = [Passage(str(n), f"Text {n}. It has {n} words. It ends.", f"T{n}") for n in range(30)]
    documents = [Document(p.text, id=p.id, metadata={"title": p.title}) for p in given]
    how = {"scorer": by_id_ten, "count_tokens": lambda text: len(text.split()), "window": 1}
    ports = Ports(lambda queries: [given for _ in queries])
    refiner = Refiner(lambda pairs: [0.5] * len(pairs), count_tokens=how["count_tokens"])
    contexts = [
        compress("Which?", given, **how).context,
        run(FitRag(**how)("Which?", ports)).value,
        FitRagRetriever(base=lambda query: documents, **how).invoke("Which?").context,
        SubDocumentCompressor(**how).explain(documents, "Which?"),
        run(refiner.context("Which?", given)).value,
    ]
    assert [one.details["tokens_in"] for one in contexts] == [30 * 10] * 5
    most = compress("Which?", given, **how, max_share=0.1).context
    assert 20 < most.details["tokens_out"] <= 30


def by_id_ten(pairs):
    return [BiLabelScore(int(p.id.partition("#")[0]) / 100) for _, p in pairs]
