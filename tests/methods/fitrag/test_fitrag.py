"""Algorithm 1 driven by hand and over fakes that compute from the text they are given."""

import asyncio
from dataclasses import dataclass, replace

import pytest
from by_hand import finished

from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import arun_many, run, run_many
from fitrag_integrations.methods import FitRag, approximate_tokens, compress, rerank
from fitrag_integrations.methods.fitrag.method import Reranking, TokenReducer
from fitrag_integrations.methods.fitrag.ranking import ranked
from fitrag_integrations.methods.prompts import render_excerpts
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import BiLabelScore, Excerpt, Passage, RetrievalDecision

QUESTION = "Who wrote the score of Amarcord?"
FILM = Passage(
    "film", "Amarcord is a film. Rota wrote the score. It won. Prizes came. More came.", "Amarcord"
)
ROTA = Passage("rota", "Rota was born in Milan.", "Nino Rota")
RAIN = Passage("rain", "Rain falls. It is wet.")


class Words:
    """Score by the share of the words 'rota' and 'score' and of 'amarcord' in the text."""

    def __init__(self):
        self.asks = []

    def score(self, pairs):
        self.asks.append([passage.text for _, passage in pairs])
        return [self.one(passage.text.lower()) for _, passage in pairs]

    def one(self, text):
        return BiLabelScore(("rota" in text) / 2 + ("score" in text) / 4, ("amarcord" in text) / 2)


@dataclass
class Known:
    chance: float
    threshold: float = 0.5

    def p_known(self, questions, drafts):
        return [self.chance for _ in questions]


class Recognizing:
    """Do not retrieve when every passage has the answer."""

    def __init__(self):
        self.seen = []

    def decide(self, question, scores):
        self.seen.append([score.has_answer for score in scores])
        return RetrievalDecision(min(self.seen[-1]) < 0.5, why="counted")
        yield


@dataclass
class AtLeast:
    """Call a combination sufficient when its scores sum to enough."""

    total: float

    def eligible(self, combinations):
        return [
            float(sum(label.combine() for label in labels) >= self.total) for labels in combinations
        ]


def offering(*passages):
    return Ports(lambda queries: [list(passages) for _ in queries])


def test_the_flow_by_hand():
    method = FitRag(Words(), top_n=2)
    flow = method(QUESTION, offering())
    ask = flow.send(None)
    assert (ask.port.name, list(ask.items)) == ("retrieve", [QUESTION])
    ask = flow.send([[RAIN, ROTA, FILM]])
    assert ask.port.name == "score"
    assert ask.items == [(QUESTION, RAIN), (QUESTION, ROTA), (QUESTION, FILM)]
    ask = flow.send([BiLabelScore(0.1, 0.1), BiLabelScore(0.2, 0.9), BiLabelScore(0.9, 0.3)])
    assert [passage.title for _, passage in ask.items] == ["Amarcord"] * 3 + ["Nino Rota"]
    assert ask.items[0][1].text == "Amarcord is a film. Rota wrote the score. It won."
    windows = [BiLabelScore(n / 10, n / 10) for n in (2, 4, 3, 5)]
    context = finished(flow, windows)
    assert [excerpt.passage.id for excerpt in context.excerpts] == ["rota", "film"]
    assert [excerpt.score for excerpt in context.excerpts] == [0.5, 0.4]
    assert context.excerpts[1].text == "Rota wrote the score. It won. Prizes came."
    assert context.excerpts[1].labels == windows[1]
    assert context.method == "fitrag" and context.details["reranked"] == 2


def test_all_windows_of_all_passages_and_questions_are_one_call():
    scorer = Words()
    method, ports = FitRag(scorer), offering(FILM, ROTA, RAIN)
    traces = run_many([method(question, ports) for question in (QUESTION, "Who is Rota?")])
    assert [len(asked) for asked in scorer.asks] == [10]  # all are kept, so none has to be ranked
    waiting = asyncio.run(arun_many([method(QUESTION, ports)]))
    assert waiting[0].value == traces[0].value
    assert [e.passage.id for e in traces[0].value.excerpts] == ["film", "rota", "rain"]


