"""Choose when to retrieve from text alone, on the answers a large model really gave.

    python benchmarks/gates_text.py gates DATA [--seed 0]
    python benchmarks/gates_text.py calibration DATA [--splits 200]

DATA holds the folder `multihop`: questions of HotpotQA and 2WikiMultiHopQA with the answers of an
8B model without and with one retrieval. `gates`: each gate is fitted on a set's training half, its
threshold on its scores for training questions it was not fitted on, and both are judged on the
test half; brackets hold 95 % of bootstrap samples. `calibration`: how often "drop at most 2 points
with 90 % confidence" is not kept, over random halves of all questions. Needs the extras `train` and
`evaluate`.
"""

from __future__ import annotations

import argparse
import re
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fitrag_integrations.evaluation.figures.figure import bootstrap, mcnemar, paired_interval
from fitrag_integrations.evaluation.outcomes import Curve, Outcomes, Sweep, area, gate_auc
from fitrag_integrations.evaluation.thresholds.gate import choose_threshold
from fitrag_integrations.retrieval import Encoder
from fitrag_integrations.training.rows import read_jsonl

SETS = ("hotpotqa", "2wikimultihopqa")
NEIGHBOURS = 10
FOLDS = 10
HEDGES = re.compile(
    r"\b(unknown|unclear|not sure|cannot|probably|might|perhaps|do not know)\b", re.I
)
WORDS = ("who", "what", "when", "where", "which", "how", "is", "are", "did", "does", "both", "or")
Floats = NDArray[np.float64]
Gate = Callable[["Half", "Half"], tuple[Floats, Floats]]


@dataclass(frozen=True)
class Half:
    """Hold one half of a set: vectors of question and draft, plain features, and what came out."""

    question: Floats
    draft: Floats
    features: Floats
    without: Floats
    right_with: Floats

    def scored(self, p_known: Floats) -> Outcomes:
        return Outcomes(np.clip(p_known, 0, 1), self.without, self.without, self.right_with)


def main() -> None:
    """Measure what is asked for and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["gates", "calibration"])
    parser.add_argument("data", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--splits", type=int, default=200)
    args = parser.parse_args()
    if args.what == "gates":
        lines = gates(args.data, args.seed)
    else:
        lines = calibration(args.data, args.splits, args.seed)
    for line in lines:
        print(line, flush=True)


def gates(data: Path, seed: int) -> Iterator[str]:
    """Compare every gate with always retrieving, set by set."""
    for name in SETS:
        train, test = halves(data, name)
        lines = Sweep.of(test.scored(np.zeros(len(test.without))))
        yield (
            f"\n{name}, {len(test.without)} questions: never {lines.never:.3f}, "
            f"always {lines.always:.3f}, oracle {lines.oracle:.3f}"
        )
        better = []
        for label, gate in named_gates(seed).items():
            on_train, on_test = gate(train, test)
            figures, low = judged(train.scored(on_train), test.scored(on_test))
            better += [label] * (low > 0)
            yield f"  {label}\n    {figures}"
        yield f"  better than always beyond the interval: {', '.join(better) or 'none'}"


def judged(train: Outcomes, test: Outcomes) -> tuple[str, float]:
    """Tell how a gate does on test questions at the thresholds fitted on training ones.

    Gives the lower end of its advantage over always retrieving as well.
    """
    assert test.right_with is not None
    best = choose_threshold(train, resamples=0).value
    safe = choose_threshold(train, "drop", max_drop=0.02, resamples=0).value
    answers = np.where(test.p_known > best, test.without, test.right_with)
    low, high = paired_interval(answers, test.right_with)
    told = [
        f"AUC {_figure(test, gate_auc)}, sweep area {_figure(test, area)}",
        f"at {best:.2f} (best on train): accuracy {_figure(test, lambda o: o.accuracy(best))}, "
        f"share {_figure(test, lambda o: o.share(best))}, against always "
        f"{0.0 - test.drop(best):+.3f} [{low:+.3f}, {high:+.3f}], "
        f"McNemar p {mcnemar(answers, test.right_with):.2f}",
        f"at {safe:.2f} (drop of 2 points, 90 %): accuracy {test.accuracy(safe):.3f}, "
        f"share {test.share(safe):.3f}",
        f"best threshold in hindsight {Curve.of(test).accuracy.max():.3f}",
    ]
    return "\n    ".join(told), low


def named_gates(seed: int) -> dict[str, Gate]:
    """Name the gates that need no more than text."""
    return {
        "coin": lambda train, test: _coin(train, test, seed),
        "kNN of questions (SKR)": neighbours,
        "question": regression(lambda half: half.question),
        "features of question and draft": regression(lambda half: half.features),
        "question, draft, features": regression(_everything),
        "question, draft, features: skipping loses nothing": regression(_everything, _no_loss),
    }


def neighbours(train: Half, test: Half) -> tuple[Floats, Floats]:
    """Give the share of the nearest training questions answered rightly without retrieval."""
    index = NearestNeighbors(n_neighbors=NEIGHBOURS + 1).fit(train.question)
    own = index.kneighbors(train.question, return_distance=False)[:, 1:]  # the first is itself
    near = index.kneighbors(test.question, NEIGHBOURS, return_distance=False)
    return train.without[own].mean(axis=1), train.without[near].mean(axis=1)


def regression(
    columns: Callable[[Half], Floats], label: Callable[[Half], Floats] = lambda half: half.without
) -> Gate:
    """Make a gate of a logistic regression; its training scores come from the other folds."""

    def gate(train: Half, test: Half) -> tuple[Floats, Floats]:
        model = make_pipeline(StandardScaler(), LogisticRegression(C=0.001, max_iter=1000))
        if columns(train).shape[1] < 50:
            model.set_params(logisticregression__C=0.1)
        x, y = columns(train), label(train)
        folds = cross_val_predict(model, x, y, cv=FOLDS, method="predict_proba")
        return folds[:, 1], model.fit(x, y).predict_proba(columns(test))[:, 1]

    return gate


def calibration(data: Path, splits: int, seed: int) -> Iterator[str]:
    """Fit on random halves of all questions; look at the drop in all of them, and in the rest."""
    parts = [halves(data, name) for name in SETS]
    scored = [
        [part.scored(p) for part, p in zip(pair, regression(_everything)(*pair), strict=True)]
        for pair in parts
    ]
    everything = _joined([one for pair in scored for one in pair])
    rng = np.random.default_rng(seed)
    for target in ("drop", "conformal"):
        drops, rest, shares = [], [], []
        for _ in range(splits):
            order = rng.permutation(len(everything))
            half, other = np.array_split(order, 2)
            fitted = choose_threshold(
                everything.take(half), target, max_drop=0.02, confidence=0.9, resamples=0
            )
            drops.append(everything.drop(fitted.value))
            rest.append(everything.take(other).drop(fitted.value))
            shares.append(everything.share(fitted.value))
        yield (
            f"{target}: {splits} halves of {len(everything)} questions, above 2 points in "
            f"{np.mean(np.array(drops) > 0.02):.3f} of them over all questions, in "
            f"{np.mean(np.array(rest) > 0.02):.3f} over the other half; mean drop "
            f"{np.mean(drops):+.4f}, something certified in {np.mean(np.array(shares) < 1):.2f}, "
            f"mean share of retrieval {np.mean(shares):.3f}"
        )


def halves(data: Path, name: str) -> tuple[Half, Half]:
    """Read a set's training and test half, with the vectors of its texts."""
    encoder = Encoder.embedded()
    train, test = (
        _half(list(read_jsonl(data / "multihop" / f"{name}_{part}.jsonl.gz")), encoder)
        for part in ("train", "test")
    )
    return train, test


