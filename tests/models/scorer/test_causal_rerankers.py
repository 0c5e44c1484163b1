"""Causal rerankers against their published recipes, written anew with transformers alone."""

import json
import math
import pickle

import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedTokenizerFast,
)

from fitrag_integrations import InputError, ModelLoadError, Passage
from fitrag_integrations.models import BiLabelScorer

SPECIAL = ["<bos>", "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|pad|>"]
KINDS = {"qwen3": "qwen3", "bge-gemma": "gemma", "mxbai": "qwen2"}
WORDS = {"qwen3": ("yes", "no"), "bge-gemma": ("Yes",), "mxbai": ("1", "0")}
PAIRS = [
    ("who wrote the score?", Passage("1", "The king wrote the score of a film in Rome.", "film")),
    ("what river", Passage("2", "the Danube is a river " * 12)),
    ("who {document}", Passage("3", "rome\n\n{query} 50%")),
    (
        "in what sea is the Danube?",
        Passage("4", " The Danube ends in the Black Sea. é👩", "Danube"),
    ),
]


def write(folder, kind, *, seed=0, positions=4096, pad=True, head=False, layers=2):
    """Write a decoder of width 32 with a byte-level tokenizer; gives the folder."""
    fast = Tokenizer(models.BPE())
    fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    fast.decoder = decoders.ByteLevel()
    texts = ["yes", "no", "Yes", "No"] * 9 + ["the query and the document is a river or a king"] * 4
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    fast.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=330, initial_alphabet=alphabet, show_progress=False)
    )
    fast.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=fast, eos_token="<|im_end|>", bos_token="<bos>", padding_side="right"
    )
    if pad:
        tokenizer.pad_token = "<|pad|>"
    tokenizer.save_pretrained(folder)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": layers}
    config = AutoConfig.for_model(
        kind,
        vocab_size=len(tokenizer) + 3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=positions,
        initializer_range=0.3,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
        num_labels=1,
        **sizes,
    )
    torch.manual_seed(seed)
    auto = AutoModelForSequenceClassification if head else AutoModelForCausalLM
    auto.from_config(config).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module", params=list(KINDS))
def family(request):
    return request.param


@pytest.fixture(scope="module")
def folder(family, tmp_path_factory):
    return write(tmp_path_factory.mktemp(f"tiny-{family}"), KINDS[family])


