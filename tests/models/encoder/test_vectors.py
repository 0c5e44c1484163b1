"""Encoders with prompts, last-token pooling and dense layers, beside arithmetic by hand."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tiny import write_bert
from tiny_causal import write_llama
from torch.nn import functional as F
from transformers import AutoModel, AutoTokenizer

from fitrag_integrations import InputError, ModelLoadError, Passage
from fitrag_integrations.retrieval import Encoder, FaissIndex, QuestionBank

TEXTS = ["the river", "who wrote the score of a film in rome", "a", "the danube is a river " * 9]
PROMPTS = {"query": "what film: ", "document": "the city: ", "other": "sea "}


def write_modules(folder, *more, pooling="mean", prompts=None, default=None, include=True):
    """Write what sentence-transformers does; `more` are (name, config, tensors) after pooling."""
    if not (folder / "config.json").exists():
        write_bert(folder)
    listed = [("Transformer", ""), ("Pooling", "1_Pooling")]
    listed += [(name, f"{i}_{name}") for i, (name, _, _) in enumerate(more, 2)]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{name}"}
        for i, (name, path) in enumerate(listed)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    width = AutoModel.from_pretrained(folder).config.hidden_size
    own = {f"pooling_mode_{pooling}": True, "word_embedding_dimension": width}
    own["include_prompt"] = include
    parts = [("1_Pooling", own, {})]
    parts += [(f"{i}_{name}", config, held) for i, (name, config, held) in enumerate(more, 2)]
    for path, config, held in parts:
        (folder / path).mkdir()
        (folder / path / "config.json").write_text(json.dumps(config))
        if held:
            save_file(held, folder / path / "model.safetensors")
    beside = {"prompts": prompts or {}, "default_prompt_name": default, "similarity_fn_name": "dot"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(beside))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 64}')
    return str(folder)


def dense(width, out, activation="Tanh"):
    made = torch.Generator().manual_seed(out)
    held = {
        "linear.weight": torch.randn(out, width, generator=made) / 4,
        "linear.bias": torch.randn(out, generator=made),
    }
    name = f"torch.nn.modules.activation.{activation}"
    config = {"in_features": width, "out_features": out, "activation_function": name}
    return "Dense", {**config, "bias": True}, held


NORMALIZE = ("Normalize", {}, {})


def pooled(folder, texts, pooling, *, skipped=0, longest=64):
    """Return pooled states of transformers' own forward, a text at a time."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    rows = []
    for text in texts:
        given = tokenizer(text, return_tensors="pt", truncation=True, max_length=longest)
        given.pop("token_type_ids", None)
        with torch.inference_mode():
            states = model(**given).last_hidden_state[0, skipped:]
        rows.append({"mean": states.mean(0), "first": states[0], "last": states[-1]}[pooling])
    return torch.stack(rows)


def close(found, expected):
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-5)


def test_queries_and_documents_get_the_prompts_of_the_folder(tmp_path):
    folder = write_modules(tmp_path, prompts=PROMPTS, default="other")
    encoder = Encoder(folder, device="cpu")
    calls = {"query": encoder.encode_query, "document": encoder.encode_document}
    calls["other"] = encoder.encode  # the default prompt
    for name, call in calls.items():
        close(call(TEXTS), pooled(folder, [PROMPTS[name] + text for text in TEXTS], "mean"))
    close(encoder.encode(TEXTS, prompt_name="query"), torch.tensor(encoder.encode_query(TEXTS)))
    held = {"prompts": PROMPTS, "default_prompt_name": "other"}
    assert encoder.settings == {
        "pooling": "mean", "normalize": False, "max_tokens": 64, **held
    }  # fmt: skip
    plain = Encoder(folder, device="cpu", prompts={})
    for call in (plain.encode, plain.encode_query, plain.encode_document):
        close(call(TEXTS), pooled(folder, TEXTS, "mean"))