def test_the_best_window_is_the_first_of_equals():
    kept = compress(QUESTION, [FILM], scorer=Words())
    assert [excerpt.text for excerpt in kept] == [
        "Amarcord is a film. Rota wrote the score. It won."
    ]
    assert kept[0].score == 0.625  # half of 0.5 + 0.25 + 0.5


def test_reranking_weighs_the_labels():
    given, score = [RAIN, ROTA, FILM], {"scorer": Words()}
    assert [e.passage.id for e in rerank(QUESTION, given, **score)] == ["film", "rota", "rain"]
    top = rerank(QUESTION, given, **score, top_n=1, weight=0.0)
    assert [(e.passage.id, e.score, e.text) for e in top] == [("film", 0.75, FILM.text)]
    assert len(rerank(QUESTION, [RAIN] * 20, **score, top_n=None)) == 1
    assert len(rerank(QUESTION, [RAIN] * 20, **score, top_n=None, deduplicate=False)) == 20


@pytest.mark.parametrize(("deduplicate", "ids"), [(True, ["rota"]), (False, ["rota", "again"])])
def test_blank_passages_are_not_scored_and_repeated_ones_stay_where_asked_for(deduplicate, ids):
    scorer, how = Words(), {"deduplicate": deduplicate}
    given = [Passage("a", " \n"), ROTA, replace(ROTA, id="again"), Passage("b", "")]
    ranked = rerank(QUESTION, given, scorer=scorer, **how)
    assert [e.passage.id for e in ranked] == ids
    assert len(compress(QUESTION, given, scorer=scorer, **how)) == len(ids)
    assert rerank(QUESTION, given[:1], scorer=scorer) == []
    assert scorer.asks == [[ROTA.text] * 2] * 2  # scores decide which copy stays


def test_a_gate_is_asked_before_anything_is_retrieved():
    trace = run(FitRag(Words(), gate=Known(0.9))(QUESTION, Ports()))
    assert [step.port for step in trace.steps] == ["gate"]
    decision = trace.value.decision
    assert (decision.retrieve, decision.p_known, decision.threshold) == (False, 0.9, 0.5)
    assert "background passage" in trace.value.prompt()


def test_a_recognizer_sees_every_score_in_retrieval_order():
    gate = Recognizing()
    trace = run(FitRag(Words(), gate=gate, top_n=1)(QUESTION, offering(RAIN, ROTA, FILM)))
    assert gate.seen == [[0.0, 0.5, 0.75]]
    assert trace.value.decision.retrieve and trace.value.excerpts
    trace = run(FitRag(Words(), gate=gate)(QUESTION, offering(ROTA, FILM)))
    assert not trace.value.decision.retrieve and not trace.value.excerpts
    assert [step.port for step in trace.steps] == ["retrieve", "score"]


def test_a_detector_keeps_the_shortest_sufficient_prefix():
    ports = offering(FILM, ROTA, RAIN)  # 1.25, 0.5 and 0
    for total, kept in ((1.0, 1), (1.5, 2)):
        context = run(FitRag(Words(), detector=AtLeast(total))(QUESTION, ports)).value
        note = f"{3 - kept} of 3 excerpts left out: the detector found the best enough"
        assert (len(context.excerpts), context.notes) == (kept, (note,))
    context = run(FitRag(Words(), detector=AtLeast(9))(QUESTION, ports)).value
    assert len(context.excerpts) == 3
    assert context.notes == ("the detector found no prefix sufficient: all 3 excerpts kept",)


def test_the_budget_holds_and_is_noted():
    ports = offering(FILM, ROTA, RAIN)
    context = run(FitRag(Words(), max_tokens=18)(QUESTION, ports)).value
    tokens = approximate_tokens(render_excerpts(context.excerpts))
    assert tokens == context.details["tokens_out"] <= 18 < context.details["tokens_in"]
    assert context.notes == ("2 of 3 excerpts left out by max_tokens=18",)


