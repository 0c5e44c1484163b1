"""Fit everything to your own questions: from a retriever and a language model to a folder.

Half of the questions are for choosing: labels, the scorer, thresholds, and the order in which
settings are tested. The other half is used once, to certify how cheap a setting may be. Every
answer is in a file, so a stopped run continues and writes the same folder. Retrievers of
LangChain and LlamaIndex are recognized by their modules; neither framework is imported.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fitrag_integrations.core.checks import Checked, Count, check_is
from fitrag_integrations.core.files import write_whole
from fitrag_integrations.core.record import Row
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.evaluation.measures import answers
from fitrag_integrations.evaluation.outcomes import Places
from fitrag_integrations.evaluation.table import Table, measured, page
from fitrag_integrations.evaluation.thresholds.risk import Choice, Tried, cheapest
from fitrag_integrations.flow import run
from fitrag_integrations.methods.compose.fitted import CORPUS, WITH, WITHOUT, Fitted
from fitrag_integrations.ports import port_of
from fitrag_integrations.retrieval import QuestionBank
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.training.asking_llm import AskLLM, AskReader
from fitrag_integrations.training.fitted.labelling import SCORER, fit_crag, fit_scorer, label
from fitrag_integrations.training.fitted.oracle import Oracle
from fitrag_integrations.training.fitted.questions import (
    Asked,
    asked_of,
    each_once,
    questions_in,
    refreshed,
    with_answers,
    write_questions,
    written_questions,
)
from fitrag_integrations.training.fitted.trying import (
    DEFAULT,
    PLAIN,
    ask_bank,
    ask_model,
    behind_gates,
    recipes,
    try_all,
)
from fitrag_integrations.training.journal import AnswerCache
from fitrag_integrations.types import Passage
from fitrag_integrations.values.passage import first_text, made_id
from fitrag_integrations.values.thresholds import FittedThreshold
from fitrag_integrations.values.windows import usable

FITTED = "fitted"


def sentence(
    systems: Mapping[str, Tried],
    choice: Choice,
    test: Places,
    *,
    skipped: float,
    drop: float,
    confidence: float,
) -> str:
    """Return a sentence on the chosen setting and its savings, or that no setting is better.

    Args:
        systems: Outcomes of the plain retriever and of what was fitted.
        choice: The chosen setting.
        test: Questions held out.
        skipped: Fraction of them that are answered without retrieval.
        drop: Maximum fraction of the right answers lost.
        confidence: Confidence level of that bound.
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
    """Write the page, with a table for each part of the questions.

    Args:
        path: File to write.
        systems: Outcomes of the systems, the plain retriever's first.
        asked: All questions.
        parts: Name of each part, with its questions and the notes on it.
        lead: First sentence of the page.
        options: Chosen options, and the language model.
        prices: Prices; there are no costs without them.
    """
    tables = []
    for part, (places, notes) in parts.items():
        rows: list[Row] = [
            {
                "question": asked[at].question,
                "answers": list(asked[at].answers),
                "prediction": one.answers[at],
                "method": name,
                "tokens_in": float(one.cost[at]),
                "tokens_out": float(approximate_tokens(one.answers[at])),
                "kept": " ".join(each.text for each in one.contexts[at].excerpts),
            }
            for name, one in systems.items()
            for at in places.tolist()
        ]
        judged = measured(rows, partial(answers, prices=prices))
        tables.append(Table(f"{part}: {len(places)} questions", judged, notes=notes))
    said = "".join(f"; {name}: {value}" for name, value in options.items())
    write_whole(path, page(tables, "fitrag fit", f"{lead}{said}"))


QUESTIONS, JOURNAL, REPORT = "questions.jsonl", "answers.asked", "report.html"
LONGEST = 64  # tokens of an answer


@dataclass(frozen=True, slots=True)
class Wish(Checked):
    """Settings of `fitrag fit`.

    Args:
        drop: Maximum fraction of the right answers lost.
        confidence: Confidence level of that bound.
        count: Maximum number of questions.
        k: Passages retrieved for each question.
        depth: Passages of each question that are labeled.
        seed: Seed of the split of the questions.
        train: Whether to train a scorer if there are enough labels.
    """

    drop: float = 0.05
    confidence: float = 0.9
    count: Count = 200
    k: Count = DEFAULTS.k
    depth: Count = 5
    seed: int = 0
    train: bool = True


