"""Random checkpoints of a few thousand weights, made on the spot, and models over them."""

import json

import numpy as np
import torch

from fitrag_integrations import Passage
from fitrag_integrations.models import (
    BiLabelScorer,
    ExtractiveReader,
    OnePassScorer,
    RetrievalEvaluator,
)
from fitrag_integrations.models.encoder.encoders import load_base
from fitrag_integrations.models.encoder.heads import BiLabelHead, ReaderHead
from fitrag_integrations.models.encoder.late import LATE_COUNT, LateInteraction
from fitrag_integrations.models.encoder.lexical import Clues
from fitrag_integrations.models.encoder.pair_model import Engine
from fitrag_integrations.models.encoder.pairs import EncodedPair, PairTokenizer
from fitrag_integrations.models.evaluator.head import EvaluatorHead, HeadGrader
from fitrag_integrations.models.runtime.engine import Options
from fitrag_integrations.models.scorer.bilabel import SentenceHead

WORDS = ["a", "of", "the", "in", "who", "what", "river", "city", "king", "wrote", "score", "film"]
WORDS += ["rome", "danube", "ocean", "black", "sea"]
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
MARKS = ".,?!-'אבםلمر👩"
CPU = Options(device="cpu")
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
T5_SIZES = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}

PAIRS = [
    ("who wrote the score", Passage("1", "the king wrote the score of a film in rome.", "film")),
    ("what river", Passage("2", "the danube is a river " * 120)),  # more than one chunk
    ("who", Passage("3", "rome")),
    ("in what sea is the danube", Passage("4", "The Danube ends in the Black Sea.", "Danube")),
    ("what city of the king", Passage("5", "a city, a king; a river? " * 9, "the city")),
]


def forget(engine):
    """Clear the caches of the bundled models' engine, so that the next pass computes all."""
    engine._kept.clear()
    engine._tokens = 0
    if "nearness" in vars(engine):
        engine.nearness._kept.clear()
        engine.nearness._count = 0


def write_bert(folder, *, seed=0):
    """Write a BERT of 2 layers and width 32 with a WordPiece tokenizer; gives the folder."""
    from transformers import BertConfig, BertModel, BertTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    endings = [f"##{ending}" for ending in (*LETTERS, "smith", "ian")]
    pieces = [*special, *WORDS, *LETTERS, *endings, *MARKS]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    BertTokenizerFast(vocab=vocabulary).save_pretrained(folder)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(vocabulary), num_attention_heads=4, initializer_range=0.2, **SIZES
    )
    BertModel(config).save_pretrained(folder)
    return str(folder)


def write_modernbert(folder, *, seed=0, positions=4096):
    """Write a ModernBERT of one global and one local layer, with BERT's tokenizer."""
    from transformers import AutoTokenizer, ModernBertConfig, ModernBertModel

    write_bert(folder)
    torch.manual_seed(seed)
    config = ModernBertConfig(
        vocab_size=len(AutoTokenizer.from_pretrained(folder)),
        num_attention_heads=2,
        max_position_embeddings=positions,
        global_attn_every_n_layers=2,
        initializer_range=0.15,
        pad_token_id=0,
        attention_dropout=0.1,
        **SIZES,
    )
    model = ModernBertModel(config)
    for name, weight in model.named_parameters():
        if "Wqkv.weight" in name:
            weight.data[:64] *= 20  # sharp attention, which a wrong angle moves elsewhere
    model.save_pretrained(folder)
    return str(folder)


def write_t5(folder, *, seed=0):
    """Write a T5 encoder of 2 layers and width 32 with a Unigram tokenizer; gives the folder."""
    from transformers import T5Config, T5EncoderModel, T5TokenizerFast

    special = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -4.0)]
    pieces = [(f"▁{word}", -2.0) for word in WORDS if len(word) > 1]
    pieces += [(letter, -6.0) for letter in (*LETTERS, *MARKS)]
    T5TokenizerFast(vocab=special + pieces, extra_ids=0).save_pretrained(folder)
    torch.manual_seed(seed)
    config = T5Config(vocab_size=len(special + pieces), **T5_SIZES)
    T5EncoderModel(config).save_pretrained(folder)
    return str(folder)


def tokenizer_of(base, *, max_length=384):
    return PairTokenizer(load_base(base)[1], max_length=max_length)


def make_scorer(base, *, evidence=False, hidden=0, frozen=True):
    """Put a random scorer over a base; what is not frozen counts as tuned."""
    engine = _engine(base, frozen)
    rarity = [0.5 + i % 7 / 4 for i in range(engine.tokenizer.vocabulary)]  # exact in float16
    late = LateInteraction(load_base(base)[0], rarity, pad_id=engine.tokenizer.pad_id)
    torch.manual_seed(1)
    head = BiLabelHead(engine.trunk.width, features=LATE_COUNT * evidence, hidden=hidden)
    manifest = {"base": base, "head": {"hidden": hidden, "late": evidence}}
    temperatures = (0.8, 1.5)
    manifest["temperatures"] = list(temperatures)
    clues = late if evidence else None
    return BiLabelScorer(engine, head, clues=clues, temperatures=temperatures, manifest=manifest)


