"""Published rerankers as scorers: equal to a plain loop, and nothing that they do not know."""

import math
import shutil
from dataclasses import replace

import pytest
import torch
from tiny import (
    LETTERS,
    MARKS,
    PAIRS,
    SIZES,
    T5_SIZES,
    WORDS,
    write_bert,
    write_cross_encoder,
    write_t5_classifier,
)
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertForSequenceClassification,
    T5Config,
    T5ForConditionalGeneration,
    T5TokenizerFast,
)

from fitrag_integrations import InputError, ModelLoadError, Passage
from fitrag_integrations.flow import run
from fitrag_integrations.methods.fitrag.functional import rerank
from fitrag_integrations.methods.fitrag.options import score_port
from fitrag_integrations.models import BiLabelScorer
from fitrag_integrations.models.encoder.encoders import load_base
from fitrag_integrations.ports import scorer_as_evaluator, scorer_of
from fitrag_integrations.values.score import labels_of

LONG = (
    "what river",
    Passage("2", "the danube in the black sea" + " of the king" * 400),
)  # of whole words


def write_monot5(folder, *, words=("true", "false")):
    """Write a whole T5 whose tokenizer knows the words it is to answer with."""
    special = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -4.0)]
    known = (*WORDS, "Query", "Document", "Relevant", *words)
    pieces = [(f"▁{word}", -2.0) for word in known if len(word) > 1]
    pieces += [(letter, -6.0) for letter in (*LETTERS, *LETTERS[:26].upper(), *MARKS, ":")]
    T5TokenizerFast(vocab=special + pieces, extra_ids=0).save_pretrained(folder)
    torch.manual_seed(0)
    size = len(special + pieces) + 28  # as published ones: more rows than the tokenizer has tokens
    config = T5Config(vocab_size=size, decoder_start_token_id=0, **T5_SIZES)
    model = T5ForConditionalGeneration(config)
    model.lm_head.weight.data *= 3
    model.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def monot5(tmp_path_factory):
    return write_monot5(tmp_path_factory.mktemp("tiny-monot5"))


@pytest.fixture(scope="module")
def cross(tmp_path_factory):
    return write_cross_encoder(tmp_path_factory.mktemp("tiny-cross"))


