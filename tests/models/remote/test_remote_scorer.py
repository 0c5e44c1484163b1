"""A served reranker behind `RemoteScorer`, over servers with the limits that real ones have."""

import asyncio
import gzip
import json
import logging
import pickle
import random
import resource
import time
import traceback
from dataclasses import replace

import pytest
from rerank_server import KEY, Server, share

from fitrag_integrations import (
    InputError,
    Passage,
    PortError,
    Ports,
    ThresholdMismatchError,
    compress,
    rerank,
    run,
)
from fitrag_integrations.errors import RefusedError
from fitrag_integrations.methods import ActionThresholds, Crag, FitRag
from fitrag_integrations.models import RemoteScorer

WHERE = {
    "tei": "",
    "cohere": "",
    "jina": "/jina",
    "voyage": "/voyage",
    "vllm-score": "",
    "llamacpp": "/llama",
    "infinity": "/infinity",
}
NAMED = {"cohere", "jina", "voyage", "vllm-score"}


@pytest.fixture
def server():
    with Server() as made:
        yield made
        made.shutdown()


def scorer_of(server, dialect="tei", **options):
    if dialect in NAMED:
        options.setdefault("model", "ranker")
    return RemoteScorer(f"{server.url}{WHERE[dialect]}", dialect=dialect, **options)


def pairs_of(count, *, seed=0):
    logits = [round(random.Random(seed).uniform(-6, 6), 4) for _ in range(count)]
    random.Random(seed + 1).shuffle(logits)
    return logits, [("q?", Passage(str(i), f"score {x}")) for i, x in enumerate(logits)]


@pytest.mark.parametrize("dialect", WHERE)
def test_every_score_comes_back_to_its_pair(server, dialect):
    logits, pairs = pairs_of(50)
    pairs[7] = ("another?", pairs[7][1])
    scores = scorer_of(server, dialect).score(pairs)
    assert [s.has_answer for s in scores] == pytest.approx([share(x) for x in logits], abs=1e-6)
    assert [s.has_answer_logit for s in scores] == pytest.approx(logits, abs=1e-3)
    assert {s.llm_prefer for s in scores} == {None}


def test_five_thousand_documents_are_split_and_none_is_lost(server):
    logits, pairs = pairs_of(5000)
    scorer = pickle.loads(pickle.dumps(scorer_of(server, concurrency=4)))  # has no connections
    scores = scorer.score(pairs)
    assert [s.has_answer_logit for s in scores] == logits
    assert max(len(body["texts"]) for _, body in server.seen) == 32
    assert server.busiest <= 4
    # nor is a payload larger than the server reads
    pairs = [("q?", Passage(str(i), f"score {i} " + "word " * 100_000)) for i in range(6)]
    assert [s.has_answer_logit for s in scorer_of(server).score(pairs)] == [0, 1, 2, 3, 4, 5]


def test_a_storm_of_refusals_is_waited_out(server):
    server.storm = 12
    logits, pairs = pairs_of(200)
    scores = scorer_of(server, max_retries=12).score(pairs)
    assert [s.has_answer_logit for s in scores] == logits


@pytest.mark.parametrize("dialect", ["tei", "llamacpp"])
def test_one_bad_document_fails_alone(server, dialect):
    logits, pairs = pairs_of(40)
    bad = "score 1 poison" if dialect == "tei" else "score 1 " + "long " * 2000
    pairs[23] = ("q?", Passage("23", bad))
    scores = scorer_of(server, dialect, max_retries=0).score(pairs)
    assert isinstance(scores.pop(23), PortError)
    del logits[23]
    assert [s.has_answer_logit for s in scores] == logits


def test_a_server_without_a_reranker_is_asked_once(server):
    scores = scorer_of(server, "jina", model="not-a-reranker", max_retries=0).score(pairs_of(9)[1])
    assert all("424" in str(score) and "not a re-ranker" in str(score) for score in scores)
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda data: data[:-9], "not the expected JSON"),
        (lambda data: b"[" * 100_000, "not the expected JSON"),
        (lambda data: b'{"results": []}', "not the expected JSON"),
        (lambda data: json.dumps(json.loads(data)[1:]).encode(), "2 scores for 3"),
        (lambda data: json.dumps([*json.loads(data), {"index": 0, "score": 1}]).encode(), "twice"),
        (lambda data: b'[{"index": 3, "score": 1}]', "index 3"),
        (lambda data: b'[{"index": true, "score": 1}]', "index True"),
        (lambda data: data.replace(b'"score": ', b'"score": NaN, "x": '), "no finite number"),
        (lambda data: data.replace(b'"score": ', b'"score": null, "x": '), "no finite number"),
        (lambda data: data.replace(b'"score": ', b'"score": 1e999, "x": '), "no finite number"),
        (
            lambda data: data.replace(b'"score": ', b'"score": 1' + b"0" * 400 + b', "x": '),
            "finite",
        ),
        (lambda data: data.replace(b"score", b"points"), "no 'score'"),
        (lambda data: b"[" + b" " * (33 << 20) + b"]", "bytes"),
    ],
)
def test_a_malformed_reply_is_an_error_and_never_a_score(server, spoil, told):
    server.spoil = spoil
    scores = scorer_of(server, max_retries=0).score(pairs_of(3)[1])
    assert all(isinstance(score, PortError) and told in str(score) for score in scores)


