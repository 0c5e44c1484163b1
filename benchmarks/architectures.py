"""Put random models of many architectures into every place that takes one, beside transformers.

    python benchmarks/architectures.py [--only llama bert] [--json OUT] [--table OUT.md]

Each model has two layers and random weights (seed 7), is saved as its own library saves it, loaded
by the public `from_pretrained` or `from_reranker`, and run over the same texts, of mixed lengths in
one batch. The reference is transformers itself, one text at a time without padding, in float32 on
the CPU. A number is the largest difference between the two over all texts; "same" says that all
generated ids are equal; a refusal is shown with its message. `benchmarks/results/architectures.md`
was written with `--table`.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedTokenizerFast,
)
from transformers.utils import logging

from fitrag_integrations.errors import FitRagError
from fitrag_integrations.models import (
    BiLabelScorer,
    LocalGenerator,
    NecessityJudge,
    OnePassScorer,
    RetrievalEvaluator,
)
from fitrag_integrations.models.scorer.causal_families import RECIPES
from fitrag_integrations.retrieval import Encoder
from fitrag_integrations.types import Passage
from fitrag_integrations.values.slimplm import JUDGE_PAPER

SEED, NEW_TOKENS = 7, 12
EXPLAINED = """Models of two layers and random weights, in float32 on a CPU, in every place that
takes them. The other side is transformers, which reads one text at a time without padding. A number
is the largest difference over all texts; "same" is none, or equal generated texts. Written by
`python benchmarks/architectures.py --table benchmarks/results/architectures.md`."""
REFERENCE: dict[str, Any] = {"dtype": torch.float32, "trust_remote_code": False}
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
DECODER = SIZES | {
    "intermediate_size": 64,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
}
GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512}
ENCODER = SIZES | {"intermediate_size": 64, "max_position_embeddings": 514}
T5 = {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 1,
}
CAUSAL: dict[str, dict[str, Any]] = {
    "llama": DECODER,
    "mistral": DECODER,
    "mixtral": DECODER | {"num_local_experts": 2, "num_experts_per_tok": 2},
    "qwen2": DECODER,
    "qwen3": DECODER | {"head_dim": 8},
    "gemma": DECODER | {"head_dim": 8},
    "gemma2": DECODER | {"head_dim": 8, "query_pre_attn_scalar": 8},
    "gemma3_text": DECODER | {"head_dim": 8, "query_pre_attn_scalar": 8},
    "phi": DECODER,
    "phi3": DECODER | {"pad_token_id": 1},
    "olmo2": DECODER,
    "granite": DECODER,
    "smollm3": DECODER,
    "starcoder2": DECODER,
    "stablelm": DECODER,
    "gpt_neox": DECODER,
    "gpt2": GPT,
    "gpt_bigcode": GPT,
    "opt": SIZES | {"ffn_dim": 64, "word_embed_proj_dim": 32, "max_position_embeddings": 512},
    "bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4},
    "falcon": SIZES | {"alibi": False},
}
ENCODERS: dict[str, dict[str, Any]] = {
    "bert": ENCODER,
    "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64},
    "roberta": ENCODER | {"pad_token_id": 1, "type_vocab_size": 1},
    "xlm-roberta": ENCODER | {"pad_token_id": 1, "type_vocab_size": 1},
    "camembert": ENCODER | {"pad_token_id": 1, "type_vocab_size": 1},
    "electra": ENCODER | {"embedding_size": 32},
    "albert": ENCODER | {"embedding_size": 16},
    "mpnet": ENCODER | {"pad_token_id": 1},
    "deberta-v2": ENCODER | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "modernbert": ENCODER
    | {"pad_token_id": 1, "cls_token_id": 2, "sep_token_id": 3, "global_attn_every_n_layers": 2},
}
SEQUENCE = {name: T5 | {"decoder_start_token_id": 1} for name in ("t5", "mt5")}
QUESTIONS = ["What sea does the Danube flow into?", "Who wrote it?", "When was the old city built?"]
TEXTS = [
    "The Danube flows into the Black Sea. " * 9,
    "A king of Rome wrote the score of the film.",
    "The river and the city are old; the ocean is older than both of them. " * 3,
]
PROMPTS = [
    f"{text}\nQuestion: {question}\nAnswer:"
    for question, text in zip(QUESTIONS, TEXTS, strict=True)
]
PAIRS = [
    (question, Passage(str(n), text)) for question in QUESTIONS for n, text in enumerate(TEXTS)
]


def main() -> None:
    """Run every architecture in every place, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", nargs="+", default=[*CAUSAL, *ENCODERS, *SEQUENCE])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--table", type=Path)
    args = parser.parse_args()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    rows = []
    for row in (row for name in args.only for row in compared(name)):
        print(f"| {row['model']} | {row['place']} | {row['outcome']} |", flush=True)
        rows.append(row)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    if args.table:
        args.table.write_text(table(rows), encoding="utf-8")
    print(summary(rows))


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """Count the places and name the largest difference."""
    worst = max((row["difference"] for row in rows if row["difference"] is not None), default=0.0)
    refused = sum(row["difference"] is None for row in rows)
    models = len({row["model"] for row in rows})
    return (
        f"{models} architectures, {len(rows)} places, {refused} refused, "
        f"largest difference {worst:.1e}"
    )


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Write a row for each model and a column for each place, then the refusals."""
    places = list(dict.fromkeys(row["place"] for row in rows))
    cells = {(row["model"], row["place"]): row["outcome"].partition(":")[0] for row in rows}
    lines = [f"# Architectures\n\n{EXPLAINED}\n\n{summary(rows)}.\n"]
    lines += ["| model | " + " | ".join(places) + " |", "| --- " * (len(places) + 1) + "|"]
    for model in dict.fromkeys(row["model"] for row in rows):
        shown = (cells.get((model, place), "") for place in places)
        lines.append(f"| {model} | {' | '.join(shown)} |")
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row["difference"] is None:
            reason = row["outcome"].removeprefix("refused: ")
            reason = reason.replace(f"a {row['model']} ", "a <model> ")
            reasons.setdefault(reason, []).append(row["model"])
    lines.append("\n## Refused\n")
    lines += [f"- {', '.join(dict.fromkeys(names))}: {why}" for why, names in reasons.items()]
    return "\n".join(lines) + "\n"


def compared(name: str) -> Iterator[dict[str, Any]]:
    """Compare one architecture with transformers in every place that may take it."""
    kinds: list[tuple[Any, dict[str, Callable[[str], float]]]] = [
        (AutoModelForSequenceClassification, CLASSIFIER)
    ]
    if name in CAUSAL:
        prompted = any(recipe.model_type == name for recipe in RECIPES.values())
        asked: dict[str, Callable[[str], float]] = {"from_reranker, prompted": prompted_pairs}
        kinds.insert(0, (AutoModelForCausalLM, WRITING | (asked if prompted else {})))
        kinds.append((AutoModelForCausalLM, EMBEDDING))
    else:
        kinds.append((AutoModelForSequenceClassification, WRITING))
    if name in ENCODERS:
        kinds += [(AutoModel, EMBEDDING), (AutoModelForSequenceClassification, PRUNING)]
    for head, places in kinds:
        with tempfile.TemporaryDirectory() as folder:
            try:
                write(Path(folder), name, head)
            except ValueError:  # transformers has no classifier of this kind
                continue
            for place, run in places.items():
                try:
                    difference: float | None = run(folder)
                    outcome = "same" if difference == 0 else f"{difference:.1e}"
                except FitRagError as error:
                    message = str(error).replace(folder, "FOLDER").splitlines()[0].split("; ")[0]
                    difference, outcome = None, f"refused: {message}"
                yield {"model": name, "place": place, "difference": difference, "outcome": outcome}


def write(folder: Path, name: str, head: Any) -> None:
    """Save a tokenizer of bytes and a random model of the architecture."""
    tokenizer = byte_tokenizer("" if name in CAUSAL else "</s>" if name in SEQUENCE else "[SEP]")
    folder.mkdir(exist_ok=True)
    tokenizer.save_pretrained(folder)
    sizes = (CAUSAL | ENCODERS | SEQUENCE)[name]
    ids = {
        "bos_token_id": None,
        "eos_token_id": 0,
        "pad_token_id": 1,
        "vocab_size": len(tokenizer) + 8,
    }
    labels = {"num_labels": 1} if head is AutoModelForSequenceClassification else {}
    config = AutoConfig.for_model(name, **(ids | sizes | labels))
    torch.manual_seed(SEED)
    model = head.from_config(config).eval()
    for weights in model.parameters():  # large enough that every layer changes the answer
        if weights.dim() > 1:
            torch.nn.init.normal_(weights, std=0.2)
    model.save_pretrained(folder)


def byte_tokenizer(end: str) -> PreTrainedTokenizerFast:
    """Make a byte-level BPE with the words that gates read; `end` closes each text of a pair."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["</s>", "<pad>", "[CLS]", "[SEP]"]
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    words = ["Yes", "No", " Yes", " No", " True", " False", "yes", "no", "1", "0"] * 9
    raw.train_from_iterator([*PROMPTS, *words], trainer)
    names = {"eos_token": "</s>", "pad_token": "<pad>"}
    if end:
        start = "[CLS] " if end == "[SEP]" else ""
        raw.post_processor = processors.TemplateProcessing(
            single=f"{start}$A {end}",
            pair=f"{start}$A {end} $B:1 {end}:1",
            special_tokens=[(word, special.index(word)) for word in ("[CLS]", end)],
        )
        names |= {"cls_token": "[CLS]", "sep_token": "[SEP]"} if start else {}
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        model_max_length=512,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **names,
    )