LOTS = [
    Passage(one, f"Logger {one} is in lot {n}.")
    for n, one in enumerate(("Alba", "Bora", "Cima", "Dora"))
]


@pytest.mark.parametrize(
    ("prior", "scores", "expected"),
    [
        (0.0, [0.50, 0.52, 0.51, 0.50], [1, 2, 0, 3]),
        (0.25, [0.50, 0.52, 0.51, 0.50], [0, 3, 1, 2]),  # what is first, and what is asked for
        (0.25, [0.10, 0.90, 0.10, 0.10], [1, 0, 3, 2]),  # a clear score decides
        (1.0, [0.10, 0.90, 0.10, 0.10], [0, 3, 1, 2]),
    ],
)
def test_order_and_shared_words_count_as_much_as_the_prior(prior, scores, expected):
    wholes = [Excerpt.whole(one, score=x) for one, x in zip(LOTS, scores, strict=True)]
    found = ranked("Which lot is logger Dora from?", wholes, prior)
    assert [one.passage for one in found] == [LOTS[at] for at in expected]
    shown = [one.score for one in found]
    assert shown == sorted(shown, reverse=True)
    assert all(one.score >= scores[at] for one, at in zip(found, expected, strict=True))
    assert max(shown) == pytest.approx(max(scores))


def test_the_prior_is_that_of_the_bundled_scorer():
    for options, prior in (
        ({}, 0.1),
        ({"prior": 0.5}, 0.5),
        ({"scorer": Words()}, 0.0),
        ({"scorer": Words(), "prior": 0.3}, 0.3),
    ):
        assert TokenReducer(**options).plan.prior == Reranking(**options).plan.prior == prior
    with pytest.raises(InputError, match="prior"):
        TokenReducer(prior=1.1)


@pytest.mark.parametrize(("prior", "kept"), [(0.0, ["noise"]), (0.1, ["page", "page"])])
def test_where_no_sentence_stands_out_those_of_the_best_passage_are_kept(prior, kept):
    chances = {"It is so. It was so.": 0.6, "Nobody knows.": 0.1}
    page, noise = (Passage(i, t) for i, t in zip(("page", "noise"), chances, strict=True))

    class Unsure:
        def score_sentences(self, items):
            return [
                (
                    BiLabelScore(chances[p.text]),
                    [BiLabelScore(0.01 + 0.02 * (p is noise))] * len(spans),
                )
                for _, p, spans in items
            ]

        def score(self, pairs):
            raise AssertionError

    method = FitRag(Unsure(), max_tokens=12, prior=prior)
    context = run(method(QUESTION, offering(noise, page))).value
    shown = [e.passage.id for e in context.excerpts for _ in e.text.split(". ")]
    assert sorted(shown) == kept


@pytest.mark.parametrize(
    ("question", "row"),
    [
        ("Which lot is logger TX-4240 from?", "TX-4240,Alba,K228-B,Yard"),
        ("What is part P1377 made of?", "P1377,seal,steel,Lyon"),
        ("Why is R-2025065 open?", "R-2025065,Gym,open,Gent"),
    ],
)
def test_a_row_with_an_identifier_of_the_question_is_kept(question, row):
    class Even:
        def score(self, pairs):
            raise AssertionError

        def score_sentences(self, items):
            return [(BiLabelScore(0.1), [BiLabelScore(0.1)] * len(spans)) for *_, spans in items]

    rows = [f"TX-{n},Merle,K{n}-A,Vault" for n in range(4100, 4140)]
    text = "\n".join(["id,kind,lot,place", *rows[:20], row, *rows[20:]])
    context = run(FitRag(Even(), max_tokens=40)(question, offering(Passage("rows", text)))).value
    assert f"id,kind,lot,place\n…\n{row}" in context.excerpts[0].text


