"""Blocks of lists, tables and code, what each is shown with, and blocks of links."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fitrag_integrations.text.blocks import CODE, HEADER, ITEM, blocks_of, is_table
from fitrag_integrations.text.layout import (
    is_blob,
    is_links,
    leads_of,
    named_by,
    under_heading,
    units_of,
)
from fitrag_integrations.text.sentences import MAX_CODE, split_sentences


def led(text):
    """Map each sentence to its lead, both as text; headings and lead-in lines have None."""
    spans = split_sentences(text)
    shown = [
        lead and [text[slice(*span)] for span in lead] for lead, _ in leads_of(text, tuple(spans))
    ]
    return {text[slice(*span)]: lead for span, lead in zip(spans, shown, strict=True)}


PIPES = "| port | use |\n|---|---|"
LEADS = {
    "prose": ("One is. Two is.\nThree is.", "Two is.", ()),
    "list under its lead-in": ("# A\n\nYou need:\n\n- one\n- two", "- two", ["You need:"]),
    "list under its heading": ("# A\n\nText here.\n\n- one\n- two", "- two", ["# A"]),
    "list under a short line": ("Fees\n- one\n- two", "- two", ["Fees"]),
    "nested list": ("- a\n  - b\n    - c\n- d", "- c", ["- a", "- b"]),
    "sibling after a nested list": ("Do:\n- a\n  - b\n- d", "- d", ["Do:"]),
    "paragraph of an item": ("1. a\n\n   Then b.\n\n2. c", "Then b.", ["1. a"]),
    "further sentence": ("Do:\n- A one. A two.", "A two.", ["Do:", "- A one."]),
    "list run together": ("• One a.\nSells: • two • three", "• three", ()),
    "after the list": ("Do:\n- a\n\nThe end is here.", "The end is here.", ()),
    "pipes": (f"Text.\n\n{PIPES}\n| 1 | a |\n| 2 | b |", "| 2 | b |", [PIPES]),
    "open pipes": ("port | use\n--- | ---\n1 | a\n2 | b", "2 | b", ["port | use\n--- | ---"]),
    "pipes without a line": ("|port|use|\n|1|a|\n|2|b|", "|2|b|", ["|port|use|"]),
    "tabs": ("port\tuse\n1\ta\n2\tb", "2\tb", ["port\tuse"]),
    "columns": ("PORT    USE\n1       a\n22      b", "22      b", ["PORT    USE"]),
    "grid": (
        "+--+--+\n|A |B |\n+==+==+\n|1 |2 |\n+--+--+\n|3 |4 |\n+--+--+",
        "|3 |4 |\n+--+--+",
        ["+--+--+\n|A |B |\n+==+==+"],
    ),
    "simple table": (
        "==  ==\nA   B\n==  ==\n1   2\n3   4\n==  ==",
        "3   4\n==  ==",
        ["==  ==\nA   B\n==  =="],
    ),
    "fenced code": ("Run:\n\n```\na\n\nb\n```", "```\na\n\nb\n```", ["Run:"]),
    "literal block": ("Run it::\n\n    a. B\n\n    c\n\nEnd.", "a. B\n\n    c", ["Run it::"]),
    "indented code": ("Set this:\n\n    a = 1\n    b = 2\n", "a = 1\n    b = 2", ["Set this:"]),
    "directive": ("Use\n===\n\n.. code:: py\n\n   x\n", ".. code:: py\n\n   x", ["Use\n==="]),
    "prompt": ("Try\n---\n\n>>> f(1)\n2\n", ">>> f(1)\n2", ["Try\n---"]),
    "code in an item": ("1. Run:\n\n   ```\n   a\n   ```", "```\n   a\n   ```", ["1. Run:"]),
    "options": (
        "OPTIONS\n       -n, --dry\n              Print it. Stop.",
        "Stop.",
        ["OPTIONS", "-n, --dry\n              Print it."],
    ),
    "usage": ("options:\n  -h, --help  show\n  --x N       so often", "--x N       so often",
              ["options:"]),
    "fields": ("f(x)\n====\n\n:param x: width\n:returns: y", ":returns: y", ["f(x)\n===="]),
    "arguments": ("Args:\n    a (int): One.\n    b: Two.", "b: Two.", ["Args:"]),
    "definitions": ("Terms\n=====\n\nslot\n    Room for a task.\n\nlease\n    A right.",
                    "lease\n    A right.", ["Terms\n====="]),
    "markdown definitions": ("# W\n\nkey\n:   A picture.\n", "key\n:   A picture.", ["# W"]),
}  # fmt: skip


@pytest.mark.parametrize("name", LEADS)
def test_what_a_piece_is_shown_with(name):
    text, piece, lead = LEADS[name]
    assert led(text)[piece] == (lead or ())
    for opener in ("# A", "You need:", "Fees", "Run:", "OPTIONS"):
        if opener in lead:
            assert led(text)[opener] is None  # shown with others, and not by itself


def test_numbered_items_keep_their_further_lines():
    text = "1. Freeze the branch\n   Nobody merges now\n2. Tag it"
    assert [text[slice(*span)] for span in split_sentences(text)] == [
        "1. Freeze the branch\n   Nobody merges now",
        "2. Tag it",
    ]


def test_indented_prose_is_no_code():
    for text in (
        "Chapter\n\n    It was dark. We sat and talked.\n    He left.",
        "    It was dark.\n",
    ):
        assert CODE not in {block.kind for block in blocks_of(text)}
    novel = (
        "Chapter one\n    It was a dark and stormy night, and the rain fell in\ntorrents. He left."
    )
    assert ITEM not in {block.kind for block in blocks_of(novel)}


def test_items_in_columns_are_items_and_a_lone_border_is_no_table():
    assert {block.kind for block in blocks_of("- a  b\n- c  d\n- e  f\n")} == {ITEM}
    assert HEADER not in {block.kind for block in blocks_of("==  ==\n\nA   B\n")}


def test_a_first_row_with_numbers_is_no_header():
    assert HEADER not in {block.kind for block in blocks_of("web\t80\nmail\t25\nssh\t22\n")}


def test_code_is_cut_at_blank_lines_only_where_it_is_very_long():
    part = "def f():\n" + "    x = 1. \n" * 60
    text = "```\n" + f"{part}\n" * 9 + "```"
    pieces = [text[slice(*span)] for span in split_sentences(text)]
    assert len(pieces) > 1 and all(len(piece) <= MAX_CODE for piece in pieces)
    assert all(piece.startswith(("```", "def f")) for piece in pieces)
    short = f"```\n{part}\n{part}\n```"
    assert split_sentences(short) == [(0, len(short))]


UNITS = {
    "prose under headings": (
        "# A\n\n## B\n\nOne is. Two is.",
        ["# A\n\n## B\n\nOne is.", "Two is."],
    ),
    "nothing under it": ("One is.\n\nEnd\n---\n", ["One is."]),
    "nothing else": ("# A\n\n# B\n", ["# A", "# B"]),
    "a bold line at the end": ("# A\n\nOne is.\n\n**Two**", ["# A\n\nOne is.", "**Two**"]),
    "a list": ("# A\n\n## B\n\n- one\n- two", ["# A", "## B", "- one", "- two"]),
}


@pytest.mark.parametrize("name", UNITS)
def test_headings_belong_to_what_is_under_them(name):
    text, units = UNITS[name]
    assert [text[slice(*span)] for span, _ in units_of(text, split_sentences(text))] == units


@pytest.mark.parametrize(
    ("text", "rest"),
    [("# A\n\nB is.", "B is."), ("# A\n\n    b = 1", "    b = 1"), ("# A", "# A"), ("B", "B")],
)
def test_what_is_under_the_headings_of_a_text(text, rest):
    assert text[under_heading(text) :] == rest


@pytest.mark.parametrize(
    ("question", "texts", "places"),
    [
        ("Which port does the metrics endpoint use?", ["web | 8080", "metrics | 9464"], [1]),
        ("What does E17 mean?", ["E02 jam", "E17 hot", "E5 what it means"], [1]),
        ("What is the port of the web?", ["the port is 1", "the port is 2"], []),
        ("Neighboring countries?", ["Home", "Neighbors"], [1]),
        ("Metrics?", ["metrics"], [0]),
        ("Metrics?", [], []),
    ],
)
def test_rows_that_a_question_names(question, texts, places):
    assert named_by(question, texts) == places


OPTION = "### `timeout`"
ADMONITION = "> [!NOTE]\n> Mind it.\n\n====\n\n.. note::\n\n   Be careful.\n\n.. warning::\n"
SHOWN = {
    # what names it: a heading, an option, a term, a row
    "a value under a heading": (
        f"{OPTION}\n\nHow long to wait.\n\n*Default*: 30\n",
        [((), f"{OPTION}\n\nHow long to wait."), ((OPTION,), "*Default*: 30")],
    ),
    "a further sentence of an option": (
        f"{OPTION}\n\nHow long to wait. In seconds.",
        [((), f"{OPTION}\n\nHow long to wait."), ((OPTION,), "In seconds.")],
    ),
    "a value under a heading of words": (
        "## How to wait\n\nIt waits for a reply.\n\nDefault: 30\n\nIt is a long story.",
        [((), "## How to wait\n\nIt waits for a reply."), (("## How to wait",), "Default: 30"),
         ((), "It is a long story.")],
    ),
    "an option with its type, and what else it leads": (
        "#### wait (integer)\n\nSeconds. Never none.\n\n- Default: 30\n",
        [(("#### wait (integer)",), "Seconds."), (("#### wait (integer)",), "Never none."),
         (("#### wait (integer)",), "- Default: 30")],
    ),
    "an option of reStructuredText": (
        ".. option:: --jobs N\n\n   Jobs at once.\n\n   Default: 4\n\nThe end is here.",
        [((".. option:: --jobs N",), "Jobs at once."), ((".. option:: --jobs N",), "Default: 4"),
         ((), "The end is here.")],
    ),
    "its fields": (
        ".. confval:: jobs\n   :type: int\n   :default: 4\n",
        [((".. confval:: jobs",), ":type: int"), ((".. confval:: jobs",), ":default: 4")],
    ),
    "a row with two sentences": (
        f"{PIPES}\n| 80 | It is. For web. |\n| 25 | Mail. Old. |",
        [((PIPES,), "| 80 | It is. For web. |"), ((PIPES,), "| 25 | Mail. Old. |")],
    ),
    "a long row": (
        f"{PIPES}\n| 80 | It is {'very ' * 50}long. Rarely used. |\n| 25 | Mail. |",
        [((PIPES,), f"| 80 | It is {'very ' * 50}long."), ((PIPES, "| 80"), "Rarely used. |"),
         ((PIPES,), "| 25 | Mail. |")],
    ),
    # what announces or asks is shown with what follows
    "a command": (
        "This starts it again.\n\n```\nmake x\n```",
        [((), "This starts it again."), (("This starts it again.",), "```\nmake x\n```")],
    ),
    "a label": ("Notes:\n\nIt is fast.\n\nSteps:\n", [((), "Notes:\n\nIt is fast.")]),
    "a question": (
        "Q: What is it?\nA: A pump. It is red.",
        [((), "Q: What is it?\nA: A pump."), (("Q: What is it?",), "It is red.")],
    ),
    "a question as a heading": (
        "**Where?**\n\nIn the cellar.", [((), "**Where?**\n\nIn the cellar.")]
    ),
    # what says nothing
    "rulers and bare directives": (ADMONITION, [((), "> Mind it."), ((), "Be careful.")]),
    "torn ends": (
        "ing of the town. It has forty pupils. The", [((), "It has forty pupils.")]
    ),
    "no torn end": ("It is so. In 1912", [((), "It is so."), ((), "In 1912")]),
    "nothing else": ("====", [((), "====")]),
    # what takes back the sentence before stays with it
    "instead": (
        "It copies files. This option makes links instead. It is fast.",
        [((), "It copies files. This option makes links instead."), ((), "It is fast.")],
    ),
    "however": ("It is on. However, it may be off.", [((), "It is on. However, it may be off.")]),
    "a reference": (
        "- It holds now. (#12, #15)\n- It is new.\n",
        [((), "- It holds now. (#12, #15)"), ((), "- It is new.")],
    ),
    "unless": (
        "It waits. Unless you say so. Fine.",
        [((), "It waits. Unless you say so."), ((), "Fine.")],
    ),
    "instead of": (
        "It is old. Use it instead of X.", [((), "It is old."), ((), "Use it instead of X.")]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_no_piece_is_shown_without_what_names_it(name):
    text, shown = SHOWN[name]
    units = units_of(text, split_sentences(text))
    found = [
        (tuple(text[slice(*one)] for one in lead), text[slice(*span)])
        for span, lead in units
        if lead is not None
    ]
    assert found == shown


HASH = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
BASE64 = "RCCCPP3m8cJrMPkOx90B5Ih1NKIPCw0Ew27YDnHg/XewdnDrlA+t" * 12
SCRIPT = "!function(e,t){var n=e.a;for(var i=0;i<n.length;i++){t.push(n[i])}}(this,{});" * 9
BLOBS = [
    BASE64,
    f"![x](data:image/png;base64,{BASE64}",
    "-----BEGIN CERTIFICATE-----\n" + "\n".join(BASE64[at : at + 64] for at in range(0, 600, 64)),
    f"sha256:{HASH}",
    f'"integrity": "sha512-{BASE64[:86]}=="',
    SCRIPT[:800],
    ".a{color:red;margin:0}.b>c{display:none;width:10px}" * 9,
]
NO_BLOBS = [
    f"{HASH}  pump-1.0.tar.gz",
    '{"logger":"X23","lot":"L-851"},' * 8,
    "<tr><td>a</td><td>b</td></tr>" * 12,
    "https://example.org/docs/how-to-install-the-new-version-of-the-tool/2024/index.html",
    "/usr/local/lib/python3/dist-packages/pumps_of_the_town/embedded/handbook",
    "他写了配乐。" * 40,
    "x = foo(bar(1), baz=2)\ny = {1: 2}\n" * 8,
    "",
]


@pytest.mark.parametrize("text", [*BLOBS, *NO_BLOBS])
def test_data_is_told_from_text(text):
    assert is_blob(text) is (text in BLOBS)


LINKS = [
    "[![Build](https://a.b/c.svg)](https://a.b) [![Cover](https://d.e/f.svg)](https://d.e)",
    "- [Install](#install)",
    "[Home](/) · [Docs](/docs) | [API](/api)",
    ".. image:: https://a.b/c.svg\n   :target: https://a.b\n   :alt: Build",
    "`Documentation <https://a.b>`_",
    "https://example.org/a/b",
    "Introduction . . . . . . . . 3",
    '<a href="https://a.b"><img src="https://a.b/c.svg"></a>',
]
TEXTS = [
    "",
    "Download it from https://example.org/a/b/c/d/e/f/g/h.",
    "See [the guide](https://example.org/guide) for more about this.",
    "- [`--port`](#port): the port to listen on",
    "a[0] = b[1]",
    "...",
    "| 9464 |",
    "----",
]


@pytest.mark.parametrize("text", [*LINKS, *TEXTS])
def test_blocks_of_links_and_of_more_than_links(text):
    assert is_links(text) is (text in LINKS)


LINES = """\
# H
====
----
- a
  - b
