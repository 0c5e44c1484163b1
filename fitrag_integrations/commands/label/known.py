"""`fitrag label ik`, `necessity` and `claims`: what does a language model know by itself?

The model answers each question closed-book, and a teacher judges that; for `claims` a large model
splits answers into claims. Rows are written as they are read, so a stopped run continues where its
output ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeAlias

import typer

from fitrag_integrations.commands.engine.batch import Verb
from fitrag_integrations.commands.engine.models import load_llm
from fitrag_integrations.commands.engine.rows import question_of
from fitrag_integrations.commands.label.llms import SERVED_TOKENS, LabelPlan
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import PortError, raise_if, refuse_if
from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.evaluation.judging import gold, judge_prompt
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.methods.slimplm.method import SlimPLM
from fitrag_integrations.methods.slimplm.steps import UNREAD, Rewriter, heuristic_answer
from fitrag_integrations.models.remote.generator import RemoteGenerator
from fitrag_integrations.ports import Ports, YesNo, port_of
from fitrag_integrations.training import collecting as teachers
from fitrag_integrations.training.collecting import wordings

Tokens: TypeAlias = Annotated[int, Option("Tokens of the answer kept as draft.", min=1)]
BY_MATCH = (
    "labeled by match; a language model as judge labels better "
    "(IK, section 4.4: .82 instead of .75): pass --judge MODEL"
)


@dataclass(frozen=True)
class KnownPlan(LabelPlan):
    """Base of the verbs that have a language model answer closed-book, and label the answers."""

    draft_tokens: Tokens = 32
    max_new_tokens: Annotated[int | None, Option("Maximum tokens of an answer.", min=1)] = None

    def known(self, teacher: str, **how: Any) -> Verb:
        """Load whose knowledge is asked; a server is asked again for drafts."""
        count, most = self.draft_tokens, self.max_new_tokens
        served = self.server.generator(self.llm, draft_tokens=most or SERVED_TOKENS)
        drafting = served and self.server.generator(self.llm, draft_tokens=count)
        model = served or load_llm(self.llm, self.server, self.hardware, max_new_tokens=most)
        return known_verb(model, teacher, draft_tokens=count, drafting=drafting, **how)


@dataclass(frozen=True)
class LabelIK(KnownPlan):
    """Label questions by whether the model answers them without retrieval (IK, section 3.1).

    Reads question and answers; adds draft (the answer's first tokens), answer, known and llm. The
    teacher is a whole-token match, more than half of a gold answer's tokens (recall), or a language
    model that answers Yes or No: --judge, on the same server as --llm.
    """

    name: ClassVar = "label ik"
    teacher: Annotated[str, Option("Teacher: match, recall or judge; --judge implies judge.")] = (
        "match"
    )
    judge: Annotated[str | None, Option("Model of the judge.", default="the --llm")] = None

    def run(self) -> None:
        """Label the questions."""
        refuse_if(
            self.teacher not in teachers.TEACHERS,
            "--teacher",
            self.teacher,
            ", ".join(teachers.TEACHERS),
        )
        if self.teacher == "match" and not self.judge and not self.how.quiet:
            typer.echo(f"fitrag label ik: {BY_MATCH}", err=True)
        super().run()

    def verb(self) -> Verb:
        """Load who answers, and who judges the answers."""
        judge = None
        if self.judge or self.teacher == "judge":
            name = self.judge or self.llm
            judge = self.server.generator(name) or load_llm(name, self.server, self.hardware)
        return self.known(self.teacher, judge=judge)


@dataclass(frozen=True)
class LabelNecessity(KnownPlan):
    """Label questions by the fraction of gold answers in a model's answer (SlimPLM, equation 2).

    Reads question and answers, each a text or a list of its wordings; adds draft, answer, ratio,
    known (the ratio exceeds theta) and llm.
    """

    name: ClassVar = "label necessity"
    theta: Annotated[float, Option("Fraction of the answers to exceed.", min=0, max=1)] = 0.5
    draft_tokens: Tokens = 64

    def verb(self) -> Verb:
        """Load who answers."""
        return self.known("ratio", theta=self.theta)


def known_verb(
    model: Any,
    teacher: str,
    *,
    draft_tokens: int,
    drafting: RemoteGenerator | None = None,
    judge: YesNo | None = None,
    theta: float = 0.5,
) -> Verb:
    """Answer closed-book, cut the draft, and label the answer.

    Args:
        model: Model that answers, and cuts its answers to drafts.
        teacher: "match", "recall", or "ratio" (SlimPLM's fraction of the gold answers).
        draft_tokens: Tokens of the draft.
        drafting: For a served model its client with so many tokens: it is asked again for drafts.
        judge: Model that labels in place of the teacher.
        theta: Fraction of the gold answers that "ratio" has to exceed.
    """
    verb = "answer" if drafting is None else "draft"
    answering: Port[str, Any] = port_of("answer", model, verb)
    judging = None if judge is None else port_of("judge", judge, "p_yes")
    by_ratio = teacher == "ratio"

    def cut(pairs: Sequence[tuple[str, str]]) -> list[Any]:
        if drafting is not None:
            return drafting.draft([question for question, _ in pairs])
        written: list[str] = model.first_tokens([answer for _, answer in pairs], draft_tokens)
        return written

    cutting: Port[tuple[str, str], Any] = Port.of("cut", cut)  # shared by the rows of a chunk

    def flow(row: Mapping[str, object]) -> Flow[Row]:
        question = question_of(row)
        answers = teachers.gold_answers(row) if by_ratio else gold(row)
        (written,) = yield from answering.ask([question])
        answer: str = getattr(written, "text", written)
        (draft,) = yield from cutting.ask([(question, answer)])
        label: Row = {"known": False}
        if by_ratio:
            ratio = teachers.matching_ratio(answer, answers)
            label = {"ratio": ratio, "known": ratio > theta}
        elif judging is None:
            texts = wordings(answers)
            is_match = contains_answer if teacher == "match" else teachers.recall
            label = {"known": is_match(answer, texts) > 0.5}
        elif answer:  # otherwise there is nothing to judge
            (right,) = yield from judging.ask([judge_prompt(question, answer, wordings(answers))])
            label = {"known": right > 0.5}
        return {
            "draft": getattr(draft, "text", draft),
            "answer": answer,
            **label,
            "llm": model.name,
        }

    added = ("draft", "answer", *(("ratio",) if by_ratio else ()), "known", "llm")
    return Verb(flow, added, dict.fromkeys(added))


ADDS = ("draft", "questions", "claims", "grammar", "repairs", "llm")


@dataclass(frozen=True)
class LabelClaims(LabelPlan):
    """Split heuristic answers into claims and queries (SlimPLM, section 3.3).

    Reads question and draft, the heuristic answer, which the model writes if it is missing. Adds
    draft, questions and claims, each with text, query and search, the grammar of the reply,
    repairs, and llm. A reply that cannot be parsed becomes an error row.
    """

    name: ClassVar = "label claims"
    source: Annotated[str, Argument("Rows of question and draft: .jsonl, .jsonl.gz, or -.")]
    prompt: Annotated[str, Option("Prompt: instruct, paper or released.")] = "instruct"
    max_new_tokens: Annotated[int, Option("Maximum tokens of the rewriting.", min=1)] = 512

    def run(self) -> None:
        """Label the rows."""
        Rewriter(prompt=self.prompt)  # rejects a wrong name before any loading
        super().run()

    def verb(self) -> Verb:
        """Load who takes them apart."""
        longest = self.max_new_tokens
        served = self.server.generator(self.llm, max_new_tokens=longest, draft_tokens=SERVED_TOKENS)
        model = served or load_llm(
            self.llm, self.server, self.hardware, max_new_tokens=longest, stop=("\n\n",)
        )
        return claims_verb(model, self.prompt)


def claims_verb(model: Any, prompt: str = "instruct") -> Verb:
    """Split each answer with a model; it writes missing answers."""
    rewriter = Rewriter(model, prompt=prompt)

    def flow(row: Mapping[str, object]) -> Flow[Row]:
        question, draft = question_of(row), row.get("draft")
        if not isinstance(draft, str) or not draft.strip():
            heuristic = yield from heuristic_answer(
                question, model, most=SlimPLM.max_draft, strict=True
            )
            draft = heuristic.text
        leads, written = yield from rewriter(question, draft, Ports())
        raise_if(not leads.grammar, PortError, f"{UNREAD}: {written[:80]!r}")
        return {"draft": draft, **leads.to_dict(), "llm": model.name}

    return Verb(flow, ADDS, dict.fromkeys(ADDS))