@pytest.mark.parametrize(
    ("question", "row"),
    [
        ("Where is the sensor with serial sn10042?", "serial: {}, lot: 3, site: north"),
        ("What was fixed in release 3.12.1?", "Release {}: fixed the cache."),
        ("Who owns OPS-1042?", "[{}] Status: open; owner: Ann; Disk full"),
    ],
)
@pytest.mark.parametrize("place", [0, 7, 19])
def test_of_passages_that_differ_in_an_identifier_the_right_one_ranks_first(question, row, place):
    asked = next(word for word in question.rstrip("?").split() if any(map(str.isdigit, word)))
    texts = [row.format(f"{asked[:-1]}{n}") for n in range(20) if not asked.endswith(str(n))]
    texts.insert(place, row.format(asked.upper()))
    assert rerank(question, texts, top_n=None).indices[0] == place


PLANTS = [
    "The permit for the north pump expires in May.",
    "Pump 7 was serviced on 12 March by Ines.",
    "Serial FX-2041 is a valve of the south hall; it leaks a little.",
    "The south hall was painted green in 2019.",
    "Valves are checked twice a year; leaking ones are exchanged.",
    "Who leaks? Nobody knows.",
    "| valve | hall |\n| --- | --- |\n| FX-2041 | south |\n| FX-2042 | north |",
    "def leak(valve):\n    return valve.serial == 'FX-2041'",
]


@pytest.mark.parametrize("turn", range(0, 8, 3))
@pytest.mark.parametrize("question", ["Which valve leaks?", "Where is FX-2041?", "Is it green?"])
def test_results_come_in_the_order_of_the_score_they_carry(question, turn):
    texts = [*PLANTS[turn:], *PLANTS[:turn]]
    found = rerank(question, texts, top_n=None)
    shown = [one.score for one in found]
    assert shown == sorted(shown, reverse=True) and 0 <= shown[-1] <= shown[0] <= 1
    assert all(one.score >= one.labels.relevance() for one in found)
    assert shown[0] <= max(one.labels.relevance() for one in found) + 1e-9
    again = sorted(zip(shown, found.indices, strict=True), reverse=True)
    assert [index for _, index in again] == list(found.indices)  # for who sorts by score
    for top_n in (1, 3):
        best = rerank(question, texts, top_n=top_n)
        assert list(best) == list(found)[:top_n]
        left = [row.score for row in best.context.selection if not row.kept]
        assert max(left) <= best[-1].score
    for one in (0.01, 0.1, 0.5):
        kept = rerank(question, texts, top_n=None, min_score=one)
        assert list(kept) == [each for each in found if each.score >= one]
    for how in ({}, {"max_tokens": 40}, {"window": 3}, {"window": 3, "max_tokens": 40}):
        scores = [one.score for one in compress(question, texts, **how)]
        assert scores == sorted(scores, reverse=True), how


def test_equal_ids_do_not_mix_passages_up():
    found = offering(replace(FILM, id="x"), replace(ROTA, id="x"))
    context = run(FitRag(Words())(QUESTION, found)).value
    assert [excerpt.passage.title for excerpt in context.excerpts] == ["Amarcord", "Nino Rota"]


@pytest.mark.parametrize("question", ["", " \n", None, 7])
def test_a_question_that_asks_nothing_fails_alone(question):
    method, ports = FitRag(Words()), offering(ROTA)
    wrong, right = run_many([method(question, ports), method(QUESTION, ports)])
    with pytest.raises(InputError, match="question` must be a string that is not blank"):
        _ = wrong.value
    assert len(right.value.excerpts) == 1


def test_wrong_answers_of_a_backend_are_told():
    with pytest.raises(InputError, match=r"retrieved\[0\]` must be a Passage"):
        _ = run(FitRag(Words())(QUESTION, offering("text"))).value
    with pytest.raises(InputError, match=r"scores\[0\]` must be a BiLabelScore"):
        _ = rerank(QUESTION, [ROTA], scorer=lambda pairs: [1.5] * len(pairs))
    with pytest.raises(InputError, match="passages` must be"):
        _ = run(Reranking(Words()).context(QUESTION, "text")).value
