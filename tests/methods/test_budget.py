"""What a budget keeps: the best first, shortened where it must be, and the rest filled."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from by_sentence import BySentence
from hypothesis import given, settings
from hypothesis import strategies as st
from token_fakes import small_encoding

from fitrag_integrations.flow import run
from fitrag_integrations.methods import Crag, Refiner, SlimPLM
from fitrag_integrations.methods.budget import Budget
from fitrag_integrations.methods.fitrag.method import TokenReducer
from fitrag_integrations.methods.prompts import render_excerpts
from fitrag_integrations.ports import Ports
from fitrag_integrations.text.tokens import approximate_tokens, counter_for
from fitrag_integrations.types import BiLabelScore, Excerpt, Passage
from fitrag_integrations.values.windows import by_score, merge, windows

QUESTION = "Who wrote the score?"
FIRST = Passage("first", "Amarcord is a film of 1973.", "Amarcord")
BADGES = Passage("badges", " ".join(f"build-{n}" for n in range(60)), "Badges")
ANSWER = Passage("answer", "Nino Rota wrote the score.", "Rota")
OTHER = {"allow_other_model": True}
RANKED = [FIRST, BADGES, ANSWER]


def by_rank(pairs):
    return [BiLabelScore(1.0 - RANKED.index(at(passage)) / 10) for _, passage in pairs]


def at(passage):
    return next(one for one in RANKED if one.title == passage.title)


def graded(pairs):
    return [one.has_answer for one in by_rank(pairs)]


def ports():
    return Ports(lambda queries: [RANKED for _ in queries], generate=lambda prompts: ["no"])


def kept_by(method):
    return run(method(QUESTION, ports())).value


def doors():
    how = {"window": 1, "detector": False, "max_tokens": 60}
    reducer = TokenReducer(scorer=by_rank, **how)
    yield "reducer", lambda: run(reducer.context(QUESTION, RANKED)).value
    refiner = Refiner(graded, threshold=0.0, max_tokens=60)
    yield "refiner", lambda: run(refiner(QUESTION, RANKED)).value
    crag = Crag(graded, thresholds="popqa", strip_threshold=0.0, max_tokens=60, **OTHER)
    yield "crag", lambda: kept_by(crag)
    slim = SlimPLM(lambda prompts: ["no"] * len(prompts), max_tokens=60, rewrite=False)
    yield "slimplm", lambda: kept_by(slim)


@pytest.mark.parametrize(("door", "found"), list(doors()))
def test_every_door_fills_the_budget_behind_what_does_not_fit(door, found):
    context = found()
    kept, notes = context if isinstance(context, tuple) else (context.excerpts, context.notes)
    assert [one.passage.id for one in kept if one.passage != BADGES] == ["first", "answer"]
    assert approximate_tokens(render_excerpts(kept)) <= 60
    if BADGES not in [one.passage for one in kept]:
        (note,) = [note for note in notes if "left out by max_tokens=60" in note]
        assert "skipped for shorter ones: Badges [0:" in note and " tokens" in note


def test_a_note_names_a_few_of_what_was_skipped():
    long = [
        Excerpt.whole(Passage(f"long {n}", "word " * 50, score)) for n, score in enumerate("ab")
    ]
    long += [Excerpt.whole(Passage(f"long {n}", "word " * 50, "c")) for n in range(2, 5)]
    short = [Excerpt.whole(Passage(f"{n}", "So.")) for n in range(9)]
    first, answer = Excerpt.whole(FIRST), Excerpt.whole(ANSWER)
    fitted = run(Budget(70, limit="max_tokens=70").fitted([first, *long, answer, *short])).value
    assert [one.passage for one in fitted.kept][:2] == [FIRST, ANSWER]
    assert list(fitted.left) == long
    (note,) = fitted.notes
    assert note.startswith("5 of 16 excerpts left out by max_tokens=70, skipped for shorter ones: ")
    assert note.endswith("; 2 more") and note.count("[0:250]") == 3


def test_a_row_is_not_bought_without_what_names_it_beside_others():
    text = "## Ports that the services of the house listen on\n\n| metrics | 9464 |"
    start = text.index("| metrics")
    row = Excerpt(Passage("ports", text), start, len(text), lead=((0, text.index("\n")),))
    alone = Budget(28, limit="max_tokens=28")
    assert alone.fits([row]) and not alone.fits([Excerpt.whole(FIRST), row])
    fitted = run(alone.fitted([Excerpt.whole(FIRST), row, Excerpt.whole(ANSWER)])).value
    assert [one.text for one in fitted.kept] == [FIRST.text]
    (least,) = run(Budget(11).fitted([row])).value.kept
    assert least.text == "| metrics | 9464 |"  # where nothing else fits


PAGES = [
    Passage(f"{path.name} {at}", text[at : at + 900], path.stem)
    for path in sorted((Path(__file__).parents[2] / "docs").glob("[cemr]*.md"))
    for text in [path.read_text(encoding="utf-8")]
    for at in range(0, len(text), 900)
]
PIECES = [piece for page in PAGES for piece in windows(page, size=1)]


def shown(excerpts):
    return {(e.passage.id, at) for e in excerpts for a, b in e.spans for at in range(a, b)}


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=25, unique_by=id),
    st.lists(st.integers(1, 600), min_size=2, max_size=8),
    st.sampled_from([None, lambda text: len(text.split()), small_encoding()]),
    st.sampled_from([None, lambda piece: piece.score]),
    st.randoms(use_true_random=False),
)
def test_a_larger_budget_holds_all_that_a_smaller_one_does(pieces, budgets, count, value, chance):
    def ask(parts):
        yield from ()
        return [replace(one, score=(len(one.text) * 37 % 11) / 11) for one in parts]

    ranked = by_score(replace(one, score=chance.random()) for one in pieces)
    held = set()
    one_text = {"arrange": lambda kept: by_score(merge(kept)), "value": value}
    for most in sorted(budgets):
        budget = Budget(most, count=counter_for(count), **one_text)
        fitted = run(budget.fitted(ranked, ask)).value
        assert budget.returned(fitted.kept) <= most
        assert held <= (held := shown(fitted.kept))


@pytest.mark.parametrize("sentences", [1000, 4000])
def test_thousands_of_sentences_are_fitted_in_a_few_renderings(sentences):
    text = " ".join(f"Sentence {n} has {'some ' * (n % 13)}words." for n in range(sentences))
    cut, read = windows(Passage("long", text), size=1), []

    def count(text):
        read.append(len(text))
        return approximate_tokens(text)

    for most in (50, 400, 2000, 5000, 5 * sentences):
        read.clear()
        budget = Budget(most, count=count)
        fitted = run(budget.fitted(cut)).value
        assert most - 24 < budget.returned(fitted.kept) <= most
        assert sum(read) < 32 * len(text)


ROWS = [{"logger": f"X{n}", "lot": f"L-{37 * n}"} for n in range(40)]
ZH, JA = (
    (f"第{n}号{a}位于{b}" for n in range(20)) for a, b in (("仓库", "北京"), ("倉庫", "東京"))
)
DENSE = {
    "Chinese": ("，".join([*ZH, "乔戈里峰海拔八千六百一十一米", "第七号"]), "八千六百一十一"),
    "Japanese": ("、".join([*JA, "富士山は三千七百七十六", "工場は部品"]), "三千七百七十六"),
    "Arabic": ("،".join([*("المدينة_جميلة" * 3 for _ in range(9)), "الارتفاع_٣٧٧٦"]), "٣٧٧٦"),
    "HTML": ("<table><tr><th>logger</th><th>lot</th></tr>" + "".join(
        f"<tr><td>{row['logger']}</td><td>{row['lot']}</td></tr>" for row in ROWS
    ) + "</table>", "<td>X23</td><td>L-851</td>"),
    "XML": ("<rows>" + "".join(
        f"<row><logger>{row['logger']}</logger><lot>{row['lot']}</lot></row>" for row in ROWS
    ) + "</rows>", "<logger>X23</logger><lot>L-851</lot>"),
    "JSON": (json.dumps(ROWS, separators=(",", ":")), '{"logger":"X23","lot":"L-851"}'),
    "object": (json.dumps({f"x{n}": n * 37 for n in range(99)}), '"x23": 851'),
    "script": ("".join(f"var x{n}={n * 37};f(x{n},'a');" for n in range(60)), "var x23=851;"),
    "Thai": ("เมืองหลวงของไทยคือกรุงเทพ" * 9 + "ดอยอินทนนท์" + "แม่น้ำเจ้าพระยา" * 9, "อินทนนท์"),
    "base64": ("9bFlIkpYt5HfavHYMD5hzcS7hsPRxCcQ" * 30, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", DENSE)
def test_a_text_without_blanks_is_shortened_around_its_answer(name):
    text, answer = DENSE[name]

    def ask(parts):
        yield from ()
        return [replace(one, score=float(answer in one.text)) for one in parts]

    whole = Excerpt.whole(Passage("p", text))
    for most in (45, 80, 160):
        budget = Budget(most)
        (kept,) = run(budget.fitted([whole], ask)).value.kept
        assert answer in kept.text
        assert budget.fits([kept])
    (least,) = run(Budget(6).fitted([whole], ask)).value.kept
    assert Budget(6).fits([least])


PORTS = "\n".join(f"| service {n} of the town | {8000 + n} | team {n} |" for n in range(12))
HEAD = "# Ports of all services\n\n| name of the service | port | owner |\n| --- | --- | --- |\n"
TABLE = HEAD + PORTS
SHEET = Passage("ports", TABLE, "Ports", "docs/ports.md")
FACTS = Passage("facts", " ".join(f"Fact {n} is short. Port {n} is open." for n in range(20)))


@pytest.mark.parametrize("count", [None, lambda text: len(text.split()), small_encoding()])
@pytest.mark.parametrize("passages", [[SHEET], [FACTS, SHEET], [FACTS, replace(FACTS, id="b")]])
@pytest.mark.parametrize("most", [40, 60, 120])
def test_max_tokens_holds_in_every_form_that_is_returned(count, passages, most):
    from langchain_core.documents import Document
    from llama_index.core.schema import NodeWithScore, TextNode

    from fitrag_integrations import langchain, llama_index

    tokens = counter_for(count)
    how = {"max_tokens": most, "count_tokens": count, "scorer": BySentence(by_port)}
    context = run(TokenReducer(**how).context("Which port?", passages)).value
    documents = langchain.SubDocumentCompressor(**how).compress_documents(
        [
            Document(p.text, id=p.id, metadata={"title": p.title, "source": p.source})
            for p in passages
        ],
        "Which port?",
    )
    nodes = llama_index.SubDocumentCompressor(**how).postprocess_nodes(
        [NodeWithScore(node=TextNode(text=p.text, id_=p.id)) for p in passages],
        query_str="Which port?",
    )
    assert context.excerpts and documents and nodes
    for texts in (
        [one.text for one in context.excerpts],
        [one.page_content for one in documents],
        [one.node.get_content() for one in nodes],
    ):
        assert sum(map(tokens, texts)) <= most and tokens("\n\n".join(texts)) <= most
    assert tokens(render_excerpts(context.excerpts)) <= most
    assert tokens(str(documents)) <= most


TITLE = "Ports that the services of the town are reached under, as of the third of May"
LONG = "a team that has been at work on it for all of the last year " * 5
SPARSE = " ".join(f"Port {n} is open. It is kept so by {LONG}." for n in range(9))
SPARSE_TABLE = "| port | owner |\n| --- | --- |\n" + "".join(
    f"| Port {n} is open | {n} |\n| closed | {LONG} |\n" for n in range(9)
)


@pytest.mark.parametrize("count", [None, lambda text: len(text.split()), small_encoding()])
@pytest.mark.parametrize("text", [SPARSE, SPARSE_TABLE], ids=["prose", "table"])
def test_a_title_is_paid_once_for_all_pieces_of_a_passage(count, text):
    from langchain_core.documents import Document
    from llama_index.core.schema import NodeWithScore, TextNode

    from fitrag_integrations import langchain, llama_index

    tokens = counter_for(count)
    most = 4 * tokens(TITLE)
    alone = {"max_tokens": most, "count_tokens": count, "scorer": BySentence(by_port)}
    documents = langchain.SubDocumentCompressor(**alone).compress_documents(
        [Document(text, metadata={"title": TITLE})], "Which port?"
    )
    nodes = llama_index.SubDocumentCompressor(**alone).postprocess_nodes(
        [NodeWithScore(node=TextNode(text=text, metadata={"title": TITLE}))],
        query_str="Which port?",
    )
    assert len(documents) > 1
    for numbered in (str(documents), llama_index.numbered_nodes(nodes)):
        assert numbered.count(TITLE) == 1 and numbered.startswith(f"1. {TITLE}: ")
        assert tokens(numbered) <= most
    paid = max(tokens(str(documents)), sum(tokens(one.page_content) for one in documents))
    assert paid > 0.85 * min(most, tokens(f"1. {TITLE}: " + " Port 1 is open." * 9))


def test_a_source_that_no_prompt_shows_costs_nothing():
    path = "usr/share/doc/services/of/the/town/ports.txt"
    for piece in windows(Passage("p", SPARSE_TABLE, source=path), size=1):
        assert 0 <= Budget().returned([piece]) - Budget().cost([piece]) <= 1


def by_port(pairs):
    return [BiLabelScore(1 / (1 + len(p.text) + p.text.count("7"))) for _, p in pairs]
