"""`fitrag fit`: from a folder of files and a language model to a fitted folder with its proof."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from fitrag_integrations.commands.engine import models, options
from fitrag_integrations.commands.engine.progress import check_writable, echo_notes
from fitrag_integrations.commands.evaluate.options import Priced
from fitrag_integrations.commands.fit.reading import Given, read_given
from fitrag_integrations.commands.fit.trial import OwnFiles
from fitrag_integrations.commands.label.llms import Asking, load_asker
from fitrag_integrations.core.option import Option
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.evaluation.thresholds.risk import rows_needed
from fitrag_integrations.methods.compose.fitted import CORPUS, INDEX, NAME, Fitted
from fitrag_integrations.methods.settings import EMBEDDED
from fitrag_integrations.retrieval import FileNote
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.training.fitted.fitting import (
    LONGEST,
    QUESTIONS,
    REPORT,
    Wish,
    fit,
    passage_hashes,
    write_corpus,
)
from fitrag_integrations.training.fitted.questions import WRITTEN_MORE, questions_from, questions_in
from fitrag_integrations.training.fitted.trying import recipes
from fitrag_integrations.training.options import Seed
from fitrag_integrations.types import Passage

WISH = Wish()


@dataclass(frozen=True)
class FitPlan(OwnFiles):
    """Fit settings, gate and thresholds to your own files and language model.

    Without QUESTIONS, the language model writes some into OUT/questions.jsonl, which you can edit.
    One half of the questions chooses between settings. The other half certifies the cheapest
    setting that loses at most --drop of the plain retriever's right answers. If there is none, the
    plain retriever is written.

    Answers are stored as they arrive. To continue a stopped run, run the same command again.
    """

    out: Annotated[Path, Option("Folder to write, which `--fitted` reads.")] = Path("fitted")
    llm: Annotated[
        str,
        Option(
            "Language model to fit to: a hub name, a folder, a LangChain PROVIDER:MODEL, embedded, "
            "or with --url the model's name on the server."
        ),
    ] = EMBEDDED
    drop: Annotated[
        float, Option("Maximum fraction of the right answers to lose.", min=0.001, max=0.5)
    ] = WISH.drop
    confidence: Annotated[
        float, Option("Confidence that at most --drop is lost.", min=0.5, max=0.999)
    ] = WISH.confidence
    count: Annotated[int, Option("Maximum number of questions.", name="--limit", min=4)] = (
        WISH.count
    )
    depth: Annotated[int, Option("Passages to label per question.", min=1)] = WISH.depth
    train: Annotated[
        bool, Option("Train the scorer if there are enough labels.", name="--train/--no-train")
    ] = True
    price_out: options.PriceOut = None
    budget: Annotated[
        float | None,
        Option(
            "Stop before all runs together cost more; requires prices.",
            name="--max-cost",
            min=0,
        ),
    ] = None
    yes: Annotated[bool, Option("Start without confirmation.")] = False
    update: Annotated[bool, Option("Fit again after the corpus has changed.")] = False
    seed: Seed = WISH.seed

    def run(self) -> None:
        """Print the estimate, and fit."""
        prices = Priced(self.price_in, self.price_out).prices()
        refuse_if(
            self.budget is not None and prices is None,
            "--max-cost",
            self.budget,
            "with --price-in or --price-out",
        )
        refuse_if(
            self.update and not (self.out / NAME).exists(),
            "--update",
            str(self.out),
            f"a folder that was fitted before, in which {NAME} is",
        )
        wish = Wish(
            self.drop, self.confidence, self.count, self.k, self.depth, self.seed, self.train
        )
        notes: list[FileNote] = []
        given = read_given(self.corpus, self.count, notes)
        if not self.quiet:
            echo_notes("fit", notes)
        if given.found is not None:
            refuse_if(
                self.questions is not None,
                "QUESTIONS",
                str(self.questions),
                "nothing, where the rows bring their questions",
            )
            wish = replace(wish, k=max(map(len, given.found.values())))
        fitted = self._done(given, wish)
        if fitted is None:
            count = self._checked(given)
            if not self._starts(given, replace(wish, count=count), prices):
                return
            fitted = self._fit(given, wish, prices)
        if self.json:
            typer.echo(json.dumps(fitted.to_dict()))
            return
        typer.echo(str(fitted.promise["told"]))
        typer.echo(f"{self.out / REPORT} has every question; fitrag answer --fitted {self.out}")

    def _checked(self, given: Given) -> int:
        """Return how many questions there are at most; raises where too few to certify anything."""
        kept = self.out / QUESTIONS
        file = kept if kept.exists() else self.questions
        if given.found is not None and not kept.exists():
            count = len(given.asked)
        elif file is not None:
            asked = {one.question for one in questions_in(file, self.count)}
            count, others = len(asked), asked - set(given.found or asked)
            refuse_if(
                bool(others),
                str(file),
                next(iter(others), None),
                f"the questions of the rows, and not {len(others)} others; remove the file",
            )
        elif self.llm == EMBEDDED:
            count = len(questions_from(given.passages, self.count))
        else:
            count = min(self.count, len(given.passages))
        held, needed = count - count // 2, rows_needed(self.drop, self.confidence)
        if held < needed:
            drops = (n / 100 for n in range(1, 51))
            least = next((d for d in drops if rows_needed(d, self.confidence) <= held), None)
            other = "" if least is None else f", or --drop {least:g} with these"
            raise InputError.of(
                "number of questions",
                given=count,
                allowed=f"{2 * needed - 1} for --drop {self.drop:g} at --confidence "
                f"{self.confidence:g}, since half of them certify{other}",
            )
        return count

    def _done(self, given: Given, wish: Wish) -> Fitted | None:
        """Return what was fitted as is asked for now; raises where the corpus has changed since."""
        if not (self.out / NAME).exists():
            return None
        fitted = Fitted.read(self.out)
        fitted.check(models.model_name(self.llm))
        if given.found is not None:  # nothing says that the lists are the same; answers are kept
            return None
        changed = fitted.changed(passage_hashes(given.passages))
        refuse_if(
            bool(changed) and not self.update,
            "corpus",
            str(self.corpus),
            f"what it was fitted to ({changed} passages since), or --update",
        )
        asked = asdict(wish)
        same = {name: fitted.promise.get(name) for name in asked} == asked
        return fitted if same and not changed and not self.update else None

    def _starts(self, given: Given, wish: Wish, prices: Prices | None) -> bool:
        brought = (given.found, self.questions) != (None, None) or (self.out / QUESTIONS).exists()
        most = estimate(
            given.passages,
            wish,
            made=not brought,
            embedded=self.llm == EMBEDDED,
            at_once=self.server.concurrency,
            drafts=self.llm != EMBEDDED and not models.is_chat_model(self.llm),
            prices=prices,
        )
        whose = "given" if brought else "written by the language model"
        typer.echo(
            f"{len(given.passages)} passages, {wish.count} questions at most, {whose}, answered by "
            f"{self.llm}: {most}; answers of earlier runs are reused",
            err=True,
        )
        if self.yes:
            return True
        if sys.stdin.isatty() and sys.stderr.isatty():
            return typer.confirm("Start?", err=True)
        typer.echo("fitrag fit: nothing was started: pass --yes to start", err=True)
        return False

    def _fit(self, given: Given, wish: Wish, prices: Prices | None) -> Fitted:
        check_writable("--out", self.out / NAME)
        asking = Asking(self.llm, self.server, max_new_tokens=LONGEST)
        indexed = cache(lambda: self._index(given.passages).as_retriever(self.k))
        lists = given.found

        def retrieve(queries: Sequence[str]) -> Any:  # an index after the model was reached
            if lists is None:
                return indexed().retrieve(queries)
            return [list(lists.get(query, ())) for query in queries]

        rows = [{"question": one.question, "answers": list(one.answers)} for one in given.asked]
        # the command that fits the same again
        named = {"llm": self.llm, "out": str(self.out), **asdict(wish)}
        named |= {"url": self.server.url} if self.server.url else {}
        named["limit"] = named.pop("count")
        flag = "--train" if named.pop("train") else "--no-train"
        words = [word for name, value in named.items() for word in (f"--{name}", f"{value}")]
        files = [str(self.corpus), *([] if self.questions is None else [str(self.questions)])]
        return fit(
            retrieve,
            load_asker(asking, self.hardware),
            self.questions if lists is None else rows,
            out=self.out,
            wish=wish,
            passages=given.passages if lists is None else (),
            prices=prices,
            budget=self.budget,
            update=self.update,
            run=["fitrag", "fit", *files, *words, flag],
            tell=None if self.quiet else _say,
        )

    def _index(self, passages: Sequence[Passage]) -> Any:
        """Open the index that is in the folder, where it is of these passages; else make it."""
        written, now = self.out / CORPUS, passage_hashes(passages)
        if written.exists() and json.loads(written.read_text(encoding="utf-8")) == now:
            return models.load_index(self.out / INDEX, options.ModelOptions())
        _say(f"index of {len(passages)} passages")
        index = models.new_index(self.hardware.of(None))
        index.add(passages)
        index.save(self.out / INDEX)
        write_corpus(self.out, passages)
        return index


def _say(message: str) -> None:
    typer.echo(f"fitrag fit: {message}", err=True)


AROUND = 40  # tokens of a prompt around its passages
SECONDS = 1.5  # a call to a language model; nobody knows before the first
EMBEDDED_SECONDS = 0.1
WRITTEN = 12  # tokens of an answer in a few words
SEEN = 500  # passages whose length is looked at


@dataclass(frozen=True, slots=True)
class Estimate:
    """Maximum calls, tokens read and written, seconds, and the price (None without prices)."""

    calls: int
    read: int
    written: int
    seconds: float
    money: float | None

    def __str__(self) -> str:
        money = "" if self.money is None else f", {self.money:.2f} in money"
        return (
            f"at most {self.calls:,} calls, {self.read:,} tokens read and {self.written:,} "
            f"written{money}, about {max(1, round(self.seconds / 60))} min"
        )


def estimate(
    passages: Sequence[Passage],
    wish: Wish,
    *,
    made: bool,
    embedded: bool,
    at_once: int,
    drafts: bool = False,
    prices: Prices | None,
) -> Estimate:
    """Count the calls of a fit; `made` says that questions have to be written first.

    A time is guessed for each call, `at_once` of which are open. A model that `drafts`
    writes one per question and is asked whether it is true.
    """
    some = passages[:SEEN]
    one = sum(approximate_tokens(each.text) for each in some) / max(1, len(some))
    count, ways, shown = wish.count, recipes(wish.k, 0.5).values(), 0.0
    for way in ways:  # tokens of the passages that a setting shows, by guess
        if isinstance(most := way.get("max_tokens"), int):
            shown += most
        elif way["method"] == "direct":
            shown += one * way["k"]
        else:
            shown += one * way["top_n"] * (way.get("max_share") or DEFAULTS.max_share)
    labels = count / 2 * min(wish.depth, wish.k)
    writing = 0 if embedded or not made else 2 * WRITTEN_MORE * count
    calls = round(count * (len(ways) + 1 + (not embedded) + 2 * drafts) + labels + writing)
    read = round(count * shown + (labels + writing) * one + calls * AROUND)
    written = calls * WRITTEN
    price = None if prices is None else prices.per_thousand(tokens_in=read, tokens_out=written)
    seconds = calls * (EMBEDDED_SECONDS if embedded else SECONDS / at_once)
    return Estimate(calls, read, written, seconds, None if price is None else price / 1000)