1. c
   d
a | b
--- | ---
| x | y |
|---|---|
a\tb
+--+--+
|A |B |
==  ==
A   B
```
    x = 1
>>> f()
Run:
Run::
:p x: y
--foo  bar
One is. Two is.

.. code:: py
term
    It is.
: that
OPTIONS
[a](b)
NAME    PORT
web     80
""".splitlines()


@settings(max_examples=300)
@given(st.lists(st.sampled_from(LINES), max_size=14).map("\n".join))
def test_blocks_are_the_whole_text_and_leads_stand_before(text):
    at = 0
    for block in blocks_of(text):
        assert block.start == at < block.end
        at = block.end
    assert at == len(text)
    spans = split_sentences(text)
    leads = [lead for lead, _ in leads_of(text, tuple(spans))]
    assert len(leads) == len(spans)
    for (start, _), lead in zip(spans, leads, strict=True):
        before = 0
        for first, last in lead or ():
            assert before <= first < last <= start and {first} <= {at for at, _ in spans}
            before = last
    assert not spans or any(lead is not None for lead in leads)


@pytest.mark.parametrize(
    ("text", "leads"),
    [
        ("| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |", True),
        ("+---+---+\n| a | b |\n+===+===+\n| 1 | 2 |\n+---+---+", True),
        ("| a | b |\n|---|---|\n", False),
        (" NAME   SIZE\n foo    12\n bar    13\n", False),  # it may be a row like the others
    ],
    ids=["ruled", "grid", "nothing under it", "guessed"],
)
def test_a_header_row_that_is_set_off_is_shown_with_its_rows_alone(text, leads):
    assert (leads_of(text, tuple(split_sentences(text)))[0][0] is None) is leads


def test_a_text_is_a_table_by_the_share_of_its_rows():
    table = "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n"
    assert is_table(table) and is_table("Figures of both\n\n" + table)
    assert not is_table(table + "They rose, as in every year before. " * 3)
    assert not is_table("") and not is_table("It rose.")
