"""How results show themselves: a line, a few lines, and HTML that takes no text for HTML."""

import pickle
import re
from html.parser import HTMLParser

import pytest

from fitrag_integrations.core.show import escaped, marked, table
from fitrag_integrations.evaluation.cost import Spent
from fitrag_integrations.evaluation.plots import Plot
from fitrag_integrations.flow import Step, Traced
from fitrag_integrations.methods import explain_compression
from fitrag_integrations.methods.answering import Answered
from fitrag_integrations.methods.citing import cite
from fitrag_integrations.methods.crag.refiner import Refined
from fitrag_integrations.text.spans import merge_spans
from fitrag_integrations.types import (
    Action,
    BiLabelScore,
    Context,
    Draft,
    Excerpt,
    Passage,
    RetrievalDecision,
)
from fitrag_integrations.values.thresholds import FittedThreshold

ESCAPES = (  # colors, a link, a write to the clipboard, a cleared screen, turned directions
    "\x1b[31m \x1b]8;;https://x.example\x1b\\ \x1b]52;c;eA==\x07 \x9b2J "
    "\u2066\u200f\u061c\u200b \r\x08"
)
SLY = "<script>alert('x')</script>\"><img src=x onerror=alert(1)> &lt; \u202etxet\u202c \x00 \ud800"
SLY += ESCAPES
PASSAGE = Passage(SLY, f"First. {SLY} Last.", SLY, SLY, {"web": True, "url": SLY})
LABELS = BiLabelScore(0.9, 0.4)
EXCERPT = Excerpt(PASSAGE, 7, 30, 1.25, LABELS)
CONTEXT = Context(
    SLY,
    (EXCERPT, Excerpt(PASSAGE, 0, 6)),
    (SLY,),
    RetrievalDecision(True, 0.25, 0.5, SLY),
    Action.AMBIGUOUS,
    SLY,
    (SLY,),
    SLY,
    {"grades": [0.5], "thresholds": {"upper": 0.6, "lower": -0.2}, SLY: SLY},
)
STEPS = (
    Step("retrieve", (SLY,), ([PASSAGE],), 0.01),
    Step(SLY, (SLY,), (SLY,), 0.01, 7),
    Step("search", (SLY,), (), 0.01, None, SLY),
)
ANSWERED = Answered(SLY, CONTEXT, SLY, EXCERPT, 0.5)
FIGURES = Spent(3, 0, 100, 10)
PLOT = Plot("sweep", "share", "accuracy", {"gate": [[1.0, 0.5], [0.5, 0.75]]}, {"always": 0.5})
VALUES = [
    PASSAGE,
    LABELS,
    BiLabelScore(0.5),
    EXCERPT,
    CONTEXT,
    Context(SLY),
    CONTEXT.decision,
    Draft(SLY, (-0.5,)),
    *STEPS,
    Traced(CONTEXT, STEPS),
    Traced(ValueError(SLY), STEPS),
    Traced(ANSWERED, STEPS),
    Traced({SLY: SLY}),
    ANSWERED,
    Refined((EXCERPT,), (SLY,), {SLY: SLY}),
    FittedThreshold(0.5, SLY, SLY, SLY, 10, 0.4, 0.6, 0.95),
    FIGURES,
    PLOT,
    cite(CONTEXT, f"{SLY} [1] [2]"),
    cite(CONTEXT, "[1]").citations[0],
    explain_compression(SLY, [PASSAGE], scorer=lambda pairs: [LABELS] * len(pairs)),
]
OURS = {"div", "b", "table", "thead", "tbody", "tr", "th", "td", "mark", "details", "summary"}


