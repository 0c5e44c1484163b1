"""Show what was fitted beside the plain retriever and the defaults, on the questions held out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fitrag_integrations import __version__
from fitrag_integrations.core.files import write_whole
from fitrag_integrations.core.record import Row
from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.evaluation.figures.answers import answer_figures, answer_plots, answer_rows
from fitrag_integrations.evaluation.figures.figure import Places
from fitrag_integrations.evaluation.figures.summaries import Draws
from fitrag_integrations.evaluation.result import Result
from fitrag_integrations.evaluation.thresholds.risk import Choice, Tried
from fitrag_integrations.methods.compose.fitted import Fitted
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.training.fitted.trying import DEFAULT, PLAIN, Setting, Table
from fitrag_integrations.types import Context

FITTED = "fitted"
DRAWS = Draws()


@dataclass(frozen=True)
class Proof:
    """Answers and tokens of each system on every question, the plain retriever first."""

    systems: Mapping[str, Tried]
    answers: Mapping[str, Sequence[str]]
    contexts: Mapping[str, Sequence[Context]]
    skipped: float
    choice: Choice
    fitted: Fitted
    test: Places

    @classmethod
    def of(
        cls,
        table: Table,
        tried: Mapping[str, Tried],
        settings: Mapping[str, Setting],
        choice: Choice,
        test: Places,
        fitted: Fitted,
    ) -> Proof:
        """Select the three systems from the results.

        Args:
            table: Results of the settings.
            tried: Outcomes of every setting.
            settings: The settings by name.
            choice: The chosen one.
            test: Questions held out.
            fitted: What is written.
        """
        chosen, way = settings[choice.chosen], choice.chosen.partition(";")[0]
        known = table.p_known.get(chosen.gate)
        skips = [False] * len(table.questions) if known is None else known > chosen.threshold
        whole = zip(skips, table.bare_answers, table.answers[way], strict=True)
        answers = {
            PLAIN: table.answers[PLAIN],
            DEFAULT: table.answers[DEFAULT],
            FITTED: [bare if skip else own for skip, bare, own in whole],
        }
        contexts = {
            PLAIN: table.contexts[PLAIN],
            DEFAULT: table.contexts[DEFAULT],
            FITTED: [
                Context(own.question) if skip else own
                for skip, own in zip(skips, table.contexts[way], strict=True)
            ],
        }
        systems = {PLAIN: tried[PLAIN], DEFAULT: tried[DEFAULT], FITTED: tried[choice.chosen]}
        share = sum(bool(skips[at]) for at in test) / len(test)
        return cls(systems, answers, contexts, share, choice, fitted, test)

    def sentence(self) -> str:
        """Return one sentence: what was chosen and what it saves, or that nothing is better."""
        plain, own = self.systems[PLAIN], self.systems[FITTED]
        right = [float(one.right[self.test].mean()) for one in (plain, own)]
        cost = [float(one.cost[self.test].mean()) for one in (plain, own)]
        promise = self.fitted.promise
        count = f"{len(self.test)} questions held out are right"
        if not self.choice.passed:
            return (
                f"Nothing beats the plain retriever for sure ({self.choice.reason}), so that is "
                f"what was written: {cost[0]:.0f} tokens a question, {right[0]:.0%} of {count}."
            )
        skip = f"; retrieval is skipped for {self.skipped:.0%}" if self.skipped else ""
        return (
            f"Fitted: {self.choice.chosen}: {cost[0]:.0f} -> {cost[1]:.0f} tokens a question, "
            f"{right[0]:.0%} -> {right[1]:.0%} of {count}, with confidence "
            f"{promise['confidence']:g} at most {promise['drop']:g} lost{skip}."
        )


def write_page(
    path: Path,
    proof: Proof,
    table: Table,
    parts: tuple[Places, Places],
    notes: Sequence[str],
    prices: Prices | None,
) -> None:
    """Write the page: the questions held out, then those that settings were chosen on.

    Args:
        path: File to write.
        proof: What was fitted, beside what it is compared with.
        table: Results of the settings.
        parts: Questions that settings were chosen on, and questions held out.
        notes: Notes on the page.
        prices: Prices; there are no costs without them.
    """
    from fitrag_integrations.evaluation.report import html_report

    order, test = parts
    results = [
        _result(proof, table, test, "Held out", notes),
        _result(proof, table, order, "Chosen on", ["chosen on these, so the figures flatter"]),
    ]
    page = html_report(results, title="fitrag fit", lead=proof.sentence(), prices=prices)
    write_whole(path, page)


def _result(proof: Proof, table: Table, places: Places, part: str, notes: Sequence[str]) -> Result:
    rows: list[Row] = [
        {
            "question": table.questions[at].question,
            "answers": list(table.questions[at].answers),
            "prediction": proof.answers[name][at],
            "method": name,
            "tokens_in": float(one.cost[at]),
            "tokens_out": float(approximate_tokens(proof.answers[name][at])),
            "excerpts": [each.to_dict() for each in proof.contexts[name][at].excerpts],
        }
        for name, one in proof.systems.items()
        for at in places.tolist()
    ]
    judged = answer_rows(rows)
    figures = answer_figures(judged, DRAWS)
    settings = {
        "version": __version__,
        "command": "fit",
        "part": part,
        "seed": DRAWS.seed,
        "resamples": DRAWS.resamples,
        "data": {"files": [], "hash": "", "rows": len(places)},
        "models": {},
        "options": {"chosen": proof.choice.chosen, "llm": proof.fitted.llm},
    }
    plots = answer_plots(figures, judged)
    rows_of = [figure.to_dict() for figure in figures]
    return Result("answers", rows_of, judged, settings, plots, notes)