@torch.inference_mode()
def generated(folder: str) -> float:
    """Compare greedy continuations; 0 where all are equal, else the fraction that is not."""
    ours = LocalGenerator.from_pretrained(
        folder, device="cpu", dtype="float32", max_new_tokens=NEW_TOKENS, stop=[]
    )
    found = ours.generate(PROMPTS)
    ours.unload()
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    model = AutoModelForCausalLM.from_pretrained(folder, **REFERENCE).eval()
    wanted = []
    for prompt in PROMPTS:
        given = tokenizer(prompt, return_tensors="pt")
        ids = model.generate(
            given.input_ids,
            attention_mask=given.attention_mask,
            max_new_tokens=NEW_TOKENS,
            do_sample=False,
            pad_token_id=1,
        )
        wanted.append(
            str(
                tokenizer.decode(ids[0, given.input_ids.shape[1] :], skip_special_tokens=True)
            ).strip()
        )
    return sum(str(a) != b for a, b in zip(found, wanted, strict=True)) / len(wanted)


@torch.inference_mode()
def yes_or_no(folder: str) -> float:
    """Compare P(Yes) against No as the next word."""
    ours = LocalGenerator.from_pretrained(folder, device="cpu", dtype="float32")
    found = ours.p_yes(PROMPTS)
    ours.unload()
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    model = AutoModelForCausalLM.from_pretrained(folder, **REFERENCE).eval()
    yes, no = (tokenizer(word).input_ids[0] for word in (" Yes", " No"))
    wanted = []
    for prompt in PROMPTS:
        last = model(tokenizer(prompt, return_tensors="pt").input_ids).logits[0, -1].float()
        wanted.append(torch.softmax(last[[yes, no]], dim=0)[0].item())
    return largest(found, wanted)


