"""The `fitrag` command: batch work on JSON Lines, an index, training, and a look at the machine.

Only a table: each verb is a plan in `commands`, a dataclass whose fields are its options, imported
when it is called. Exit codes: 0; 1 where a row failed (0 with `--keep-going`); 2 where the command
could not run at all; 130 where Ctrl-C stopped it and 143 where SIGTERM did.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Sequence
from typing import Any

import typer

from fitrag_integrations import __version__
from fitrag_integrations.commands.engine.verbs import Home, register
from fitrag_integrations.core.extras import SEARCH
from fitrag_integrations.core.files import storage_error
from fitrag_integrations.core.progress import Stopping, Terminated
from fitrag_integrations.core.show import visible
from fitrag_integrations.errors import FitRagError

EXIT_UNUSABLE = 2
NO_MEMORY = ("bad_alloc", "allocate memory", "failed to map segment", "start new thread")
"""Words of libraries that raise errors of their own where memory is short."""
TORCH = {"torch": "torch"}
GROUPS = {
    "train": "Train models.",
    "label": "Label training data.",
    "calibrate": "Fit thresholds and store them with the model.",
    "evaluate": "Evaluate on labeled rows.",
}
VERBS = {
    "demo": Home("demo:DemoPlan", "Show on one screen what FIT-RAG keeps and saves.", SEARCH),
    "try": Home("fit.trial:TryPlan", "Measure what FIT-RAG saves on your own files."),
    "fit": Home("fit.fit:FitPlan", "Fit FIT-RAG to your files and language model.", TORCH),
    "index": Home("run.index:IndexPlan", "Build an index of a corpus, or add to one.", SEARCH),
    "retrieve": Home("run.index:RetrievePlan", "Retrieve passages for each row."),
    "answer": Home("run.answer:AnswerPlan", "Answer questions from passages."),
    "score": Home("run.judge:ScorePlan", "Score each passage of each row."),
    "gate": Home("run.judge:GatePlan", "Decide for each question whether to retrieve."),
    "route": Home("run.judge:RoutePlan", "Grade passages and decide what to do with them."),
    "compress": Home("run.compress:CompressPlan", "Reduce passages to their best excerpts."),
    "read": Home("run.judge:ReadPlan", "Extract the answer of each row from its passages."),
    "serve": Home("serve.serve:ServePlan", "Serve the models over HTTP.", {"serve": "uvicorn"}),
    "doctor": Home("doctor:DoctorPlan", "Show versions, hardware and extras of this machine."),
    "train reader": Home("train.verbs:TrainReader", "Train the extractive reader.", TORCH),
    "train bilabel": Home("train.verbs:TrainBilabel", "Train the bi-label scorer.", TORCH),
    "train evaluator": Home("train.verbs:TrainEvaluator", "Train the retrieval evaluator.", TORCH),
    "train recognizer": Home(
        "train.recognizer:TrainRecognizer",
        "Fit the recognizer of questions that need no retrieval.",
    ),
    "train eligibility": Home(
        "train.verbs:TrainEligibility",
        "Train the detector of sufficient excerpts.",
        TORCH,
    ),
    "train ik": Home(
        "train.verbs:TrainIK", "Train an IK classifier, which decides whether to retrieve.", TORCH
    ),
    "train necessity": Home(
        "train.verbs:TrainNecessity", "Train SlimPLM's necessity judge.", TORCH
    ),
    "train rewriter": Home("train.verbs:TrainRewriter", "Train SlimPLM's query rewriter.", TORCH),
    "label negatives": Home(
        "label.passages:LabelNegatives", "Find negative passages, which lack the answer."
    ),
    "label evaluator": Home(
        "label.passages:LabelEvaluator", "Label retrieved passages for the evaluator."
    ),
    "label bilabel": Home("label.passages:LabelBilabel", "Label passages for the bi-label scorer."),
    "label eligibility": Home(
        "label.eligibility:LabelEligibility", "Label combinations for the eligibility detector."
    ),
    "label ik": Home("label.known:LabelIK", "Label which questions a language model can answer."),
    "label necessity": Home("label.known:LabelNecessity", "Label drafts by the answers in them."),
    "label claims": Home("label.known:LabelClaims", "Split answers into claims."),
    "calibrate reader": Home(
        "calibrate:CalibrateReader", "Fit the reader's threshold of no answer."
    ),
    "calibrate gate": Home("calibrate:CalibrateGate", "Fit the threshold of a gate."),
    "calibrate scores": Home(
        "calibrate:CalibrateScores",
        "Fit a correction of the scorer's probabilities.",
        TORCH,
    ),
    "calibrate evaluator": Home(
        "calibrate:CalibrateEvaluator",
        "Fit the thresholds of the evaluator's actions.",
        TORCH,
    ),
    "evaluate gate": Home("evaluate.decisions:EvaluateGate", "Evaluate a gate."),
    "evaluate rerank": Home("evaluate.rerank:EvaluateRerank", "Evaluate a reranker."),
    "evaluate answers": Home(
        "evaluate.answers:EvaluateAnswers", "Evaluate answers, of files or of methods."
    ),
    "evaluate route": Home("evaluate.decisions:EvaluateRoute", "Evaluate a retrieval evaluator."),
    "evaluate compress": Home(
        "evaluate.compress:EvaluateCompress", "Evaluate what compression keeps."
    ),
}

app = typer.Typer(
    help="FIT-RAG and related methods on JSON Lines: .jsonl or .jsonl.gz in and out.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # they print the values of variables, keys among them
)


_groups = {name: typer.Typer(help=help, no_args_is_help=True) for name, help in GROUPS.items()}
for _verb, _home in VERBS.items():
    _group = _verb.rpartition(" ")[0]
    register(_groups[_group] if _group else app, _verb, _home)
for _name, _made in _groups.items():
    app.add_typer(_made, name=_name)


@app.callback(invoke_without_command=True)
def fitrag(
    version: bool = typer.Option(False, "--version", help="Print the version and stop."),
) -> None:
    """Handle options without a verb."""
    if version:
        typer.echo(__version__)
        raise typer.Exit


class Notices:
    """Standard error: what its reader no longer reads is no reason to fail."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text, or drop it."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
            self._stream.flush()
        return len(text)

    def flush(self) -> None:
        """Do nothing: `write` does it."""


