"""Passages and their windows scored in one ask, over fakes that compute from the text."""

import pytest
from test_fitrag import FILM, QUESTION, RAIN, ROTA, AtLeast, Recognizing, Words, offering

from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import arun, run, run_many
from fitrag_integrations.methods import FitRag
from fitrag_integrations.methods.defaults import EMBEDDED_SCORER
from fitrag_integrations.methods.fitrag.method import TokenReducer
from fitrag_integrations.methods.fitrag.options import (
    SentenceScorer,
)
from fitrag_integrations.types import BiLabelScore, Passage

PASSAGES = [RAIN, FILM, ROTA]


class OnePass(Words):
    """Judge each span by its own words, as `Words` would."""

    def score_sentences(self, items):
        self.asks.append([(passage.text, list(spans)) for _, passage, spans in items])
        return [
            (
                self.one(passage.text.lower()),
                [self.one(passage.text[start:end].lower()) for start, end in spans],
            )
            for _, passage, spans in items
        ]


def reduced(scorer, passages=PASSAGES, **settings):
    reducer = TokenReducer(scorer=scorer, **{"top_n": None, "max_share": None, **settings})
    context = run(reducer.context(QUESTION, passages)).value
    return list(context.excerpts), context.notes


def test_windows_and_passages_are_one_ask():
    scorer = OnePass()
    kept, notes = reduced(scorer)
    (ask,) = scorer.asks
    assert [text for text, _ in ask] == [passage.text for passage in PASSAGES]
    assert [len(spans) for _, spans in ask] == [2, 5, 1]
    assert kept[0].text == FILM.text and kept[0].labels.has_answer == 0.75
    assert notes == ()


def test_longer_windows_are_texts_of_their_own_for_every_scorer():
    scorer = OnePass()
    assert reduced(scorer, window=2) == reduced(Words(), window=2)
    assert all(isinstance(one, str) for ask in scorer.asks for one in ask)


def test_the_detector_works_the_same():
    kept, _ = reduced(OnePass(), detector=AtLeast(0.7))
    assert [one.text for one in kept] == ["Rota wrote the score."]


@pytest.mark.parametrize("gate", [None, "recognizer"])
def test_fitrag_reranks_and_compresses_in_one_ask(gate):
    once, twice = OnePass(), OnePass()
    how = {"top_n": 2, "gate": Recognizing() if gate else None}
    first = run(FitRag(once, **how)(QUESTION, offering(*PASSAGES)))
    other = run(FitRag(twice, **how, window=3)(QUESTION, offering(*PASSAGES)))
    assert len(first.value.excerpts) == len(other.value.excerpts) == 2
    assert len(once.asks) == 1 and len(twice.asks) == 2


@pytest.mark.parametrize("door", ["fitrag", "reducer"])
@pytest.mark.parametrize(("top_n", "asks"), [(None, [10]), (3, [10]), (5, [10]), (1, [3, 4])])
def test_where_all_are_kept_an_own_scorer_is_asked_about_windows_only(door, top_n, asks):
    scorer, given = Words(), [*PASSAGES[:2], Passage("more", "So. It. Is. Now. Here. Then.")]
    how = {"scorer": scorer, "top_n": top_n, "window": 2}
    if door == "fitrag":
        context = run(FitRag(**how)(QUESTION, offering(*given))).value
    else:
        context = run(TokenReducer(**how).context(QUESTION, given)).value
    assert context.details["scored"] == 3 and context.excerpts[0].passage is FILM
    assert [len(texts) for texts in scorer.asks] == asks


def test_questions_share_the_call():
    scorer = OnePass()
    method = FitRag(scorer)
    run_many([method(question, offering(*PASSAGES)) for question in (QUESTION, "Who was born?")])
    assert [len(ask) for ask in scorer.asks] == [6]


async def test_an_async_twin_is_used():
    class Twin(OnePass):
        score_sentences = None

        async def ascore(self, pairs):
            return []

        async def ascore_sentences(self, items):
            return OnePass.score_sentences(self, items)

    class Both(Twin):
        score_sentences = OnePass.score_sentences

    method = FitRag(Both())
    found = await arun(method(QUESTION, offering(*PASSAGES)))
    assert found.value.excerpts


def test_blank_passages_are_not_asked_about():
    scorer = OnePass()
    kept, _ = reduced(scorer, [Passage("blank", "  ")])
    assert kept == [] and scorer.asks == []
    assert reduced(OnePass(), [])[0] == []


def test_an_identifier_raises_the_score_and_leaves_the_label():
    text = "The pump MX-77 is in hall four. Hall four is cold. It has one door."
    both = [BiLabelScore(0.1)] * 3

    class Same(OnePass):
        def score_sentences(self, items):
            return [(both[0], both[: len(spans)]) for *_, spans in items]

    reducer = TokenReducer(scorer=Same(), max_tokens=12)
    (kept,) = run(reducer.context("Where is MX-77?", [Passage("p", text)])).value.excerpts
    assert "MX-77" in kept.text and kept.labels.has_answer == pytest.approx(0.1)
    assert kept.score == pytest.approx(0.69, abs=0.01)  # three logits more


def test_the_embedded_scorer_has_an_embedded_twin():
    assert TokenReducer().plan.port.call == EMBEDDED_SCORER.score_sentences
    assert isinstance(EMBEDDED_SCORER, SentenceScorer)


def test_wrong_answers_are_told():
    class Wrong(OnePass):
        def score_sentences(self, items):
            return [(BiLabelScore(0.5), ["?" for _ in spans]) for _, _, spans in items]

    with pytest.raises(InputError, match="scores"):
        reduced(Wrong())
