"""Show what was fitted beside the plain retriever and the defaults, on the questions held out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from fitrag_integrations import __version__
from fitrag_integrations.core.files import write_whole
from fitrag_integrations.core.record import Row
from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.evaluation.figure import Places
from fitrag_integrations.evaluation.figures.answers import answer_figures, answer_plots, answer_rows
from fitrag_integrations.evaluation.figures.summaries import Draws
from fitrag_integrations.evaluation.result import Result
from fitrag_integrations.evaluation.thresholds.risk import Choice, Tried
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.training.fitted.questions import Asked
from fitrag_integrations.training.fitted.trying import PLAIN

FITTED = "fitted"
DRAWS = Draws()


def sentence(
    systems: Mapping[str, Tried],
    choice: Choice,
    test: Places,
    *,
    skipped: float,
    drop: float,
    confidence: float,
) -> str:
    """Return one sentence: what was chosen and what it saves, or that nothing is better.

    Args:
        systems: Outcomes of the plain retriever and of what was fitted.
        choice: The chosen setting.
        test: Questions held out.
        skipped: Fraction of them that are answered without retrieval.
        drop: Fraction of the right answers that may be lost.
        confidence: Confidence in that.
    """
    right, cost = (
        [float(getattr(systems[name], each)[test].mean()) for name in (PLAIN, FITTED)]
        for each in ("right", "cost")
    )
    count = f"{len(test)} questions held out are right"
    if not choice.passed:
        return (
            f"Nothing beats the plain retriever for sure ({choice.reason}), so that is "
            f"what was written: {cost[0]:.0f} tokens a question, {right[0]:.0%} of {count}."
        )
    skip = f"; retrieval is skipped for {skipped:.0%}" if skipped else ""
    return (
        f"Fitted: {choice.chosen}: {cost[0]:.0f} -> {cost[1]:.0f} tokens a question, "
        f"{right[0]:.0%} -> {right[1]:.0%} of {count}, with confidence "
        f"{confidence:g} at most {drop:g} lost{skip}."
    )


def write_page(
    path: Path,
    systems: Mapping[str, Tried],
    asked: Sequence[Asked],
    parts: Mapping[str, tuple[Places, Sequence[str]]],
    *,
    lead: str,
    options: Row,
    prices: Prices | None,
) -> None:
    """Write the page, each part of the questions with its figures.

    Args:
        path: File to write.
        systems: Outcomes of the systems, the plain retriever's first.
        asked: All questions.
        parts: Questions of each part, and notes on them, by its name.
        lead: First sentence of the page.
        options: What was chosen, and the language model.
        prices: Prices; there are no costs without them.
    """
    from fitrag_integrations.evaluation.report import html_report

    results = []
    for part, (places, notes) in parts.items():
        rows: list[Row] = [
            {
                "question": asked[at].question,
                "answers": list(asked[at].answers),
                "prediction": one.answers[at],
                "method": name,
                "tokens_in": float(one.cost[at]),
                "tokens_out": float(approximate_tokens(one.answers[at])),
                "excerpts": [each.to_dict() for each in one.contexts[at].excerpts],
            }
            for name, one in systems.items()
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
            "options": options,
        }
        plots = answer_plots(figures, judged)
        figure_rows = [figure.to_dict() for figure in figures]
        results.append(Result("answers", figure_rows, judged, settings, plots, notes))
    write_whole(path, html_report(results, title="fitrag fit", lead=lead, prices=prices))