def open_streams() -> None:
    """Open standard streams that are closed, so that no other file gets their numbers.

    Nothing can be read from them, what goes to standard error is dropped, and writing to standard
    output raises `OSError`.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            access = os.O_WRONLY if name == "stderr" else os.O_RDONLY
            setattr(sys, name, open(os.open(os.devnull, access), mode))  # noqa: SIM115


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; always ends in `SystemExit`, or with the process."""
    open_streams()
    try:
        with contextlib.redirect_stderr(Notices(sys.stderr)), Stopping().heard():
            app(None if arguments is None else list(arguments), prog_name="fitrag")
    except FitRagError as error:
        typer.echo(visible(f"fitrag: {error}"), err=True)
        sys.exit(EXIT_UNUSABLE)
    except Terminated as stop:  # before the first row, or in a verb without rows
        where = f" {stop}" if str(stop) else ""
        typer.echo(f"fitrag: asked to stop{where}; the same command goes on", err=True)
        sys.exit(Stopping.code)
    except BrokenPipeError:  # whoever read our output has seen enough
        _drop_output()
        sys.exit(1)
    except Exception as error:
        said: object = storage_error(error)  # whatever library was writing
        if isinstance(error, MemoryError) or any(words in str(error) for words in NO_MEMORY):
            said = "not enough memory; what is written stays, the same command goes on"
        elif getattr(error, "errno", None) == errno.EBADF:
            _drop_output()
            said = "standard output is closed"
        elif said is None and isinstance(error, OSError):
            said = error
        if said is None:
            raise
        typer.echo(visible(f"fitrag: {said}"), err=True)
        sys.exit(EXIT_UNUSABLE)


def _drop_output() -> None:
    """Have what is left in the buffer of standard output go nowhere, without another error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