def test_an_input_ends_where_the_positions_of_roberta_do(tmp_path):
    from transformers import XLMRobertaConfig, XLMRobertaModel

    tokenizer = AutoTokenizer.from_pretrained(write_bert(tmp_path))
    tokenizer.model_max_length = int(1e30)  # as a tokenizer without a bound is saved
    tokenizer.save_pretrained(tmp_path)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    ids = {"pad_token_id": tokenizer.pad_token_id, "vocab_size": len(tokenizer)}
    torch.manual_seed(0)
    config = XLMRobertaConfig(max_position_embeddings=66, num_attention_heads=4, **sizes, **ids)
    XLMRobertaModel(config).save_pretrained(tmp_path)
    encoder = Encoder(str(tmp_path), device="cpu")
    most = 65 - tokenizer.pad_token_id  # positions start after the padding token's id
    assert encoder.settings["max_tokens"] == most
    long = "the danube is a river " * 60
    close(encoder.encode([long]), pooled(tmp_path, [long], "mean", longest=most))


async def test_async_calls_have_the_same_prompts(tmp_path):
    encoder = Encoder(write_modules(tmp_path, prompts={"query": "a ", "passage": "of "}))
    close(await encoder.aencode_query(TEXTS), torch.tensor(encoder.encode_query(TEXTS)))
    close(await encoder.aencode_document(TEXTS), torch.tensor(encoder.encode_document(TEXTS)))
    assert not np.allclose(encoder.encode_document(TEXTS), encoder.encode(TEXTS))


def test_dense_layers_run_in_order_and_a_cut_is_normalized(tmp_path):
    write_bert(tmp_path)
    one, two = dense(32, 48), dense(48, 24, "GELU")
    folder = write_modules(tmp_path, one, two, NORMALIZE)
    vectors = pooled(folder, TEXTS, "mean")
    vectors = torch.tanh(F.linear(vectors, one[2]["linear.weight"], one[2]["linear.bias"]))
    vectors = F.gelu(F.linear(vectors, two[2]["linear.weight"], two[2]["linear.bias"]))
    whole = Encoder(folder, device="cpu")
    assert whole.width == 24
    close(whole.encode(TEXTS), F.normalize(vectors))
    cut = Encoder(folder, device="cpu", truncate_dim=8)
    assert cut.width == 8 and cut.settings["truncate_dim"] == 8
    close(cut.encode(TEXTS), F.normalize(vectors[:, :8]))
    close(Encoder(folder, device="cpu", normalize=False).encode(TEXTS), vectors)


@pytest.mark.parametrize("beside", [True, False])
def test_decoders_are_read_at_the_last_token(tmp_path, beside):
    folder = write_llama(tmp_path)
    if beside:
        write_modules(tmp_path, pooling="lasttoken")
    encoder = Encoder(folder, device="cpu", max_length=64)
    assert encoder.settings["pooling"] == "last"
    close(encoder.encode(TEXTS), pooled(folder, TEXTS, "last"))


def test_a_prompt_may_be_left_out_of_pooling(tmp_path):
    folder = write_modules(tmp_path, prompts=PROMPTS, include=False)
    skipped = len(AutoTokenizer.from_pretrained(folder)(PROMPTS["query"])["input_ids"]) - 1
    texts = [PROMPTS["query"] + text for text in TEXTS]
    encoder = Encoder(folder, device="cpu")
    close(encoder.encode_query(TEXTS), pooled(folder, texts, "mean", skipped=skipped))
    close(encoder.encode(TEXTS), pooled(folder, TEXTS, "mean"))