def test_a_reply_that_drips_ends_at_the_timeout(server):
    server.drip = 0.05
    (score,) = scorer_of(server, timeout=0.3, max_retries=0).score(pairs_of(1)[1])
    assert "within 0.3 s" in str(score)


def test_a_probability_that_is_none_says_what_to_do(server):
    server.spoil = lambda data: data.replace(b'"relevance_score": 0', b'"relevance_score": 3')
    scores = scorer_of(server, "cohere", max_retries=0).score(pairs_of(2)[1])
    assert all("raw=True" in str(score) for score in scores)


def test_the_key_is_sent_and_shown_nowhere(caplog):
    caplog.set_level(logging.DEBUG)
    with Server(KEY) as server:
        right, wrong = (scorer_of(server, api_key=key) for key in (KEY, KEY[::-1]))
        assert right.score(pairs_of(1)[1])[0].has_answer_logit == pairs_of(1)[0][0]
        (refused,) = wrong.score(pairs_of(1)[1])
        server.shutdown()
    told = "".join(traceback.format_exception(refused)) + repr(wrong) + str(refused) + caplog.text
    assert "401" in told
    assert KEY not in told and KEY[::-1] not in told
    with pytest.raises(TypeError, match="holds a key"):
        pickle.dumps(right)


async def test_cancelling_ends_the_requests(server):
    server.drip = 0.2
    task = asyncio.create_task(scorer_of(server).ascore(pairs_of(300)[1]))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.3)
    assert len(server.seen) <= 8  # those that were open


def test_relevant_spans_become_excerpts_in_code_points(server):
    passage = Passage("1", "score 2 🙂 the answer is here", title="Ein Titel 🙂")
    ((excerpt,),) = scorer_of(server, "cohere").excerpts([("q?", passage)])
    assert (excerpt.text, excerpt.score, excerpt.passage) == ("answer", 0.9, passage)
    with pytest.raises(InputError, match="cohere"):
        scorer_of(server, "jina").excerpts([("q?", passage)])


def test_it_serves_where_a_scorer_or_an_evaluator_does(server):
    scorer = scorer_of(server, "infinity", scale=2.0, shift=-1.0)
    shelf = [Passage("a", "score -3 Nothing."), Passage("b", "score 3 All of it.")]
    ports = Ports(retrieve=lambda queries: [shelf for _ in queries])
    kept = run(FitRag(scorer, top_n=1)("q?", ports)).value.excerpts
    assert kept[0].passage.id == "b"
    assert kept[0].labels.has_answer == pytest.approx(share(5.0))
    assert scorer.evaluate([("q?", shelf[1])]) == pytest.approx([2 * share(5.0) - 1])
    fitted = ActionThresholds(upper=0.5, lower=-0.9, model=scorer.name)
    assert run(Crag(scorer, thresholds=fitted)("q?", ports)).value.action == "correct"
    with pytest.raises(ThresholdMismatchError, match="another"):
        Crag(scorer, thresholds=replace(fitted, model="another"))


PASSES = ActionThresholds(upper=0.5, lower=-0.9)
REFUSING = {
    "rerank": lambda scorer, shelf: rerank("q?", shelf, scorer=scorer, top_n=2).traced,
    "compress": lambda scorer, shelf: compress("q?", shelf, scorer=scorer).traced,
    "fitrag": lambda scorer, shelf: run(FitRag(scorer)("q?", offering(shelf))),
    "crag": lambda scorer, shelf: run(Crag(scorer, thresholds=PASSES)("q?", offering(shelf))),
}


def offering(shelf):
    return Ports(retrieve=lambda queries: [shelf for _ in queries])


class Refuses:
    """Refuse one text, as a scorer of one's own may."""

    def score(self, pairs):
        return [
            RefusedError("9000 tokens, at most 512") if "poison" in passage.text else share(3.0)
            for _, passage in pairs
        ]