@pytest.fixture(scope="module", params=["monot5", "cross"])
def folder(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def ready(folder):
    made = BiLabelScorer.from_reranker(folder, device="cpu")
    yield made
    made.unload()


def titled(passage):
    return f"{passage.title}. {passage.text}" if passage.title else passage.text


def inputs_of(folder, question, passage):
    """Tokenize a pair as the checkpoints' own pages tell to."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if "monot5" in folder:
        text = f"Query: {question} Document: {titled(passage)} Relevant:"
        return {**tokenizer(text, return_tensors="pt"), "decoder_input_ids": torch.tensor([[0]])}
    return tokenizer(question, titled(passage), return_tensors="pt")


def answer_ids(folder):
    vocabulary = AutoTokenizer.from_pretrained(folder).get_vocab()
    return [vocabulary["▁true"], vocabulary["▁false"]]


@torch.inference_mode()
def plainly(folder, pairs):
    """Compute has_answer one pair at a time."""
    kind = T5ForConditionalGeneration if "monot5" in folder else BertForSequenceClassification
    model, found = kind.from_pretrained(folder).eval(), []
    for pair in pairs:
        logits = model(**inputs_of(folder, *pair)).logits
        if "monot5" in folder:
            found.append(logits[0, 0, answer_ids(folder)].softmax(0)[0].item())
        else:
            found.append(logits.sigmoid().item())
    return found


SHORT = [pair for pair in PAIRS if pair is not PAIRS[1]]


def test_it_equals_a_plain_loop(folder, ready):
    expected = plainly(folder, SHORT)
    assert max(expected) - min(expected) > 0.01  # they differ, so that an order can be wrong
    assert [s.has_answer for s in ready.score(SHORT)] == pytest.approx(expected, abs=1e-5)


def test_batches_are_padded_to_their_longest_only(folder, monkeypatch):
    ready = BiLabelScorer.from_reranker(folder, device="cpu", batch_tokens=100_000)
    widths = []
    inner = ready._engine.trunk.forward
    seen = lambda ids, mask, types: widths.append(ids.shape) or inner(ids, mask, types)  # noqa: E731
    monkeypatch.setattr(ready._engine.trunk, "forward", seen)
    ready.score(SHORT * 3)
    longest = max(len(c[0]) for c in ready._engine.tokenizer.encode(SHORT))
    assert widths == [(len(SHORT), longest)]  # equal pairs are read once
    assert longest < 512


def test_a_long_passage_takes_its_best_chunk(folder, ready):
    question, passage = LONG
    (chunks,) = ready._engine.tokenizer.encode([LONG])
    assert len(chunks) > 1
    assert all(len(chunk) <= 512 for chunk in chunks)
    spans = [[span for span in chunk.offsets if span] for chunk in chunks]
    assert spans[-1][-1][1] == len(passage.text)  # nothing is cut off
    parts = [passage.text[s[0][0] : s[-1][1]] for s in spans]
    expected = max(plainly(folder, [(question, Passage("", part)) for part in parts]))
    assert ready.score([LONG])[0].has_answer == pytest.approx(expected, abs=1e-5)


def write_long(folder, kind, *, positions=1026):
    """Write a ModernBERT or an XLM-R classifier with more than 512 positions."""
    write_bert(folder)
    config = AutoConfig.for_model(
        kind,
        vocab_size=len(AutoTokenizer.from_pretrained(folder)),
        **SIZES,
        num_attention_heads=4,
        max_position_embeddings=positions,
        type_vocab_size=1,
        pad_token_id=0 if kind == "modernbert" else 1,
        num_labels=1,
        initializer_range=0.3,
    )
    torch.manual_seed(0)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    return str(folder)


@torch.inference_mode()
@pytest.mark.parametrize(("kind", "longest"), [("modernbert", 1026), ("xlm-roberta", 1024)])
def test_an_input_is_as_long_as_the_positions_allow(kind, longest, tmp_path):
    folder = write_long(tmp_path, kind)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    question, passage = "what river", Passage("2", "the danube in the black sea " * 160)
    given = tokenizer(question, passage.text, return_tensors="pt", return_token_type_ids=False)
    assert 512 < given["input_ids"].shape[1] <= longest
    scorer = BiLabelScorer.from_reranker(folder, device="cpu")
    (score,) = scorer.score([(question, passage)])
    assert score.has_answer_logit == pytest.approx(model(**given).logits.item(), abs=1e-4)
    assert scorer._engine.tokenizer.max_length == longest
    short = BiLabelScorer.from_reranker(folder, device="cpu", max_length=256)
    (chunks,) = short._engine.tokenizer.encode([(question, passage)])
    assert len(chunks) > 3
    assert max(map(len, chunks)) <= 256
    with pytest.raises(InputError, match=f"`max_length` .* to {longest}, the positions"):
        BiLabelScorer.from_reranker(folder, max_length=longest + 1)
    small = BiLabelScorer.from_reranker(folder, tokenizer_kwargs={"model_max_length": 300})
    assert small._engine.tokenizer.max_length == 300


def test_segments_are_passed_only_where_the_tokenizer_returns_them(cross, tmp_path):
    folder = tmp_path / "without"
    shutil.copytree(cross, folder)
    names = ["input_ids", "attention_mask"]
    AutoTokenizer.from_pretrained(cross, model_input_names=names).save_pretrained(folder)
    scorer = BiLabelScorer.from_reranker(str(folder), device="cpu")
    found = [score.has_answer for score in scorer.score(SHORT)]
    scorer.unload()
    assert found == pytest.approx(plainly(str(folder), SHORT), abs=1e-5)
    assert found != pytest.approx(plainly(cross, SHORT), abs=1e-3)


def test_llm_prefer_is_not_there_and_it_says_so(ready):
    score = ready.score(SHORT[:1])[0]
    assert score.llm_prefer is None
    assert score.llm_prefer_logit is None
    assert score.combine(0.5) == score.combine(1.0) == 2 * score.has_answer
    assert score.has_answer == pytest.approx(1 / (1 + math.exp(-score.has_answer_logit)))
    assert "llm_prefer=None" in repr(ready)
    assert f"scale={ready.scale!r}" in repr(ready)


def test_it_serves_where_a_scorer_does(ready):
    passages = [passage for _, passage in SHORT]
    kept = rerank("who wrote the score", passages, scorer=ready, top_n=2)
    scores = ready.score([("who wrote the score", passage) for passage in passages])
    best = sorted(range(len(passages)), key=lambda i: -scores[i].has_answer)[:2]
    assert [excerpt.passage for excerpt in kept] == [passages[i] for i in best]
    grades = run(scorer_as_evaluator(ready).ask(SHORT)).value
    assert grades == pytest.approx([2 * s.has_answer - 1 for s in ready.score(SHORT)])


def test_each_architecture_has_its_scale(monot5, cross):
    assert BiLabelScorer.from_reranker(monot5).scale == "tokens"
    assert BiLabelScorer.from_reranker(cross).scale == "logit"
    for folder, options, error, told in (
        (cross, {"scale": "tokens"}, InputError, "scale` must be .*for a bert"),
        (cross, {"scale": "cosine"}, InputError, "scale` must be"),
        (cross, {"family": "colbert"}, InputError, "family` must be one of monot5, qwen3, "),
        (cross, {"temperature": 0}, InputError, "temperature"),
        (monot5, {"scale": "logit"}, InputError, "scale` must be .*for a t5"),
        (monot5, {"family": "classifier"}, ModelLoadError, "a t5 checkpoint of"),
    ):
        with pytest.raises(error, match=told):
            BiLabelScorer.from_reranker(folder, **options)


def test_a_temperature_divides_the_logit(cross):
    plain = BiLabelScorer.from_reranker(cross).score(SHORT)
    cool = BiLabelScorer.from_reranker(cross, temperature=4.0).score(SHORT)
    for one, other in zip(plain, cool, strict=True):
        assert other.has_answer_logit == pytest.approx(one.has_answer_logit / 4)


def test_probabilities_are_taken_as_they_are_and_checked(cross):
    made = BiLabelScorer.from_reranker(cross, scale="probability")
    model = made._engine.trunk.encoder
    model.classifier.weight.data.zero_()
    for bias, expected in ((0.25, 0.25), (1.0, 1.0), (0.0, 0.0)):
        model.classifier.bias.data.fill_(bias)
        assert made.score(SHORT[:1])[0].has_answer == pytest.approx(expected, abs=1e-6)
    model.classifier.bias.data.fill_(7.0)
    with pytest.raises(InputError, match="scale` must be"):
        made.score(SHORT[:1])


def test_other_shapes_are_refused(bert, t5, tmp_path):
    two = write_cross_encoder(tmp_path / "two", labels=2)
    with pytest.raises(ModelLoadError, match="of 2 outputs"):
        BiLabelScorer.from_reranker(two)
    with pytest.raises(ModelLoadError, match="a t5 checkpoint of 1 outputs"):
        BiLabelScorer.from_reranker(write_t5_classifier(tmp_path / "grader"))
    with pytest.raises(ModelLoadError):  # an encoder alone: its classifier would be random
        BiLabelScorer.from_reranker(bert)
    with pytest.raises(ModelLoadError):
        BiLabelScorer.from_reranker(t5)
    with pytest.raises(ModelLoadError, match=r"config\.json is missing"):
        BiLabelScorer.from_reranker(tmp_path / "nothing")
    for word in ("true", "false"):  # the other one is no token
        with pytest.raises(ModelLoadError, match="must be one token of its vocabulary"):
            BiLabelScorer.from_reranker(write_monot5(tmp_path / word, words=(word,)))


def test_outputs_that_are_no_numbers_are_not_scores(cross):
    made = BiLabelScorer.from_reranker(cross)
    made._engine.trunk.encoder.classifier.bias.data.fill_(math.nan)
    with pytest.raises(ModelLoadError, match="not finite in torch.float32"):
        made.score(SHORT[:1])


def test_it_is_not_saved(ready, tmp_path):
    with pytest.raises(TypeError, match="train bilabel --base"):
        ready.save_pretrained(tmp_path)


def test_training_starts_from_its_encoder(folder):
    trunk, _ = load_base(folder)
    ready = BiLabelScorer.from_reranker(folder)
    whole = dict(ready._engine.trunk.encoder.named_parameters())
    for name, parameter in trunk.encoder.named_parameters():
        (twin,) = [p for n, p in whole.items() if n in (name, f"bert.{name}")]
        assert torch.equal(twin, parameter), name


@torch.inference_mode()
def test_bfloat16_rounds_the_states_and_not_the_output(folder):
    """The output is that of a head in float32 on states in bfloat16, digit for digit."""
    scorer = BiLabelScorer.from_reranker(folder, device="cpu", dtype="bfloat16")
    if "monot5" in folder:
        model = T5ForConditionalGeneration.from_pretrained(folder).eval()
        yes, no = model.lm_head.weight[answer_ids(folder)].clone()
        weight, bias = (yes - no)[None], None
        model.bfloat16().lm_head = torch.nn.Identity()
    else:
        model = BertForSequenceClassification.from_pretrained(folder).eval()
        weight, bias = model.classifier.weight.clone(), model.classifier.bias.clone()
        model = model.bfloat16().bert
    for pair in SHORT:
        (found,) = scorer.score([pair])
        out = model(**inputs_of(folder, *pair))
        states = out.logits[0, 0] if bias is None else out.pooler_output[0]
        expected = torch.nn.functional.linear(states.float(), weight, bias).item()
        assert found.has_answer == pytest.approx(1 / (1 + math.exp(-expected)), abs=1e-5)


def test_a_cross_encoder_of_sentence_transformers_is_a_scorer(cross):
    CrossEncoder = pytest.importorskip("sentence_transformers").CrossEncoder
    model = CrossEncoder(cross, device="cpu", activation_fn=torch.nn.Identity())  # of logits
    found = run(score_port(model).ask(SHORT)).value
    bare = [(asked, replace(passage, title="")) for asked, passage in SHORT]
    expected = plainly(cross, bare)
    assert [label.has_answer for label in labels_of(found)] == pytest.approx(expected, abs=1e-5)
    assert scorer_of(model).name == type(model).__name__