class Seen(HTMLParser):
    """Collect tags and attributes as a browser would; text that is read as a tag would show."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.open = set(), set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def ids(value):
    return type(value).__name__


@pytest.mark.parametrize("value", VALUES, ids=ids)
def test_html_is_escaped_closed_and_fetches_nothing(value):
    shown = value._repr_html_()
    seen = Seen()
    seen.feed(shown)
    seen.close()
    assert seen.open == []
    assert seen.tags <= OURS | {"span"}
    assert seen.attributes <= {"style", "dir", "open"}
    assert "\u202e" not in shown
    assert "url(" not in shown
    shown.encode("utf-8")


@pytest.mark.parametrize("value", VALUES, ids=ids)
def test_a_string_is_one_short_line_that_sends_a_terminal_no_commands(value):
    assert "\n" not in str(value)
    assert 0 < len(str(value)) < 500
    for shown in (str(value), value.explain() if hasattr(value, "explain") else ""):
        assert re.findall(r"[^\n\t -~…→·–]", shown) == []


@pytest.mark.parametrize("value", VALUES, ids=ids)
def test_a_value_still_pickles_and_keeps_no_dict(value):
    if isinstance(getattr(value, "outcome", None), ValueError):
        return  # two equal errors are not equal to Python
    assert pickle.loads(pickle.dumps(value)) == value
    if not isinstance(value, list):
        assert not hasattr(value, "__dict__")


FILM = Passage("film", "Amarcord is a film. Rota wrote the score.", "Amarcord")
KEPT = Excerpt(FILM, 20, 41, 1.3, LABELS)
PLAIN = Context(
    "Who wrote the score?",
    (KEPT,),
    decision=RetrievalDecision(True, 0.25, 0.5, "unsure"),
    notes=("no web",),
)


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (FILM, "Amarcord: Amarcord is a film. Rota wrote the score."),
        (LABELS, "has_answer 0.90, llm_prefer 0.40, sum 1.30"),
        (BiLabelScore(0.5), "has_answer 0.50"),
        (KEPT, "Amarcord [20:41] 1.30: Rota wrote the score."),
        (PLAIN.decision, "retrieve, p_known 0.25, threshold 0.50: unsure"),
        (RetrievalDecision(False), "do not retrieve"),
        (PLAIN, "Who wrote the score? -> retrieve, kept 1 excerpts of 1 passages, 1 notes"),
        (
            Context("Who?", action="correct"),
            "Who? -> action correct, kept 0 excerpts of 0 passages",
        ),
        (Step("score", (1, 2), (0.5, 1.0), 0.002), "score: 2 asked, 2.0 ms -> from 0.50 to 1.00"),
        (Traced(ValueError("no luck")), "failed: ValueError: no luck (0 steps, 0.0 ms)"),
        (
            Spent(3, 0, 100, 10),
            "Spent: retriever_calls 3, llm_calls 0, tokens_in 100, tokens_out 10",
        ),
        (Action.CORRECT, "correct"),
    ],
)
def test_the_line_says_what_matters(value, line):
    assert str(value) == line


def test_a_context_explains_itself_as_its_trace_does():
    assert PLAIN.explain().splitlines() == [
        "question: Who wrote the score?",
        "decision: retrieve, p_known 0.25, threshold 0.50: unsure",
        "kept 1 excerpts",
        "  Amarcord [20:41] 1.30: Rota wrote the score.",
        "note: no web",
    ]
    assert Traced(PLAIN).explain() == PLAIN.explain()
    assert KEPT.explain().splitlines()[1:] == [
        "labels: has_answer 0.90, llm_prefer 0.40, sum 1.30",
        "text: Rota wrote the score.",
    ]


def test_a_passage_is_shown_whole_with_what_was_kept_marked():
    for value in (KEPT, PLAIN, Traced(PLAIN)):
        shown = value._repr_html_()
        assert re.findall(r"<mark[^>]*>([^<]*)</mark>", shown) == ["Rota wrote the score."]
        assert "Amarcord is a film. <mark" in shown


def test_a_result_shows_what_it_holds_as_a_table():
    assert PLOT._repr_html_().count("<tr>") == 6  # its fields
    assert "series" in PLOT.explain()


def test_unseen_signs_are_named_and_harmless_ones_stay():
    assert escaped("a\u202eb\x00\ud800") == "a&lt;U+202E&gt;b&lt;U+0000&gt;&lt;U+D800&gt;"
    assert escaped("שלום\u200f 👩\u200d🔬\n\tx\u00a0y") == "שלום\u200f 👩\u200d🔬\n\tx\u00a0y"
    assert escaped("<a href='x'>&\"") == "&lt;a href=&#x27;x&#x27;&gt;&amp;&quot;"


def test_marks_overlap_and_touch_as_one():
    shown = marked("abc def", merge_spans("abc def", [(4, 5), (0, 2), (1, 3)]))
    assert re.findall(r"<mark[^>]*>([^<]*)</mark>", shown) == ["abc d"]
    assert marked("<b>", []) == "&lt;b&gt;"
    assert "<thead>" not in table((), [("a",)])