@pytest.mark.parametrize("way", REFUSING)
@pytest.mark.parametrize(
    ("kind", "text", "why"),
    [
        ("tei", "score 1 poison", "422"),
        ("tei", "score 1 heavy", "413"),
        ("jina", "score 1 heavy", "413"),
        ("cohere", "score 1 poison", "422"),
        (Refuses(), "score 1 poison", "at most 512"),
    ],
)
def test_what_is_refused_is_left_out_with_its_reason(server, way, kind, text, why):
    scorer = scorer_of(server, kind, max_retries=0) if isinstance(kind, str) else kind
    shelf = [Passage("a", "score 3 All."), Passage("b", text), Passage("c", "score 2 Much.")]
    traced = REFUSING[way](scorer, shelf)
    assert {excerpt.passage.id for excerpt in traced.value.excerpts} == {"a", "c"}
    assert any(note.startswith(("1 left out", "passage 2 of 3")) for note in traced.value.notes)
    (line,) = (line for line in traced.explain(dropped=True).splitlines() if "2. b" in line)
    assert "refused" in line and why in traced.value.selection[1].detail
    with pytest.raises(PortError, match=why):  # nothing is left to rank
        _ = REFUSING[way](scorer, shelf[1:2]).value


def test_a_server_that_is_down_is_no_refusal():
    with Server() as server:
        scorer = scorer_of(server, max_retries=0)
        server.shutdown()
    assert all(isinstance(score, PortError) for score in scorer.score(pairs_of(3)[1]))

    class Half:
        def score(self, pairs):
            return [PortError("connection lost"), *(0.5 for _ in pairs[1:])]

    with pytest.raises(PortError, match="connection lost"):
        rerank("q?", ["one", "two"], scorer=Half())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"dialect": "ollama"}, "dialect` must be"),
        ({"dialect": "cohere"}, "model` must be"),
        ({"dialect": "tei", "most": 64}, "most"),
        ({"dialect": "tei", "scale": 0}, "scale"),
        ({"dialect": "tei", "api_key": "a\nb"}, "api_key"),
    ],
)
def test_what_is_not_allowed_is_said_at_the_door(options, told):
    with pytest.raises(InputError, match=told):
        RemoteScorer("http://127.0.0.1:1", **options)


def test_pairs_are_checked_before_anything_is_sent(server):
    with pytest.raises(InputError, match=r"pairs\[1\]"):
        scorer_of(server).score([("q?", Passage("1", "x")), ("q?", "text")])
    with pytest.raises(InputError, match=r"pairs\[0\]\.passage\.text"):
        scorer_of(server).score([("q?", Passage("1", " \n", "a title"))])
    assert not server.seen


@pytest.fixture(scope="module")
def bomb():
    return gzip.compress(b" " * (256 << 20), 1)


@pytest.mark.parametrize(
    ("coding", "told", "most"),
    [
        *((coding, "encoding", 32) for coding in ("gzip, gzip", "zstd", "br", "deflate")),
        ("gzip", "more than its size allows", 128),
    ],
)
def test_a_bomb_is_never_unpacked_or_stopped_while_it_unpacks(server, bomb, coding, told, most):
    packed = bomb if coding == "gzip" else gzip.compress(bomb)
    server.spoil = lambda data: packed
    server.headers = {"Content-Encoding": coding}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (score,) = scorer_of(server, max_retries=0).score(pairs_of(1)[1])
    assert isinstance(score, PortError) and told in str(score)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < most << 10  # kilobytes


def test_of_a_large_error_response_only_the_beginning_is_read(server):
    key = "sk-" + "ab" * 20
    server.fails = 500, {"error": f"{key[:13]} " * 2_000_000}
    began = time.process_time()
    (score,) = scorer_of(server, api_key=key, max_retries=0).score(pairs_of(1)[1])
    assert isinstance(score, PortError) and "500" in str(score) and key[:13] not in str(score)
    assert time.process_time() - began < 5  # minutes before


def test_a_server_that_is_down_gets_no_retries(server):
    server.fails = 500, {"error": "Internal Server Error"}
    scorer = scorer_of(server, max_retries=2)
    scores = scorer.score(pairs_of(1000)[1])  # 32 requests, 8 at a time
    assert all(isinstance(score, PortError) for score in scores)
    assert len(server.seen) <= 32 + 2 * 8
    server.fails = None
    logits, pairs = pairs_of(40)
    assert [s.has_answer_logit for s in scorer.score(pairs)] == logits


def test_a_server_that_rejects_every_document_ends_the_splitting(server):
    pairs = [("q?", Passage(str(i), f"score {i} poison")) for i in range(1000)]
    scores = scorer_of(server, max_retries=0).score(pairs)
    assert all(isinstance(score, PortError) for score in scores)
    assert len(server.seen) <= 32 + 2 * 64


def test_retries_end_at_the_deadline(server):
    server.fails = 429, {"error": "busy"}
    scorer = scorer_of(server, max_retries=50, deadline=1.0)
    (score,) = scorer.score(pairs_of(1)[1])
    assert "deadline of 1 s" in str(score)