def prompt_ids(tokenizer, family, question, passage, instruction=None):
    """Write a prompt as the models' own pages do."""
    ids = lambda text: tokenizer(text, add_special_tokens=False)["input_ids"]  # noqa: E731
    text = f"{passage.title}. {passage.text}" if passage.title else passage.text
    if family == "qwen3":
        task = instruction or (
            "Given a web search query, retrieve relevant passages that answer the query"
        )
        return [
            *ids(
                "<|im_start|>system\nJudge whether the Document meets the requirements based on "
                "the Query and the Instruct provided. Note that the answer can only be "
                '"yes" or "no".<|im_end|>\n<|im_start|>user\n'
            ),
            *ids(f"<Instruct>: {task}\n<Query>: {question}\n<Document>: {text}"),
            *ids("<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"),
        ]
    if family == "bge-gemma":
        task = (
            "Given a query A and a passage B, determine whether the passage contains an answer to "
            "the query by providing a prediction of either 'Yes' or 'No'."
        )
        query, document = ids(f"A: {question}"), ids(f"B: {text}")
        return [tokenizer.bos_token_id, *query, *ids("\n"), *document, *ids("\n"), *ids(task)]
    query = f"query: {question}"
    if instruction:
        query = f"instruction: {instruction}\n{query}"
    task = (
        "You are a search relevance expert who evaluates how well documents match search queries. "
        "For each query-document pair, carefully analyze the semantic relationship between them, "
        "then provide your binary relevance judgment (0 for not relevant, 1 for relevant).\n"
        "Relevance:"
    )
    system = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."
    return [
        *ids(f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n"),
        *ids(query),
        *ids("\n"),
        *ids(f"document: {text}"),
        *ids("\n"),
        *ids(task),
        *ids("<|im_end|>\n<|im_start|>assistant\n"),
    ]


@torch.inference_mode()
def reference(folder, family, pairs, instruction=None):
    """Compute the scores of all pairs in one batch that is padded on the left."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    rows = [prompt_ids(tokenizer, family, q, p, instruction) for q, p in pairs]
    width, pad = max(map(len, rows)), tokenizer.convert_tokens_to_ids("<|pad|>")
    ids = torch.tensor([[pad] * (width - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    logits = model(input_ids=ids, attention_mask=mask).logits[:, -1]
    first, *rest = (logits[:, tokenizer.convert_tokens_to_ids(word)] for word in WORDS[family])
    return (first - rest[0] if rest else first).tolist()


def logits(scorer, pairs):
    return [score.has_answer_logit for score in scorer.score(pairs)]


@pytest.mark.parametrize("batch_tokens", [1, 100_000])
def test_it_equals_the_published_recipe(folder, family, batch_tokens):
    expected = reference(folder, family, PAIRS)
    assert max(expected) - min(expected) > 0.1
    scorer = BiLabelScorer.from_reranker(folder, device="cpu", batch_tokens=batch_tokens)
    assert (scorer.family, scorer.scale) == (family, "tokens")
    assert logits(scorer, PAIRS) == pytest.approx(expected, abs=1e-4)
    (score,) = scorer.score(PAIRS[:1])
    assert score.has_answer == pytest.approx(1 / (1 + math.exp(-expected[0])), abs=1e-5)
    assert score.llm_prefer is None


def test_an_instruction_goes_into_the_prompt(folder, family):
    instruction = "Find the passage on {query} rivers"
    if family == "bge-gemma":
        with pytest.raises(
            InputError, match="instruction` must be none: .* 'bge-gemma' has no place for one"
        ):
            BiLabelScorer.from_reranker(folder, instruction=instruction)
        return
    scorer = BiLabelScorer.from_reranker(folder, instruction=instruction)
    plain = BiLabelScorer.from_reranker(folder)
    expected = reference(folder, family, PAIRS, instruction)
    assert logits(scorer, PAIRS) == pytest.approx(expected, abs=1e-4)
    assert logits(plain, PAIRS) != pytest.approx(expected, abs=1e-2)
    assert scorer.name != plain.name  # thresholds of one do not fit the other
    again = pickle.loads(pickle.dumps(scorer))
    assert logits(again, PAIRS) == pytest.approx(logits(scorer, PAIRS), abs=1e-5)


def test_a_long_passage_is_read_whole_and_beyond_that_in_chunks(folder, family):
    pair = ("what river", Passage("1", "the Danube, a river of the king, " * 40))
    (whole,) = reference(folder, family, [pair])
    scorer = BiLabelScorer.from_reranker(folder, device="cpu")
    assert logits(scorer, [pair]) == pytest.approx([whole], abs=1e-4)
    (chunks,) = BiLabelScorer.from_reranker(folder, max_length=1000)._engine.tokenizer.encode(
        [("q", Passage("1", "a river." * 500))]
    )
    assert len(chunks) > 1
    assert all(len(chunk) <= 1000 for chunk in chunks)
    starts = {tuple(chunk.tokens[0, :8].tolist()) for chunk in chunks}
    ends = {tuple(chunk.tokens[0, -5:].tolist()) for chunk in chunks}
    assert len(starts) == len(ends) == 1  # each has the whole prompt around it
    assert [place for place in chunks[-1].offsets if place][-1] == (3999, 4000)  # nothing is cut


def test_a_question_may_fill_a_quarter_of_the_input(folder, family):
    pair = (" ".join(f"danube{n}" for n in range(90)), Passage("1", "the Danube"))
    scorer = BiLabelScorer.from_reranker(folder, device="cpu")
    assert scorer._engine.tokenizer.question_tokens == 1024
    expected = reference(folder, family, [pair])
    assert logits(scorer, [pair]) == pytest.approx(expected, abs=1e-4)


def test_lengths_that_cannot_be_are_refused(folder):
    with pytest.raises(InputError, match="max_length` must be .*to 4096"):
        BiLabelScorer.from_reranker(folder, max_length=4097)
    with pytest.raises(InputError, match=r"max_length` must be at least \d+: the prompt"):
        BiLabelScorer.from_reranker(folder, max_length=64)


def test_bfloat16_is_near_and_its_words_are_not_rounded(folder, family):
    expected = reference(folder, family, PAIRS)
    half = BiLabelScorer.from_reranker(folder, device="cpu", dtype="bfloat16")
    found = logits(half, PAIRS)
    assert found == pytest.approx(expected, abs=0.5)
    assert all(x != float(torch.tensor(x).bfloat16()) for x in found)


def test_other_language_models_are_refused_unless_a_family_is_named(tmp_path):
    folder = write(tmp_path, "llama")
    with pytest.raises(ModelLoadError, match="LlamaForCausalLM is a language model .* family="):
        BiLabelScorer.from_reranker(folder)
    scorer = BiLabelScorer.from_reranker(folder, family="qwen3")
    assert logits(scorer, PAIRS) == pytest.approx(reference(folder, "qwen3", PAIRS), abs=1e-4)


def test_tokens_that_the_folder_names_are_compared(tmp_path):
    folder = write(tmp_path, "qwen3")
    yes, no, other = AutoTokenizer.from_pretrained(folder).convert_tokens_to_ids(
        ["yes", "no", "Yes"]
    )
    path = tmp_path / "1_LogitScore" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"true_token_id": yes, "false_token_id": no}))
    BiLabelScorer.from_reranker(folder).unload()
    path.write_text(json.dumps({"true_token_id": other, "false_token_id": None}))
    with pytest.raises(ModelLoadError, match="1_LogitScore/config.json names the tokens"):
        BiLabelScorer.from_reranker(folder)


@torch.inference_mode()
def test_a_converted_classifier_takes_the_same_prompt(tmp_path):
    folder = write(tmp_path, "qwen3", head=True)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    expected = [
        model(input_ids=torch.tensor([prompt_ids(tokenizer, "qwen3", q, p)])).logits.item()
        for q, p in PAIRS
    ]
    scorer = BiLabelScorer.from_reranker(folder, family="qwen3")
    assert logits(scorer, PAIRS) == pytest.approx(expected, abs=1e-4)
    assert scorer.scale == "tokens"


@torch.inference_mode()
def test_a_decoder_with_a_classifier_needs_a_padding_token(tmp_path):
    bare = write(tmp_path / "bare", "llama", head=True, pad=False)
    with pytest.raises(ModelLoadError, match="no padding token.*tokenizer_kwargs"):
        BiLabelScorer.from_reranker(bare)
    scorer = BiLabelScorer.from_reranker(bare, tokenizer_kwargs={"pad_token": "<|pad|>"})
    model = AutoModelForSequenceClassification.from_pretrained(bare).eval()
    tokenizer = AutoTokenizer.from_pretrained(bare)
    titled = [(q, p) for q, p in PAIRS if p.title]
    rows = [
        tokenizer(q)["input_ids"] + tokenizer(f"{p.title}. {p.text}")["input_ids"]
        for q, p in titled
    ]
    expected = [model(input_ids=torch.tensor([row])).logits.item() for row in rows]
    assert logits(scorer, titled) == pytest.approx(expected, abs=1e-4)


def test_a_device_map_places_the_model(folder, family):
    pytest.importorskip("accelerate")
    scorer = BiLabelScorer.from_reranker(folder, device="cpu", model_kwargs={"device_map": "cpu"})
    expected = reference(folder, family, PAIRS)
    assert logits(scorer, PAIRS) == pytest.approx(expected, abs=1e-4)
