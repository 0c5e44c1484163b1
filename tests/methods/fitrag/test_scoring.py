"""Passages and their windows scored in one ask, over fakes that compute from the text."""

import pytest
from test_fitrag import FILM, QUESTION, RAIN, ROTA, AtLeast, Recognizing, Words, offering

from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import arun, run, run_many
from fitrag_integrations.methods import FitRag
from fitrag_integrations.methods.defaults import EMBEDDED_SCORER
from fitrag_integrations.methods.fitrag.reducer import TokenReducer
from fitrag_integrations.methods.fitrag.scoring import (
    SentenceScorer,
    score_port,
    sentence_port,
)
from fitrag_integrations.types import BiLabelScore

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
    how = {"scoring": "one_pass", "detector": False, "top_n": None, **settings}
    return both(TokenReducer(scorer=scorer, **how), passages)


def both(reducer, passages=PASSAGES):
    context = run(reducer.context(QUESTION, passages)).value
    return list(context.excerpts), context.notes


def test_windows_and_passages_are_one_ask():
    scorer = OnePass()
    kept, notes = reduced(scorer, window=1, per_passage=1, max_share=None)
    (ask,) = scorer.asks
    assert [text for text, _ in ask] == [passage.text for passage in PASSAGES]
    assert [len(spans) for _, spans in ask] == [2, 5, 1]
    assert kept[0].text == "Rota wrote the score." and kept[0].labels.has_answer == 0.75
    assert notes == ()


@pytest.mark.parametrize("settings", [{}, {"window": 1}, {"max_tokens": 12}, {"window": 2}])
def test_where_both_scorings_agree_so_do_the_excerpts(settings):
    scorer = OnePass()
    plain = TokenReducer(scorer=scorer, top_n=None, detector=False, **settings)
    assert both(plain) == reduced(scorer, **settings)


def test_the_detector_works_the_same():
    reducer = TokenReducer(scorer=OnePass(), scoring="one_pass", window=1, detector=AtLeast(0.7))
    kept, _ = both(reducer)
    assert [one.text for one in kept] == ["Rota wrote the score."]


@pytest.mark.parametrize("gate", [None, "recognizer"])
def test_fitrag_reranks_and_compresses_in_one_ask(gate):
    once, twice = OnePass(), OnePass()
    given = Recognizing() if gate else None
    settings = {"top_n": 2, "window": 1, "per_passage": 1, "max_share": None, "gate": given}
    first = run(FitRag(once, scoring="one_pass", **settings)(QUESTION, offering(*PASSAGES)))
    other = run(FitRag(twice, scoring="windows", **settings)(QUESTION, offering(*PASSAGES)))
    assert first.value == other.value and len(first.value.excerpts) == 2
    assert len(once.asks) == 1 and len(twice.asks) == 2


def test_questions_share_the_call():
    scorer = OnePass()
    method = FitRag(scorer, scoring="one_pass")
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

    method = FitRag(Both(), scoring="one_pass")
    found = await arun(method(QUESTION, offering(*PASSAGES)))
    assert found.value.excerpts


def test_blank_passages_and_splitters_that_find_nothing():
    scorer = OnePass()
    blank = type(RAIN)("blank", "  ")
    kept, _ = reduced(scorer, [blank, ROTA], split=lambda text: [])
    assert kept == [] and scorer.asks == []
    assert reduced(OnePass(), [])[0] == []


def test_a_scorer_without_sentences_is_told():
    with pytest.raises(InputError, match="OnePassScorer"):
        reduced(Words())
    with pytest.raises(InputError, match="OnePassScorer"):
        reduced(lambda pairs: [BiLabelScore(0.5) for _ in pairs])
    with pytest.raises(InputError, match="'windows', 'one_pass' or None"):
        TokenReducer(scoring="sentences")


def test_the_embedded_scorer_has_an_embedded_twin():
    assert sentence_port(score_port()).call == EMBEDDED_SCORER.score_sentences
    assert isinstance(EMBEDDED_SCORER, SentenceScorer)
    port = sentence_port(score_port(OnePass()))
    assert sentence_port(port) is port


def test_wrong_answers_are_told():
    class Wrong(OnePass):
        def score_sentences(self, items):
            return [(BiLabelScore(0.5), ["?" for _ in spans]) for _, _, spans in items]

    with pytest.raises(InputError, match="scores"):
        reduced(Wrong())
