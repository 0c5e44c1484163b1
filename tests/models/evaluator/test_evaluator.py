"""The retrieval evaluator over its two kinds of weights: numbers, batches, names, thresholds."""

import asyncio
import pickle

import pytest
import torch
from tiny import PAIRS, WORDS, make_evaluator, make_scorer, write_bert, write_t5_classifier

from fitrag_integrations import Passage
from fitrag_integrations.errors import InputError, ModelLoadError, ThresholdMismatchError
from fitrag_integrations.flow import arun, run
from fitrag_integrations.methods.crag.evaluator import PRESETS, ActionThresholds
from fitrag_integrations.models import RetrievalEvaluator
from fitrag_integrations.ports import scorer_as_evaluator
from fitrag_integrations.types import BiLabelScore

OURS = ActionThresholds(0.5, -0.5, -0.2, "tiny")


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return write_t5_classifier(tmp_path_factory.mktemp("tiny-t5-classifier"))


@pytest.fixture(scope="module")
def published(classifier):
    """Load a checkpoint as the paper's is: T5 with one output."""
    made = RetrievalEvaluator.from_pretrained(classifier, device="cpu")
    yield made
    made.unload()


def plain_loop(folder, texts):
    """Grade one text after the other, without padding or batches."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        return [float(model(**tokenizer(text, return_tensors="pt")).logits) for text in texts]


def many(count=40):
    """Make pairs of very different lengths, all of them shorter than the model's input."""
    words = [WORDS[i % len(WORDS)] for i in range(200)]
    return [
        (f"who wrote the {WORDS[i % 5]}", Passage("", " ".join(words[: 3 + 4 * i]), WORDS[i % 7]))
        for i in range(count)
    ]


@pytest.mark.parametrize("form", ["plain", "titled"])
def test_a_published_classifier_equals_a_plain_loop(classifier, form):
    evaluator = RetrievalEvaluator.from_pretrained(classifier, device="cpu", input_format=form)
    front = {"plain": "", "titled": "{} // "}[form]
    texts = [f"{q} [SEP] {front.format(p.title)}{p.text}" for q, p in many()]
    outputs = plain_loop(classifier, texts)
    expected = [max(-1.0, min(1.0, output)) for output in outputs]
    assert evaluator.evaluate(many()) == pytest.approx(expected, abs=1e-5)
    assert len({round(output, 3) for output in outputs}) > 20  # the outputs do tell texts apart
    assert min(map(abs, outputs)) < 1 < max(map(abs, outputs))
    (grade,) = evaluator.evaluate([("who", Passage("", "the king"))])  # no title to announce
    assert grade == pytest.approx(plain_loop(classifier, ["who [SEP] the king"])[0], abs=1e-5)


def test_marks_of_the_model_in_a_passage_are_plain_text(published):
    """T5 refuses a batch whose rows hold different numbers of end marks."""
    pairs = [("who</s>", Passage("", "king</s> of <pad> rome </s>")), ("who", Passage("", "rome"))]
    pairs += [("who \ud800", Passage("", "half a pair \udc00 of surrogates"))]
    assert all(-1 <= grade <= 1 for grade in published.evaluate(pairs))


def test_a_long_passage_takes_its_best_chunk(published):
    words = " ".join(WORDS[i % 11] for i in range(1200))
    pair = ("who wrote the score", Passage("", words + " the king wrote the score"))
    chunks = published._grader._encoded(*pair)
    assert len(chunks) > 2 and all(len(chunk) <= 512 for chunk in chunks)
    spoken = published._grader._tokenizer.decode(chunks[-1])
    assert "who wrote the score" in spoken and "the king wrote the score" in spoken
    best = max(published._grader._outputs(chunks))
    assert published.evaluate([pair])[0] == pytest.approx(best, abs=1e-5)


def test_a_question_as_long_as_the_input_is_refused(published):
    with pytest.raises(InputError, match="question` must be a question that leaves room"):
        published.evaluate([("who " * 600, Passage("", "the king"))])


def test_what_is_no_evaluator_and_an_unknown_format_are_refused(classifier, bert, tmp_path):
    several = write_t5_classifier(tmp_path / "several", labels=3)
    make_evaluator(bert).save_pretrained(tmp_path / "ours")
    for folder, options, error, told in (
        (several, {}, ModelLoadError, "has 3 outputs; an evaluator has one"),
        (tmp_path, {}, ModelLoadError, "config.json is missing"),
        (classifier, {"input_format": "bare"}, InputError, "input_format` must be"),
        (tmp_path / "ours", {"input_format": "plain"}, InputError, "an input of its own"),
    ):
        with pytest.raises(error, match=told):
            RetrievalEvaluator.from_pretrained(folder, **options)


