"""The report as text: what it holds, that nothing escapes, and that it asks for nothing."""

import base64
import csv
import hashlib
import io
import re
from html import unescape
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest

from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.evaluation.figure import interval, number, signed
from fitrag_integrations.evaluation.report import drawings, html_report
from fitrag_integrations.evaluation.report.page import findings, tiles
from fitrag_integrations.evaluation.report.questions import BUDGET, excerpts, questions
from fitrag_integrations.evaluation.report.tables import tables
from fitrag_integrations.evaluation.result import Plot, Result

SVG = "data:image/svg+xml;base64,"
EVIL = "</script><script>alert('x')</script>&<b title=\"'>"
LINE = {
    "questions": 4,
    "errors": 0,
    "f1": 0.5,
    "retrieval": 1.0,
    "retriever_calls": 1.0,
    "llm_calls": 1.0,
    "tokens_in": 1000.0,
    "tokens_out": 10.0,
    "seconds": 0.25,
    "noted": 0.0,
    "difference": None,
    "low": None,
    "high": None,
}


class Tags(HTMLParser):
    """Collect every tag with its attributes."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def asked(system, number, right, **more):
    return {
        "id": str(number),
        "question": f"Who built mill {number}?",
        "answers": ["Ann"],
        "system": system,
        "prediction": "Ann" if right else "Bob",
        "values": {"accuracy": float(right), "tokens_in": 12.0},
        **more,
    }


def methods(**more):
    """Give two methods over four questions: two and three of them right."""
    figures = [
        {**LINE, "method": "direct", "accuracy": 0.5},
        {**LINE, "method": "fitrag", "accuracy": 0.75, "tokens_in": 400.0}
        | {"difference": 0.25, "low": 0.1, "high": 0.5},
    ]
    rows = [asked("direct", i, i < 2) for i in range(4)]
    rows += [asked("fitrag", i, i < 3) for i in range(4)]
    return Result("methods", figures, rows, {"seed": 0, "resamples": 100}, **more)


def answers():
    def row(figure, system, value, **more):
        return {"figure": figure, "set": "all", "system": system, "value": value, **more}

    compared = {"difference": -0.2, "difference_low": -0.4, "difference_high": 0.1, "p": 0.04}
    figures = [
        row("accuracy", "one", 0.6, low=0.4, high=0.8),
        row("accuracy", "two", 0.4, low=0.2, high=0.6, **compared),
        row("tokens_in", "one", 900.0),
    ]
    return Result("answers", figures)


def images(page):
    """Return the drawings of a page as SVG."""
    pytest.importorskip("matplotlib")
    found = re.findall(rf'src="{re.escape(SVG)}([^"]+)"', page)
    return [base64.b64decode(unescape(one)).decode() for one in found]


def cells(table):
    return [[cell.text for cell in row] for row in table.rows]


def test_the_page_asks_for_nothing_and_runs_only_its_own_script():
    page = html_report([methods()], title="Mills")
    for tag, given in Tags(page).found:
        assert tag not in {"iframe", "object", "embed", "form", "base"}
        assert not [name for name in given if name.startswith("on") or name == "style"]
        assert given.get("href", "#").startswith(("#", "data:,"))
        assert given.get("src", SVG).startswith(SVG)
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy.startswith("default-src &#39;none&#39;; img-src data:;")
    for kind in ("style", "script"):
        (own,) = re.findall(rf"<{kind}>(.*?)</{kind}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
        assert f"{kind}-src &#39;sha256-{digest}&#39;" in policy


def test_ids_are_there_once_and_every_reference_leads_somewhere():
    tags = Tags(html_report([methods(), methods()], prices=Prices(1, 2))).found
    ids = [given["id"] for _, given in tags if "id" in given]
    assert len(ids) == len(set(ids))
    for _, given in tags:
        for name in given.get("aria-labelledby", "").split():
            assert name in ids
        if given.get("href", "").startswith("#"):
            assert given["href"][1:] in ids


def test_texts_are_escaped_wherever_they_stand():
    evil = {"explained": EVIL, "notes": [EVIL], "error": EVIL, "set": EVIL}
    evil |= {"decision": {"retrieve": False, "why": EVIL}, "action": EVIL}
    rows = [asked(EVIL, 1, True, question=EVIL, answers=[EVIL], prediction=EVIL, **evil)]
    plot = Plot(EVIL, EVIL, EVIL, {EVIL: [[0, 1], [1, 2]]}, levels={EVIL: 1.5})
    figures = [{**LINE, "method": EVIL, "accuracy": 0.5}]
    result = Result("methods", figures, rows, {EVIL: {EVIL: EVIL}}, (plot,), (EVIL,))
    page = html_report([result], title=EVIL)
    assert EVIL not in page
    assert page.count("<script>") == page.count("</script>") == 1
    assert "<b title" not in page
    assert all("<b title" not in one and "</script" not in one for one in images(page))


def test_unseen_characters_are_shown_by_their_codes_and_nothing_is_refused():
    with pytest.raises(InputError, match="at least one result"):
        html_report([])
    page = html_report([methods()], title="a\u202eb\x07c\ud83dd")
    assert "a[U+202E]b[U+0007]c[U+D83D]d" in page
    page.encode("utf-8")


def test_the_table_of_methods():
    (table,) = tables(methods(), Prices(2.0, 10.0))
    assert table.head[:3] == ["method", "accuracy", "to the first"]
    first, second = table.rows
    assert [cell.text for cell in first][:3] == ["direct", "0.500", "\N{EN DASH}"]
    assert (second[2].text, second[2].below) == ("+0.250", "+0.100 to +0.500")
    assert first[table.head.index("cost of 1,000")].text == "2.100"
    assert "cost of 1,000" not in tables(methods(), None)[0].head
    run = methods()
    run.settings["options"] = {"prices": Prices(2.0, 10.0).to_dict()}
    assert "cost of 1,000" in html_report([run]) and "cost of 1,000" not in html_report([methods()])


def test_several_results_say_how_many_questions_each_is_over():
    other = Result("gate", ({"figure": "AUC", "value": 0.75, "low": 0.5, "high": 1.0},))
    page = html_report([methods(), other])
    assert "<h3>1. Methods, 4 questions</h3>" in page
    assert "<h3>2. Deciding whether to retrieve</h3>" in page
    assert "<li>2 results</li><li>4 questions</li>" in page
    ((head, row),) = ((table.head, cells(table)[0]) for table in tables(other, None))
    assert head == ["figure", "value", "95 % interval"]
    assert row == ["AUC", "0.750", "0.500 to 1.000"]


F1 = {"figure": "F1", "first": 0.5, "second": 0.6, "questions": 7}
F1 |= {"difference": 0.1, "difference_low": -0.1, "difference_high": 0.3, "p": None}
COUNTS = [
    {"figure": "confusion", "action": "correct", "truth": truth, "value": value}
    for truth, value in (("there", 5), ("not there", 1))
]


@pytest.mark.parametrize(
    ("result", "head", "rows"),
    [
        (
            answers(),
            ["figure", "one", "two"],
            [["accuracy", "0.600", "0.400"], ["tokens_in", "900.0", "\N{EN DASH}"]],
        ),
        (
            Result("compare", [F1]),
            ["figure", "first", "second", "second less first", "questions"],
            [["F1", "0.500", "0.600", "+0.100", "7"]],
        ),
        (Result("route", COUNTS), ["action", "there", "not there"], [["correct", "5", "1"]]),
    ],
)
def test_each_kind_of_figures_has_its_table(result, head, rows):
    table = tables(result, None)[-1]
    assert (list(table.head), cells(table)) == (head, rows)


MINUS = "\N{MINUS SIGN}"


def test_intervals_and_differences_stand_below():
    (table,) = tables(answers(), None)
    below = f"0.200 to 0.600; {MINUS}0.200 ({MINUS}0.400 to +0.100, p 0.040)"
    assert [cell.below for cell in table.rows[0][1:]] == ["0.400 to 0.800", below]
    assert (signed(None), interval(None)) == ("\N{EN DASH}", "")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "\N{EN DASH}"),
        (0.12345, "0.123"),
        (-0.5, f"{MINUS}0.500"),
        (9.9996, "10.0"),
        (1234.5, "1,234"),
        (1234, "1,234"),
        (True, "True"),
        ("nan", "nan"),
    ],
)
def test_a_number_is_told_as_exactly_as_it_is_known(value, told):
    assert number(value) == told


def test_findings_say_what_chance_leaves_open():
    first, clear = findings(methods())
    assert first.startswith("fitrag has the highest accuracy: 0.750 (95 % interval")
    assert clear == "fitrag lies above direct: +0.250 (+0.100 to +0.500)."
    assert findings(answers())[1] == "Not told apart from one, since the interval holds zero: two."


def test_rows_of_a_question_come_together():
    found = questions([methods()])
    assert [(q.place, q.text) for q in found][:1] == [(1, "Who built mill 0?")]
    assert [[reply.verdict for reply in q.replies] for q in found] == [
        ["right", "right"],
        ["right", "right"],
        ["wrong", "right"],
        ["wrong", "wrong"],
    ]
    assert [q.marks for q in found] == [(), (), ("wrong", "differs"), ("wrong",)]


def test_two_runs_of_a_comparison_stand_beside_each_other():
    values = {"F1, first": 0.0, "F1, second": 1.0}
    row = {"id": "1", "question": "Who?", "system": "", "values": values}
    row["predictions"] = {"first": "Bob", "second": "Ann"}
    (found,) = questions([Result("compare", (), [row])])
    assert [(t.system, t.answer, t.values) for t in found.replies] == [
        ("(first run)", "Bob", [("F1", "0")]),
        ("(second run)", "Ann", [("F1", "1")]),
    ]


def test_what_was_kept_is_shown_between_what_stands_around_it():
    text = "aaa " * 100 + "KEPT" + " bbb" * 100
    given = {"passage": {"title": "T", "text": text}, "start": 400, "end": 404, "score": 0.5}
    ((kept,), used, missing) = excerpts([given], [], 1000)
    assert (kept.name, kept.score, kept.kept, missing) == ("T", "0.500", "KEPT", 0)
    assert kept.before == "… " + "aaa " * 59
    assert kept.after == " bbb" * 59 + " …"
    assert used == 2 * (2 + 4 * 59) + 4
    assert excerpts([given, given, "none"], [], 600)[1:] == (used, 2)


def test_a_right_answer_is_marked_in_what_was_kept():
    passage = {"title": "T", "text": "Silla, the sill. The mill stands on the Upper Sill. Done."}
    given = {"passage": passage, "start": 0, "end": 51, "score": 0.5}
    ((kept,), *_) = excerpts([given], ["Sill", "upper sill", " "], 1000)
    assert [piece for piece, right in kept.pieces if right] == ["sill", "Upper Sill"]
    assert "".join(piece for piece, _ in kept.pieces) == kept.kept
    row = asked("fitrag", 1, True, excerpts=[given])
    page = html_report([Result("methods", (), [{**row, "answers": ["Sill"]}])], lead="Worth <it>")
    assert '<b class="gold">Sill</b>' in page and "Worth &lt;it&gt;" in page


def test_long_traces_are_cut_and_it_is_said():
    rows = [asked("fitrag", i, True, explained="word " * 3000) for i in range(500)]
    page = html_report([Result("methods", (), rows)])
    assert len(page) < BUDGET + 2_000_000
    assert "characters of the trace" in page
    short = html_report([Result("methods", (), [asked("a", 1, True, explained="x")])])
    assert "Not shown" not in short


@pytest.mark.parametrize("kind", ["line", "points", "bar", "histogram"])
def test_what_is_no_number_is_left_out_of_a_drawing(kind):
    points = [["nan", "nan"], [0.5, None], [0.25, 3], [0.75, 4]]
    page = html_report([Result("gate", (), plots=(Plot("p", "x", "y", {"s": points}, kind=kind),))])
    assert "NaN" not in page
    (drawing,) = images(page)
    assert "nan" not in drawing
    empty = Result("gate", (), plots=(Plot("p", "x", "y", {"s": [["nan", None]]}, kind=kind),))
    assert not images(html_report([empty]))


def test_the_headline_is_the_best_system_beside_the_first():
    found = tiles(methods(), Prices(2.0, 10.0))
    assert found == [
        ("accuracy, fitrag", "0.750", "direct: 0.500"),
        ("tokens read a question, fitrag", "400", "direct: 1,000"),
        ("cost of 1,000 questions, fitrag", "0.900", "direct: 2.100"),
    ]
    kept = {"figure": "answer kept", "set": "all", "value": 0.5, "low": 0.25, "high": 0.75}
    ((_, *told),) = tiles(Result("compress", [kept, {**kept, "set": "odd", "value": 0.1}]), None)
    assert told == ["0.500", "0.250 to 0.750"]


def test_figures_and_questions_come_as_files_of_a_spreadsheet():
    rows = [asked("=cmd()", 1, True, explained="long " * 99)]
    page = html_report([Result("methods", [{**LINE, "method": "a", "accuracy": 1}], rows)])
    links = [given for tag, given in Tags(page).found if "download" in given]
    figures, asked_of = (
        list(csv.DictReader(io.StringIO(unquote(link["href"].removeprefix("data:,")))))
        for link in links
    )
    assert [link["download"] for link in links] == ["figures.csv", "questions.csv"]
    assert (figures[0]["method"], figures[0]["tokens_in"]) == ("a", "1000.0")
    assert (asked_of[0]["system"], asked_of[0]["accuracy"]) == ("'=cmd()", "1.0")
    assert "explained" not in asked_of[0]


def test_without_matplotlib_the_numbers_stay_and_the_extra_is_named(monkeypatch):
    plot = Plot("sweep", "share", "accuracy", {"gate": [[0.0, 0.42]]}, marks={"at $4$": (0.5, 0.6)})
    page = html_report([Result("gate", (), plots=(plot,))])
    assert "fitrag-integrations[plots]" not in page and "at $4$" in images(page)[0]
    monkeypatch.setattr(drawings, "installed", lambda name: False)
    page = html_report([Result("gate", (), plots=(plot,))])
    assert not images(page) and "fitrag-integrations[plots]" in page and "0.420" in page