def make_onepass(base, **options):
    """Put a random head for spans over a random scorer."""
    scorer = make_scorer(base, **options)
    torch.manual_seed(2)
    return OnePassScorer(scorer, SentenceHead(scorer._engine.trunk.width))


def make_reader(base, *, frozen=True):
    """Put a random reader over a base; what is not frozen counts as tuned."""
    engine = _engine(base, frozen)
    torch.manual_seed(1)
    manifest = {"base": base, "thresholds": {"abstain_below": 0.25}}
    return ExtractiveReader(engine, ReaderHead(engine.trunk.width), manifest=manifest)


def _engine(base, frozen):
    trunk, tokenizer = load_base(base)
    for name, parameter in trunk.encoder.named_parameters():
        parameter.requires_grad_(not frozen and "embed" not in name and "shared" not in name)
    return Engine(trunk, PairTokenizer(tokenizer), CPU)


def encoded(question, passage):
    """Make an encoded pair of token ids, framed by 0s as separators."""
    ids = [0, *question, 0, *passage, 0]
    segments = [0, *[1] * len(question), 0, *[2] * len(passage), 0]
    return encoded_pair(ids, segments, [None] * len(ids))


def encoded_pair(ids, segments, offsets):
    """Make a pair of lists of the same length; its types are 0."""
    starts, ends = zip(*((-1, -1) if place is None else place for place in offsets), strict=True)
    rows = [ids, [0] * len(ids), segments, starts, ends]
    return EncodedPair(np.array(rows, dtype=np.int32))


def write_cross_encoder(folder, *, labels=1, seed=0):
    """Write a BERT with a classifier."""
    from transformers import BertConfig, BertForSequenceClassification

    write_bert(folder)
    torch.manual_seed(seed)
    config = BertConfig.from_pretrained(folder, num_labels=labels, initializer_range=0.2)
    BertForSequenceClassification(config).save_pretrained(folder)
    return str(folder)


def write_t5_classifier(folder, *, labels=1, seed=0):
    """Write a whole T5 with a classifier on top, as CRAG's evaluator is; gives the folder."""
    from transformers import AutoTokenizer, T5Config, T5ForSequenceClassification

    write_t5(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    torch.manual_seed(seed)
    config = T5Config(
        vocab_size=len(tokenizer),
        num_labels=labels,
        initializer_factor=1.0,
        decoder_start_token_id=0,
        **T5_SIZES,
    )
    model = T5ForSequenceClassification(config)
    model.classification_head.out_proj.weight.data *= 1.5  # some outputs in [-1, 1], some beyond
    model.save_pretrained(folder)
    return str(folder)


def write_pruner(folder, kind="modernbert", *, legacy=False, positions=512, **fields):
    """Write a classifier and its pruning head under OpenProvence's names; gives the folder."""
    from safetensors.torch import save_file
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

    write_bert(folder)
    (folder / "model.safetensors").unlink()
    config = AutoConfig.for_model(
        kind,
        vocab_size=len(AutoTokenizer.from_pretrained(folder)),
        num_attention_heads=4,
        max_position_embeddings=positions,
        num_labels=1,
        pad_token_id=0,
        cls_token_id=2,
        bos_token_id=2,
        sep_token_id=3,
        eos_token_id=3,
        initializer_range=0.3,
        **SIZES,
    )
    torch.manual_seed(3)
    model = AutoModelForSequenceClassification.from_config(config)
    if kind == "modernbert":
        torch.nn.init.normal_(model.model.final_norm.weight, 1.0, 0.5)
    before = "" if legacy else "ranking_model."
    state = {f"{before}{name}": tensor for name, tensor in model.state_dict().items()}
    state["pruning_head.classifier.weight"] = torch.randn(2, 32)
    state["pruning_head.classifier.bias"] = torch.randn(2)
    save_file({n: t.contiguous() for n, t in state.items()}, folder / "model.safetensors")
    made = {
        "model_type": "open_provence",
        "architectures": ["OpenProvenceForSequenceClassification"],
        "auto_map": {"AutoModel": "modeling_open_provence_standalone.OpenProvenceModel"},
        "base_model_config": config.to_dict(),
        "num_labels": 1,
        "num_pruning_labels": 2,
        "pruning_config": {"hidden_size": 32, "num_labels": 2},
        "max_length": positions,
        "default_threadshold": 0.25,
        "transformers_version": "4.57.1",
    }
    (folder / "config.json").write_text(json.dumps(made | fields))
    return str(folder)


def make_evaluator(base, *, name="", thresholds=None, frozen=True):
    """Put a random evaluator's head over a base; what is not frozen counts as tuned."""
    engine = _engine(base, frozen)
    rarity = [0.5 + i % 7 / 4 for i in range(engine.tokenizer.vocabulary)]  # exact in float16
    torch.manual_seed(1)
    head = EvaluatorHead(engine.trunk.width, hidden=6)
    manifest = {"base": base, "head": {"hidden": 6}}
    grader = HeadGrader(engine, head, clues=Clues.of(engine.tokenizer, rarity), manifest=manifest)
    return RetrievalEvaluator(grader, name=name, thresholds=thresholds)