@torch.inference_mode()
def judged(folder: str) -> float:
    """Compare the judge's probability with that of the first token in which its verdicts differ."""
    judge = NecessityJudge.from_pretrained(folder, device="cpu", dtype="float32")
    questions = QUESTIONS * 4  # as many as share the beginning of their prompt
    found = judge.p_known(questions, TEXTS * 4)
    judge.unload()
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    model = AutoModelForCausalLM.from_pretrained(folder, **REFERENCE).eval()
    wanted = []
    for question, text in zip(QUESTIONS, TEXTS, strict=True):
        prompt = JUDGE_PAPER.replace("{question}", question).replace("{draft}", text.strip())
        known, unknown = (
            tokenizer(prompt + verdict).input_ids for verdict in ("Known (True)", "Known (False)")
        )
        at = next(i for i, (a, b) in enumerate(zip(known, unknown, strict=False)) if a != b)
        last = model(torch.tensor([known[:at]])).logits[0, -1].float()
        wanted.append(torch.softmax(last[[known[at], unknown[at]]], dim=0)[0].item())
    return largest(found, wanted * 4)


@torch.inference_mode()
def prompted_pairs(folder: str) -> float:
    """Compare a causal reranker with its published recipe, pieces tokenized one by one."""
    scorer = BiLabelScorer.from_reranker(folder, device="cpu", dtype="float32", max_length=1024)
    found = [score.has_answer for score in scorer.score(PAIRS)]
    recipe = RECIPES[scorer.family]
    scorer.unload()
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    model = AutoModelForCausalLM.from_pretrained(folder, **REFERENCE).eval()
    words = [tokenizer(word, add_special_tokens=False).input_ids[0] for word in recipe.words]
    wanted = []
    for question, passage in PAIRS:
        slots = {"{bos}": "", "{query}": question, "{document}": passage.text}
        slots["{instruction}"] = recipe.instruction or ""
        ids: list[int] = []
        for piece in recipe.pieces:
            text = piece
            for slot, value in slots.items():
                text = text.replace(slot, value)
            ids += tokenizer(text, add_special_tokens=False).input_ids if text else []
        last = model(torch.tensor([ids])).logits[0, -1].float()
        logit = last[words[0]] - (last[words[1]] if len(words) > 1 else 0.0)
        wanted.append(torch.sigmoid(logit).item())
    return largest(found, wanted)


