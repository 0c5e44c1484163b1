"""Compare CRAG's two rules on really retrieved lists of five: the best grade, the list's verdict.

    python scripts/student/actions.py DATA STUDENT.json

STUDENT.json is what `measure.py ask student` wrote of the retrieved lists; thresholds and verdict
are those that ship. For each set: the AUC of the number that decides, how often the action is right
where it is not Ambiguous, how often it is Ambiguous, and of how many lists without an answer it is
Incorrect, and how often that would be right if it were a third of them; then the difference of both
AUC with 95 % of bootstrap samples.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

sys.path.insert(0, str(Path(__file__).resolve().parent))
from measure import RETRIEVED, key, retrieved  # noqa: E402
from reference import sigmoid  # noqa: E402

from fitrag_integrations.evaluation.figures.figure import bootstrap  # noqa: E402
from fitrag_integrations.methods.crag.verdict import ListVerdict, list_numbers  # noqa: E402
from fitrag_integrations.models.runtime.folder import read_manifest  # noqa: E402
from fitrag_integrations.models.runtime.saved import embedded_folder  # noqa: E402
from fitrag_integrations.models.scorer.items import of_logits  # noqa: E402


def main() -> None:
    """Print a line for each set and rule."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("student", type=Path)
    args = parser.parse_args()
    known, verdict = json.loads(args.student.read_text()), ListVerdict.read("embedded")
    manifest = read_manifest(embedded_folder("evaluator"), "model.json", kind="evaluator")
    cuts = manifest["thresholds"]
    for name in RETRIEVED:
        rows = retrieved(args.data, name)
        found = [
            [known[key("retrieved", row["question"], *p)] for p in row["passages"]] for row in rows
        ]
        truth = np.array([any(row["gold"]) for row in rows])
        grades = np.array([max(one["grade"] for one in each) for each in found])
        chances = np.array([verdict.chance(numbers(each)) for each in found])
        for rule, values, upper, lower in (
            ("best grade", grades, cuts["upper"], cuts["lower"]),
            ("verdict", chances, verdict.upper, verdict.lower),
        ):
            correct, incorrect = values >= upper, values < lower
            sure = correct | incorrect
            print(
                f"{name}, {rule}: AUC {roc_auc_score(truth, values):.3f}, "
                f"{(correct == truth)[sure].mean():.3f} right where sure, "
                f"{1 - sure.mean():.2f} ambiguous, Incorrect of {incorrect[~truth].mean():.3f} of "
                f"{(~truth).sum()} without an answer, {(sure & (correct == truth)).mean():.3f} "
                "right where Ambiguous is wrong"
            )
            third = values < np.quantile(values[~truth], 1 / 3)
            print(f"  with a third of these Incorrect, {(~truth)[third].mean():.3f} of it is right")

        def apart(at: Any, truth: Any = truth, values: Any = (chances, grades)) -> float:
            one, other = (float(roc_auc_score(truth[at], each[at])) for each in values)
            return one - other

        low, high = bootstrap(apart, len(rows)) or (float("nan"),) * 2
        print(f"  AUC {apart(np.arange(len(rows))):+.3f} [{low:+.3f}, {high:+.3f}]")


def numbers(found: list[dict[str, Any]]) -> dict[str, float]:
    """Measure a list as the package does."""
    return list_numbers(
        [of_logits(one["has"], one["prefer"]) for one in found],
        [one["grade"] for one in found],
        [SimpleNamespace(text=one["answer"], score=trust(one["score"])) for one in found],
    )


def trust(logit: float) -> float:
    """Return the probability of a trust's logit."""
    return float(sigmoid(logit))


if __name__ == "__main__":
    main()