def fit(
    retriever: object,
    llm: object,
    questions: Path | str | Iterable[Mapping[str, object]] | None = None,
    *,
    out: str | Path,
    wish: Wish = Wish(),  # noqa: B008 (it is frozen)
    passages: Sequence[Passage] = (),
    prices: Prices | None = None,
    budget: float | None = None,
    update: bool = False,
    run: Sequence[str] = (),
    tell: Callable[[str], None] | None = None,
) -> Fitted:
    """Fit everything to a retriever, a language model and questions, and write the folder `out`.

    Args:
        retriever: Retriever of LangChain or LlamaIndex, object with `retrieve(queries)`, or
            callable.
        llm: Model of LangChain or LlamaIndex, object with `generate`, callable from prompts to
            texts, or "embedded".
        questions: Rows of question and optional answers, or a file of them. By default the language
            model writes questions about `passages`. A file questions.jsonl in `out` takes
            precedence, so that it can be edited.
        out: Folder to write.
        wish: Settings.
        passages: Passages of the corpus.
        prices: Prices of tokens.
        budget: Maximum cost of all runs together, in the currency of `prices`.
        update: Replace generated questions whose passage is gone.
        run: Command that repeats this call, stored in `out`.
        tell: Called with progress messages.

    Raises:
        PortError: If the budget is spent or too many calls fail; the same call continues.
    """
    folder = Path(out)
    if llm == "embedded":
        from fitrag_integrations.models import ExtractiveReader

        llm = AskReader(ExtractiveReader.embedded())
    asker = llm if isinstance(llm, AskLLM | AskReader) else AskLLM(llm)
    cache = AnswerCache(
        folder / JOURNAL,
        {"llm": asker.name, "prompts": _digest([WITH.text, WITHOUT.text])},
        price_read=0.0 if prices is None else prices.tokens_in,
        price_written=0.0 if prices is None else prices.tokens_out,
        max_cost=budget,
        max_failures=100,
        longest=LONGEST,
    )
    with closing(cache):
        oracle = Oracle(asker, cache, tell)
        asked = _questions(questions, passages, folder / QUESTIONS, wish, oracle)
        if update and passages:
            asked = refreshed(asked, passages, wish.count, oracle)
            write_questions(folder / QUESTIONS, asked)
        oracle.reach([one.question for one in asked])
        texts = [one.question for one in asked]
        found = dict(zip(texts, finder(retriever, wish.k)(texts), strict=True))
        return _fitted(asked, found, passages, folder, wish, oracle, run, prices)