@torch.inference_mode()
def pruned(folder: str) -> float:
    """Compare a rank-and-prune model over this classifier: relevance, and the mean of sentences."""
    fields = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    classifier = load_file(Path(folder) / "model.safetensors")
    width = fields.get("hidden_size") or fields["dim"]
    torch.manual_seed(SEED)
    head = torch.nn.Linear(width, 2)
    model = AutoModelForSequenceClassification.from_pretrained(folder, **REFERENCE).eval()
    tensors = {f"ranking_model.{name}": tensor for name, tensor in classifier.items()}
    tensors |= {f"pruning_head.classifier.{n}": t for n, t in head.state_dict().items()}
    save_file(tensors, Path(folder) / "model.safetensors", metadata={"format": "pt"})
    outside = {"model_type": "open_provence", "base_model_config": fields, "num_labels": 1}
    outside |= {"num_pruning_labels": 2, "transformers_version": "5.0"}
    (Path(folder) / "config.json").write_text(json.dumps(outside), encoding="utf-8")
    scorer = OnePassScorer.from_pruner(folder, device="cpu", dtype="float32")
    spans = [(0, 20), (9, 40)]
    judged = scorer.score_sentences([(*pair, spans) for pair in PAIRS])
    scorer.unload()
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, config=model.config)
    found, wanted = list[float](), list[float]()
    for (question, passage), (whole, parts) in zip(PAIRS, judged, strict=True):
        given = tokenizer(question, passage.text, return_tensors="pt", return_offsets_mapping=True)
        places, sides = given.pop("offset_mapping")[0].tolist(), given.sequence_ids(0)
        if getattr(model.config, "type_vocab_size", 0) < 2:
            given.pop("token_type_ids", None)
        out = model(**given, output_hidden_states=True)
        keep = head(out.hidden_states[-1][0]).softmax(-1)[:, 1]
        wanted.append(out.logits.sigmoid().item())
        for start, end in spans:
            inside = [
                n
                for n, (a, b) in enumerate(places)
                if sides[n] == 1 and a < end and b > start and passage.text[a:b].strip()
            ]
            wanted.append(keep[inside].mean().item())
        found += [whole.has_answer, *(part.has_answer for part in parts)]
    return largest(found, wanted)


