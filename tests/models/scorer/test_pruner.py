"""OpenProvence folders against their own arithmetic, written anew with transformers alone."""

import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import write_bert, write_pruner

from fitrag_integrations import InputError, ModelLoadError, Passage
from fitrag_integrations.flow import run
from fitrag_integrations.methods import FitRag
from fitrag_integrations.models import BiLabelScorer, OnePassScorer
from fitrag_integrations.ports import Ports

TEXT = "The danube is a river. It ends in the black sea. Who wrote the score of a film in rome?"
SPANS = [(0, 22), (23, 48), (49, len(TEXT))]
ITEMS = [
    ("what river", Passage("1", TEXT), SPANS),
    ("who", Passage("2", "rome", "the city"), [(0, 4)]),
    ("who wrote the score", Passage("1", TEXT), SPANS[2:]),
]


@pytest.fixture(scope="module", params=["modernbert", "bert", "deberta-v2"])
def folder(request, tmp_path_factory):
    return write_pruner(tmp_path_factory.mktemp(f"pruner-{request.param}"), request.param)


@pytest.fixture(scope="module")
def modern(tmp_path_factory):
    return write_pruner(tmp_path_factory.mktemp("pruner"))


@torch.inference_mode()
def plainly(folder, item, *, before_norm=True):
    """Compute the ranking logit of one pair, and the mean keep probability of its spans."""
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

    fields = json.loads(Path(folder, "config.json").read_text())
    base = dict(fields["base_model_config"])
    config = AutoConfig.for_model(base.pop("model_type"), **base)
    config.tie_last_hidden_states = not before_norm
    model = AutoModelForSequenceClassification.from_config(config).eval()
    state = load_file(f"{folder}/model.safetensors")
    weight, bias = (state.pop(f"pruning_head.classifier.{name}") for name in ("weight", "bias"))
    model.load_state_dict({name.removeprefix("ranking_model."): t for name, t in state.items()})
    tokenizer = AutoTokenizer.from_pretrained(folder)
    question, passage, spans = item
    title = f"{passage.title}. " if passage.title else ""
    pieces = tokenizer(title + passage.text, add_special_tokens=False, return_offsets_mapping=True)
    asked = tokenizer(question, add_special_tokens=False)["input_ids"]
    start, end = [tokenizer.cls_token_id], [tokenizer.sep_token_id]
    ids = start + asked + end + pieces["input_ids"] + end
    types = [0] * (len(asked) + 2) + [1] * (len(pieces["input_ids"]) + 1)
    given = {"input_ids": torch.tensor([ids])}
    if getattr(config, "type_vocab_size", 0) > 1:
        given["token_type_ids"] = torch.tensor([types])
    out = model(**given, output_hidden_states=True)
    keep = torch.nn.functional.linear(out.hidden_states[-1][0], weight, bias).softmax(-1)[:, 1]
    found = []
    for a, b in spans:
        inside = [
            len(asked) + 2 + n
            for n, (begin, until) in enumerate(pieces["offset_mapping"])
            if a < until - len(title) and begin - len(title) < b
        ]
        found.append(keep[inside].mean().item())
    return out.logits.item(), found


def numbers(judged):
    """Return the logits of passages and spans in one list."""
    return [score.has_answer_logit for whole, spans in judged for score in (whole, *spans)]


@pytest.mark.parametrize("batch_tokens", [1, 100_000])
def test_it_equals_the_published_arithmetic(folder, batch_tokens):
    scorer = OnePassScorer.from_pruner(folder, device="cpu", batch_tokens=batch_tokens)
    judged = scorer.score_sentences(ITEMS)
    for (whole, spans), item in zip(judged, ITEMS, strict=True):
        logit, expected = plainly(folder, item)
        assert whole.has_answer_logit == pytest.approx(logit, abs=1e-5)
        assert whole.has_answer == pytest.approx(1 / (1 + math.exp(-logit)), abs=1e-5)
        assert [span.has_answer for span in spans] == pytest.approx(expected, abs=1e-5)
        assert {whole.llm_prefer, *(span.llm_prefer for span in spans)} == {None}
    pairs = [(question, passage) for question, passage, _ in ITEMS]
    wholes = [whole.has_answer_logit for whole, _ in judged]
    assert [s.has_answer_logit for s in scorer.score(pairs)] == pytest.approx(wholes, abs=1e-5)


def test_states_are_those_the_head_was_trained_on(modern, tmp_path):
    """Until transformers 5 the last of `hidden_states` was not normalized."""
    _, early = plainly(modern, ITEMS[0])
    _, late = plainly(modern, ITEMS[0], before_norm=False)
    assert early != pytest.approx(late, abs=1e-3)
    new = write_pruner(tmp_path, transformers_version="5.2.0")
    for folder, expected in ((modern, early), (new, late)):
        ((_, spans),) = OnePassScorer.from_pruner(folder).score_sentences(ITEMS[:1])
        assert [span.has_answer for span in spans] == pytest.approx(expected, abs=1e-5)