def test_a_published_classifier_is_saved_with_thresholds_and_format(classifier, tmp_path):
    made = RetrievalEvaluator.from_pretrained(classifier, input_format="titled", name="tiny")
    made.thresholds = OURS
    made.save_pretrained(tmp_path)
    again = RetrievalEvaluator.from_pretrained(tmp_path, device="cpu")
    assert (again.name, again.thresholds) == ("tiny", OURS)
    assert again.evaluate(PAIRS[:1] + PAIRS[3:]) == pytest.approx(
        made.evaluate(PAIRS[:1] + PAIRS[3:]), abs=1e-6
    )
    assert again._grader.input_format == "titled"


def test_the_papers_presets_belong_to_whoever_is_named_so(classifier, published):
    preset = PRESETS["popqa"]
    with pytest.raises(ThresholdMismatchError, match="Mindie.CRAG-Evaluator"):
        published.thresholds = preset
    assert published.thresholds is None
    made = RetrievalEvaluator.from_pretrained(classifier, name=preset.model, device="cpu")
    made.thresholds = preset
    assert made.thresholds is preset


def test_a_saved_head_is_the_same_head(base, tmp_path):
    made = make_evaluator(base, name="tiny", thresholds=OURS)
    made.save_pretrained(tmp_path / "once")
    again = RetrievalEvaluator.from_pretrained(tmp_path / "once", device="cpu")
    assert again.evaluate(PAIRS) == pytest.approx(made.evaluate(PAIRS), abs=1e-5)
    assert (again.name, again.thresholds) == ("tiny", OURS)
    # another name leaves fitted thresholds behind
    assert RetrievalEvaluator.from_pretrained(tmp_path / "once", name="other").thresholds is None
    again.save_pretrained(tmp_path / "twice")
    for file in ("head.safetensors", "model.json"):
        assert (tmp_path / "once" / file).read_bytes() == (tmp_path / "twice" / file).read_bytes()


def test_our_head_reads_the_title(bert):
    made = make_evaluator(bert)
    text = "it is a river."
    same, other, none = made.evaluate(
        [("where is the danube", Passage("", text, title)) for title in ("danube", "rome", "")]
    )
    assert len({same, other, none}) == 3


def test_a_scorer_seen_as_an_evaluator(bert):
    scorer = make_scorer(bert)
    expected = [2 * score.has_answer - 1 for score in scorer.score(PAIRS)]
    graded = scorer_as_evaluator(scorer)
    assert run(graded.ask(PAIRS)).value == pytest.approx(expected, abs=1e-6)
    assert asyncio.run(arun(graded.ask(PAIRS))).value == pytest.approx(expected, abs=1e-6)


class Plain:
    """A scorer without an async twin and without the second label."""

    def score(self, pairs):
        return [BiLabelScore(0.75) for _ in pairs]


def test_a_plain_scorer_will_do():
    graded = pickle.loads(pickle.dumps(scorer_as_evaluator(Plain()).call))
    assert graded(PAIRS[:2]) == [0.5, 0.5]
    assert asyncio.run(arun(scorer_as_evaluator(Plain()).ask(PAIRS[:2]))).value == [0.5, 0.5]


def test_a_bert_classifier_will_do(tmp_path):
    from transformers import BertConfig, BertForSequenceClassification

    folder = write_bert(tmp_path)
    config = BertConfig.from_pretrained(folder, num_labels=1, initializer_range=0.05)
    BertForSequenceClassification(config).save_pretrained(folder)
    pairs = [("who wrote it", Passage("", "the king of rome")), ("who", Passage("", "a city"))]
    outputs = plain_loop(folder, [f"{q} [SEP] {p.text}" for q, p in pairs])
    expected = [max(-1.0, min(1.0, output)) for output in outputs]
    grades = RetrievalEvaluator.from_pretrained(folder, device="cpu").evaluate(pairs)
    assert grades == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16])
def test_grades_near_minus_one_are_told_apart_in_bfloat16(tmp_path, stored):
    """The paper's cut is at -0.99, where bfloat16 itself has steps of 0.004."""
    from transformers import AutoModelForSequenceClassification

    folder = write_t5_classifier(tmp_path)
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():
        model.classification_head.out_proj.weight *= 0.002
        model.classification_head.out_proj.bias.fill_(-0.992)
    model.to(stored).save_pretrained(folder)
    grades = {}
    for dtype in ("float32", "bfloat16"):
        evaluator = RetrievalEvaluator.from_pretrained(folder, device="cpu", dtype=dtype)
        grades[dtype] = evaluator.evaluate(many())
        evaluator.unload()
    assert all(-1 < grade < -0.98 for grade in grades["float32"])
    assert len(set(grades["bfloat16"])) > 30
    assert grades["bfloat16"] == pytest.approx(grades["float32"], abs=5e-4)