def test_vectors_are_those_of_sentence_transformers(tmp_path):
    library = pytest.importorskip("sentence_transformers")
    write_bert(tmp_path)
    prompts = {"query": "what film: ", "document": "the city: "}
    more = dense(32, 24), NORMALIZE
    folder = write_modules(
        tmp_path, *more, pooling="cls_token", prompts=prompts, default="document"
    )
    theirs, ours = library.SentenceTransformer(folder, device="cpu"), Encoder(folder, device="cpu")
    for name in ("encode", "encode_query", "encode_document"):
        found, expected = (getattr(one, name)(TEXTS) for one in (ours, theirs))
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_an_index_records_its_prompts_and_finds_with_them(tmp_path):
    folder = write_modules(tmp_path, NORMALIZE, prompts=PROMPTS)
    encoder = Encoder(folder, device="cpu")
    passages = [Passage(str(i), text) for i, text in enumerate(TEXTS)]
    index = FaissIndex.build(passages, encoder=encoder)
    index.save(tmp_path / "index")
    manifest = json.loads((tmp_path / "index" / "manifest.json").read_text())
    assert manifest["encoder"]["settings"]["prompts"] == PROMPTS
    (found,) = index.search(["the king"], 4)
    scores = encoder.encode_query(["the king"]) @ encoder.encode_document(TEXTS).T
    own = [p.metadata["retrieval_score"] for p in found]
    assert own == pytest.approx(sorted(scores[0], reverse=True), abs=1e-5)
    again = FaissIndex.load(tmp_path / "index")
    assert again.encoder.settings == encoder.settings
    assert [p.id for p in again.search(["the king"], 4)[0]] == [p.id for p in found]
    with pytest.raises(InputError, match="other vectors"):
        FaissIndex.load(tmp_path / "index", encoder=Encoder(folder, device="cpu", prompts={}))
    bank = QuestionBank.build(TEXTS, [True, False, True, False], encoder)
    assert bank.neighbours(TEXTS, 1) == [[True], [False], [True], [False]]


def test_an_index_without_recorded_prompts_was_built_without(tmp_path):
    folder = write_modules(tmp_path, prompts={})
    index = FaissIndex.build([Passage("1", "the river")], encoder=Encoder(folder, device="cpu"))
    index.save(tmp_path / "index")
    beside = tmp_path / "config_sentence_transformers.json"
    beside.write_text(json.dumps({"prompts": PROMPTS}))  # a later version of the checkpoint
    again = FaissIndex.load(tmp_path / "index")
    assert again.search(["the river"], 1)[0][0].metadata["retrieval_score"] == pytest.approx(
        index.search(["the river"], 1)[0][0].metadata["retrieval_score"], abs=1e-4
    )


def broken(weights):
    name, config, held = dense(32, 24)
    return name, config, {**held, **weights}


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (("WordWeights", {}, {}), "WordWeights"),
        (("Dense", dense(32, 8)[1], {}), "model.safetensors is missing"),
        (broken({"linear.weight": torch.zeros(3, 3)}), "size mismatch"),
        (broken({"linear.bias": torch.full((24,), torch.nan)}), "NaN"),
        (dense(16, 8), "takes 16 dimensions"),
        (
            ("Dense", {**dense(32, 8)[1], "activation_function": "os.system"}, dense(32, 8)[2]),
            "system",
        ),
        (("Dense", {**dense(32, 8)[1], "module_input_name": "token_embeddings"}, {}), "token"),
    ],
)
def test_modules_that_cannot_be_run_are_refused(tmp_path, part, message):
    folder = write_modules(tmp_path, part)
    if "module_input_name" in part[1]:
        save_file(dense(32, 8)[2], tmp_path / "2_Dense" / "model.safetensors")
    with pytest.raises(ModelLoadError, match=message):
        Encoder.from_pretrained(folder, device="cpu")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"prompts": {"query": 1}}, "prompts"),
        ({"prompts": "query: "}, "prompts"),
        ({"prompts": PROMPTS, "default_prompt_name": "passage"}, "default_prompt_name"),
        ({"truncate_dim": 0}, "truncate_dim"),
        ({"truncate_dim": 33}, "truncate_dim"),
        ({"max_length": 0}, "max_length"),
        ({"dtype": "int8"}, "dtype"),
        ({"device": "nowhere"}, "device"),
        ({"pooling": "max"}, "pooling"),
        ({"normalize": "yes"}, "normalize"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"batch_tokens": 0.5}, "batch_tokens"),
    ],
)
def test_bad_options_are_named(bert, options, named):
    with pytest.raises(InputError, match=named):
        Encoder.from_pretrained(bert, **{"device": "cpu", **options})


def test_a_prompt_of_no_name_is_refused(bert):
    encoder = Encoder(bert, device="cpu", prompts={"query": "a "})
    with pytest.raises(InputError, match=r"prompt_name.*query"):
        encoder.encode(["rome"], prompt_name="qeury")