def test_older_folders_name_the_classifier_without_a_prefix(modern, tmp_path):
    old = write_pruner(tmp_path, legacy=True)
    expected = numbers(OnePassScorer.from_pruner(modern).score_sentences(ITEMS))
    found = numbers(OnePassScorer.from_pruner(old).score_sentences(ITEMS))
    assert found == pytest.approx(expected, abs=1e-5)


def test_a_long_passage_is_read_in_chunks(tmp_path):
    folder = write_pruner(tmp_path, positions=200)
    sentence = "the danube is a river of the black sea. "
    spans = [(40 * n, 40 * n + 39) for n in range(60)]
    scorer = OnePassScorer.from_pruner(folder)
    ((whole, found),) = scorer.score_sentences([("what river", Passage("1", sentence * 60), spans)])
    assert len(found) == 60
    assert all(0 < span.has_answer < 1 for span in found)
    (chunks,) = scorer._engine.tokenizer.encode([("what river", Passage("1", sentence * 60))])
    assert max(map(len, chunks)) <= 200
    logits = []
    for chunk in chunks:
        places = [place for place in chunk.offsets if place]
        text = (sentence * 60)[places[0][0] : places[-1][1]]
        logits.append(plainly(folder, ("what river", Passage("1", text), []))[0])
    assert whole.has_answer_logit == pytest.approx(max(logits), abs=1e-5)
    with pytest.raises(InputError, match="`max_length` .* to 200, the positions"):
        OnePassScorer.from_pruner(folder, max_length=201)


def test_the_folders_threshold_is_the_reducers(modern, tmp_path):
    scorer = OnePassScorer.from_pruner(modern)
    assert scorer.sentence_threshold == 0.25
    assert "sentence_threshold=0.25" in repr(scorer)
    plain = write_pruner(tmp_path, default_threadshold=None)
    assert OnePassScorer.from_pruner(plain).sentence_threshold == 0.1
    ((_, spans),) = scorer.score_sentences(ITEMS[:1])
    sure = sorted(span.has_answer for span in spans)
    cut = (sure[0] + sure[1]) / 2
    ports = Ports(lambda queries: [[Passage("1", TEXT)] for _ in queries])
    scorer = OnePassScorer.from_pruner(modern, threshold=cut)
    context = run(FitRag(scorer, max_share=1.0)("what river", ports)).value
    worst = spans.index(min(spans, key=lambda span: span.has_answer))
    kept = " ".join(excerpt.text for excerpt in context.excerpts)
    for n, (a, b) in enumerate(SPANS):
        assert (TEXT[a:b] in kept) is (n != worst)
    all_kept = FitRag(scorer, max_share=1.0, min_score=0.0)
    assert TEXT in run(all_kept("what river", ports)).value.excerpts[0].text
    with pytest.raises(InputError, match="threshold"):
        OnePassScorer.from_pruner(modern, threshold=1.5)


def test_it_is_not_saved(modern, tmp_path):
    with pytest.raises(TypeError, match="from_pruner"):
        OnePassScorer.from_pruner(modern, temperature=2.0).save_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"model_type": "xprovence"}, "model_type is 'xprovence', not 'open_provence'; other"),
        ({"base_model_config": None}, "must have base_model_config"),
        ({"num_pruning_labels": 3}, "two pruning labels"),
        ({"pruning_config": {"use_weighted_pooling": True}}, "without weighted pooling"),
        ({"base_model_config": {"model_type": "nothing"}}, "base_model_config is not usable"),
        (
            {"base_model_config": {"model_type": "bert", "auto_map": {"AutoModel": "evil.Evil"}}},
            "base_model_config is not usable: it brings code",
        ),
    ],
)
def test_other_folders_are_refused(fields, said, tmp_path):
    with pytest.raises(ModelLoadError, match=said):
        OnePassScorer.from_pruner(write_pruner(tmp_path, **fields))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("pruning_head.classifier.bias", None, "of the shapes .*None"),
        ("pruning_head.classifier.weight", torch.zeros(3, 32), r"of the shapes \[\(3, 32\)"),
        ("pruning_head.classifier.weight", torch.full((2, 32), math.nan), "holds NaN"),
        ("ranking_model.classifier.weight", None, r"lack classifier\.weight"),
        ("ranking_model.other", torch.zeros(1), "hold other, which"),
    ],
)
def test_weights_that_do_not_fit_are_named(name, value, said, tmp_path):
    folder = write_pruner(tmp_path)
    state = load_file(tmp_path / "model.safetensors")
    state.pop(name, None)
    save_file(state | ({} if value is None else {name: value}), tmp_path / "model.safetensors")
    with pytest.raises(ModelLoadError, match=said):
        OnePassScorer.from_pruner(folder)


def test_a_missing_folder_or_another_kind_says_what_to_do(tmp_path):
    with pytest.raises(ModelLoadError, match=r"config\.json is not readable"):
        OnePassScorer.from_pruner(tmp_path / "nothing")
    write_bert(tmp_path)
    with pytest.raises(ModelLoadError, match="'bert', not 'open_provence'.* from_reranker"):
        OnePassScorer.from_pruner(tmp_path)
    with pytest.raises(ModelLoadError):
        BiLabelScorer.from_reranker(write_pruner(tmp_path / "pruner"))