def _fitted(
    asked: Sequence[Asked],
    found: Mapping[str, Sequence[Passage]],
    passages: Sequence[Passage],
    folder: Path,
    wish: Wish,
    oracle: Oracle,
    run: Sequence[str],
    prices: Prices | None,
) -> Fitted:
    """Label, try, choose, certify and write."""
    asked = [one for one in asked if found[one.question]]
    made, open_ = sum(bool(one.passage) for one in asked), sum(not one.answers for one in asked)
    notes = [f"{made} of the questions were written from the corpus"] * bool(made)
    notes += [f"{open_} without an answer got the one given with all passages"] * bool(open_)
    asked = with_answers(asked, partial(oracle.answers_from, found))
    mixed = np.random.default_rng(wish.seed).permutation(len(asked))
    half = {asked[at].question for at in mixed[: len(mixed) // 2]}
    rows = label([one for one in asked if one.question in half], found, oracle, wish.depth)
    scorer = fit_scorer(rows, folder / SCORER, seed=wish.seed, train=wish.train)
    ways = recipes(wish.k, scorer.weight, scorer.folder and str(folder / scorer.folder))
    table = try_all(asked, found, ways, oracle)
    order, test = (
        np.array([i for i, one in enumerate(table.questions) if (one.question in half) is first])
        for first in (True, False)
    )
    refuse_if(not len(order) or not len(test), "questions", len(asked), "at least two with answers")
    known = [bool(right) for right in table.bare.right[order]]
    bank = QuestionBank.build([table.questions[at].question for at in order], known)
    bank.save(folder / "bank")
    ask_bank(table, bank, order.tolist())
    ask_model(table, oracle)
    tried, settings = behind_gates(table, ways, order)
    refuse_if(
        not tried[PLAIN].right[test].any(),
        f"{oracle.name} answers none of the {len(test)} questions held out from all that was "
        "retrieved, so nothing can be lost and nothing is certified: give questions that it "
        "answers, more passages a question, or another language model",
    )
    choice = cheapest(
        tried,
        PLAIN,
        order=order,
        test=test,
        max_drop=wish.drop,
        confidence=wish.confidence,
        seed=wish.seed,
    )
    chosen = settings[choice.chosen]
    recipe = dict(chosen.recipe)
    if scorer.folder is not None and "scorer" in recipe:
        recipe["scorer"] = scorer.folder
    words = f"drop at most {wish.drop:g} with confidence {wish.confidence:g}"
    threshold = FittedThreshold(chosen.threshold, oracle.name, words, QUESTIONS, len(test))
    promise = {
        **asdict(wish),
        "chosen": choice.chosen,
        "certified": choice.passed > 0,
        "reason": choice.reason,
        "settings tested": list(choice.path),
        "passed": choice.passed,
        "questions": {"chosen on": len(order), "held out": len(test)},
    }
    fitted = Fitted(
        oracle.name,
        recipe,
        chosen.gate,
        threshold if chosen.gate else None,
        fit_crag(rows),
        promise,
        {"passages": len(passages)} if passages else None,
        tuple(run),
        folder=str(folder),
    )
    if passages:
        write_corpus(folder, passages)
    systems = {PLAIN: tried[PLAIN], DEFAULT: tried[DEFAULT], FITTED: tried[choice.chosen]}
    known_by = table.p_known.get(chosen.gate)
    skipped = 0.0 if known_by is None else float((known_by[test] > chosen.threshold).mean())
    told = sentence(
        systems, choice, test, skipped=skipped, drop=wish.drop, confidence=wish.confidence
    )
    notes += [f"trained of the scorer: {scorer.trained}; its weight is {scorer.weight:g}"]
    write_page(
        folder / REPORT,
        systems,
        table.questions,
        {
            "Held out": (test, notes),
            "Chosen on": (order, ["chosen on these, so the figures flatter"]),
        },
        lead=told,
        options={"chosen": choice.chosen, "llm": oracle.name},
        prices=prices,
    )
    fitted = replace(fitted, promise={**promise, "told": told})
    fitted.write()
    return fitted


def write_corpus(folder: Path, passages: Iterable[Passage]) -> None:
    """Store hashes of the corpus, to detect later changes.

    Args:
        folder: Folder of the fitted settings.
        passages: Passages of the corpus.
    """
    write_whole(folder / CORPUS, json.dumps(passage_hashes(passages), indent=0) + "\n")


def passage_hashes(passages: Iterable[Passage]) -> list[str]:
    """Return the distinct hashes of passages, sorted, so that their order reveals nothing."""
    return sorted({_digest([one.title, one.text]) for one in passages})


def _digest(texts: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _questions(
    given: Path | str | Iterable[Mapping[str, object]] | None,
    passages: Sequence[Passage],
    kept: Path,
    wish: Wish,
    oracle: Oracle,
) -> list[Asked]:
    """Return the stored questions, else those passed, else generated ones; store them."""
    if kept.exists():
        return each_once(questions_in(kept, wish.count))
    if isinstance(given, str | Path):
        asked = questions_in(Path(given), wish.count)
    elif given is not None:
        asked = [asked_of(row, f"questions[{at}]") for at, row in enumerate(given)][: wish.count]
    elif passages:
        asked = written_questions(passages, wish.count, oracle)
    else:
        raise InputError.of(
            "questions", given=None, allowed="questions, or passages to write some about"
        )
    asked = each_once(asked)
    write_questions(kept, asked)
    return asked


def finder(retriever: object, k: int) -> Callable[[Sequence[str]], list[list[Passage]]]:
    """Return a function that searches for several questions.

    Args:
        retriever: Retriever of LangChain or LlamaIndex, object with `retrieve(queries)`, or
            callable.
        k: Maximum number of usable passages per question.
    """
    homes = {kind.__module__.partition(".")[0] for kind in type(retriever).__mro__}
    verbs = {"langchain_core": "invoke", "llama_index": "retrieve"}
    verb = next((verbs[home] for home in verbs if home in homes), None)
    port = port_of("retrieve", retriever, "retrieve") if verb is None else None

    def find(questions: Sequence[str]) -> list[list[Passage]]:
        if port is not None:
            found = run(port.ask(questions)).value
        else:
            found = [[*map(_passage, getattr(retriever, str(verb))(one))] for one in questions]
        return [list(usable(list(passages))[0][:k]) for passages in found]

    return find


def _passage(found: Any) -> Passage:
    """Make a passage of a LangChain document or of a LlamaIndex node with its score."""
    if hasattr(found, "page_content"):
        text, metadata = found.page_content, found.metadata
        name = found.id or made_id(text)
    else:
        refuse_if(not hasattr(found, "node"), "nodes", found, "nodes with scores")
        node = found.node
        name, text, metadata = node.node_id, node.get_content(), node.metadata
    title, source = (first_text(metadata, (key,)) for key in ("title", "source"))
    return Passage(name, check_is("text", text, str), title, source)