def _half(rows: list[dict[str, Any]], encoder: Encoder) -> Half:
    questions = [row["question"].strip() for row in rows]
    drafts = [row["llm_answer_no_retrieval"] for row in rows]
    retrieved = [row["llm_answer_one_retrieval"] for row in rows]
    answers = [row["answers"] for row in rows]
    return Half(
        np.asarray(encoder.encode(questions), float),
        np.asarray(encoder.encode(drafts), float),
        np.array([_features(q, d) for q, d in zip(questions, drafts, strict=True)]),
        np.array([float(holds(d, a)) for d, a in zip(drafts, answers, strict=True)]),
        np.array([float(holds(r, a)) for r, a in zip(retrieved, answers, strict=True)]),
    )


def holds(text: str, answers: list[str]) -> bool:
    """Say whether an answer stands in the text as whole words, folded as SQuAD folds them.

    Lower case, without punctuation and articles, accents kept; the rule behind the figures of the
    data's own description. Undoing its escaped accents would raise 2Wiki's by five points.
    """
    inside = f" {_folded(text)} "
    return any(folded and f" {folded} " in inside for folded in map(_folded, answers))


def _folded(text: str) -> str:
    bare = text.lower().translate(str.maketrans("", "", string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", bare).split())


def _features(question: str, draft: str) -> list[float]:
    asked, said = question.lower().split(), draft.lower().split()
    return [
        *(float(word in asked) for word in WORDS),
        np.log1p(len(asked)),
        np.log1p(len(said)),
        float(HEDGES.search(draft) is not None),
        float(_folded(draft)[:3].strip() in ("yes", "no")),
        float(any(c.isdigit() for c in draft)),
        len({*asked} & {*said}) / max(1, len(said)),
        sum(word[:1].isupper() for word in question.split()) / len(asked),
        float(question.count('"') > 1),
    ]


def _everything(half: Half) -> Floats:
    return np.hstack([half.question, half.draft, half.features])


def _no_loss(half: Half) -> Floats:
    return (half.without >= half.right_with).astype(float)


def _coin(train: Half, test: Half, seed: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    return rng.random(len(train.without)), rng.random(len(test.without))


def _joined(parts: list[Outcomes]) -> Outcomes:
    columns = ("p_known", "known", "without", "right_with")
    return replace(parts[0], **{c: np.concatenate([getattr(p, c) for p in parts]) for c in columns})


def _figure(outcomes: Outcomes, figure: Callable[[Outcomes], float | None]) -> str:
    bounds = bootstrap(lambda places: figure(outcomes.take(places)), len(outcomes))
    value = figure(outcomes)
    if value is None or bounds is None:
        return "-"
    return f"{value:.3f} [{bounds[0]:.3f}, {bounds[1]:.3f}]"


if __name__ == "__main__":
    main()