def reranked(folder: str) -> float:
    """Compare `has_answer` with the sigmoid of the classifier's logit."""
    scorer = BiLabelScorer.from_reranker(folder, device="cpu", dtype="float32")
    found = [score.has_answer for score in scorer.score(PAIRS)]
    scorer.unload()
    logits = classified(folder, lambda tokenizer, q, text: tokenizer(q, text, return_tensors="pt"))
    return largest(found, [1 / (1 + math.exp(-logit)) for logit in logits])


def graded(folder: str) -> float:
    """Compare grades with the classifier's logit over CRAG's input, clipped to [-1, 1]."""
    evaluator = RetrievalEvaluator.from_pretrained(folder, device="cpu", dtype="float32")
    found = evaluator.evaluate(PAIRS)
    evaluator.unload()
    logits = classified(
        folder, lambda tokenizer, q, text: tokenizer(f"{q} [SEP] {text}", return_tensors="pt")
    )
    return largest(found, [max(-1.0, min(1.0, logit)) for logit in logits])


@torch.inference_mode()
def classified(folder: str, encode: Callable[..., Any]) -> list[float]:
    """Run transformers' classifier over each pair alone."""
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    model = AutoModelForSequenceClassification.from_pretrained(folder, **REFERENCE).eval()
    logits = []
    for question, passage in PAIRS:
        given = encode(tokenizer, question, passage.text)
        if getattr(model.config, "type_vocab_size", 0) < 2:  # the real tokenizer returns none
            given.pop("token_type_ids", None)
        logits.append(model(**given).logits.item())
    return logits


@torch.inference_mode()
def embeddings(folder: str) -> float:
    """Compare vectors of length 1 with the states' mean, or the last token's of a ForCausalLM."""
    encoder = Encoder.from_pretrained(folder, device="cpu", dtype="float32", normalize=True)
    found = torch.from_numpy(encoder.encode(TEXTS))
    encoder.unload()
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    model = AutoModel.from_pretrained(folder, **REFERENCE).eval()
    decoder = str((model.config.architectures or [""])[0]).endswith("ForCausalLM")
    wanted = []
    for text in TEXTS:
        given = tokenizer(text, return_tensors="pt")
        states = model(input_ids=given.input_ids, attention_mask=given.attention_mask)
        vector = states.last_hidden_state[0]
        pooled = vector[-1] if decoder else vector.mean(0)
        wanted.append(torch.nn.functional.normalize(pooled, dim=0))
    return float((found - torch.stack(wanted)).abs().max())


def largest(found: list[float], wanted: list[float]) -> float:
    """Return the largest difference of two lists of numbers."""
    return max(abs(one - other) for one, other in zip(found, wanted, strict=True))


WRITING: dict[str, Callable[[str], float]] = {
    "LocalGenerator.generate": generated,
    "LocalGenerator.p_yes": yes_or_no,
    "NecessityJudge": judged,
}
CLASSIFIER: dict[str, Callable[[str], float]] = {
    "from_reranker": reranked,
    "RetrievalEvaluator": graded,
}
EMBEDDING: dict[str, Callable[[str], float]] = {"Encoder": embeddings}
PRUNING: dict[str, Callable[[str], float]] = {"from_pruner": pruned}

if __name__ == "__main__":
    main()
