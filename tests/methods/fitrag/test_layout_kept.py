"""What the bundled models keep of lists, tables and code: with what makes it readable."""

import pytest

from fitrag_integrations import compress
from fitrag_integrations.flow import run
from fitrag_integrations.methods.fitrag.method import TokenReducer
from fitrag_integrations.methods.prompts import render_excerpts
from fitrag_integrations.types import BiLabelScore, Passage

PORTS = """\
# Metrics

Every service says on which port it listens. Operators use the port list when they open the wall.

| service | port |
|---------|------|
| web | 8080 |
| metrics | 9464 |
| admin | 7010 |

A port that is in use cannot be used again. The endpoint is restarted with the service.
"""
STEPS = """\
# Winter

The house stands empty from November on. It is cold, and nobody looks after it for weeks.

Before the first frost:

- drain the pipes in the garden
- shut the attic windows
- set the heating to 9 degrees
- cover the well
- bring in the ladder
- take the meter readings
- leave a key with the neighbor

In spring all of that is undone. The neighbor likes cake.
"""
CODE = """\
# Sending

A client needs a name and a secret. Both come by mail and stay valid for a year.

Send a message:

```python
client = Client("name")

with client.open(timeout=3) as line:

    line.send("hello")
```

The message is sent when the line is closed. Errors are raised at that time too.
"""
BADGES = """\
# Heron

[![Build of Heron](https://a.example/b.svg)](https://a.example) \
[![License of Heron](https://a.example/l.svg)](https://a.example/l)

- [License of Heron](#license)
- [What Heron is](#what)

Heron is a store for numbers. It was written for stations that are offline for days at a time.

It is free software under the Mozilla Public License. Changes are welcome, and so are questions.
"""


def kept(question, text, **settings):
    return compress(question, [text], **settings)


def test_a_table_row_is_found_and_keeps_its_header():
    (row, *_) = kept("Which port does the metrics endpoint use?", PORTS, max_tokens=40)
    assert "| service | port |\n|---------|------|\n" in row.text
    assert row.text.endswith("| metrics | 9464 |")


def test_a_list_item_keeps_its_lead_in_line():
    found = kept("To how many degrees is the heating set before the frost?", STEPS, max_tokens=30)
    assert found[0].text.startswith("Before the first frost:\n…\n")
    assert "- set the heating to 9 degrees" in found[0].text
    shown = render_excerpts(kept("What is done before the frost?", STEPS, max_tokens=70))
    assert shown.count("Before the first frost:") == 1


def test_code_stays_whole_with_its_lead_in_line():
    found = kept("How do I open a client and send a message?", CODE, max_tokens=90)
    block = CODE[CODE.index("Send a message:") : CODE.index("The message is")].strip()
    assert any(block in one.text for one in found)


def test_links_and_badges_come_last():
    found = kept("What is the license of Heron?", BADGES, max_tokens=40)
    assert "Mozilla Public License" in found[0].text
    assert not any("](" in one.text for one in found)
    everything = kept("What is the license of Heron?", BADGES, max_share=1.0)
    assert any("only links or badges" in note for note in everything.context.notes)
    links = "- [License](#license)\n- [Install](#install)"
    assert kept("What is the license?", links, max_share=1.0)[0].score > 0  # nothing but links


class Recorder:
    """Scores spans by a table, and records which it was given."""

    name = "recorder"

    def __init__(self, logits):
        self.logits, self.spans = logits, []

    def score(self, pairs):
        return [BiLabelScore(0.5, 0.5) for _ in pairs]

    def score_sentences(self, items):
        self.spans = [passage.text[a:b] for _, passage, spans in items for a, b in spans]
        whole = BiLabelScore(0.5, has_answer_logit=0.0)
        logits = (self.logits.get(text, -2.0) for text in self.spans)
        return [
            (whole, [BiLabelScore(0.5, has_answer_logit=next(logits)) for _ in spans])
            for _, _, spans in items
        ]


def test_a_window_with_a_lead_is_judged_with_it_too():
    text = "a\tb\nweb\t80\nfar\t90\n\nEnd is here."
    together = "a\tb\nweb\t80"
    scorer = Recorder({"web\t80": 1.0, together: 3.0})
    reducer = TokenReducer(scorer=scorer, max_share=1.0, detector=False)
    found = run(reducer.context("q", [Passage("p", text)])).value
    assert together in scorer.spans and "a\tb\nweb\t80\nfar\t90" in scorer.spans
    (kept,) = found.excerpts
    assert kept.labels.has_answer_logit == 2.0
    assert kept.score == pytest.approx(0.8808, abs=1e-4)


SECTIONS = {
    "Markdown": """\
# Files

Files are kept in folders. A folder holds up to a thousand files.

## Trash

A deleted file goes to the trash. It stays there for thirty days, then it is gone.

## Quota

Each account has ten gigabytes. What is in the trash counts.

## See also
""",
    "reStructuredText": """\
Files
=====

Files are kept in folders. A folder holds up to a thousand files.

Trash
-----

A deleted file goes to the trash. It stays there for thirty days, then it is gone.

Quota
-----

Each account has ten gigabytes. What is in the trash counts.

See also
--------
""",
}
HEADS = ("# Files", "## Trash", "## Quota", "## See also", "=====", "-----", "--------")
ASKED = ("How many files does a folder hold?", "How long do files stay in the trash?", "The quota?")


@pytest.mark.parametrize("name", SECTIONS)
@pytest.mark.parametrize("question", ASKED)
def test_no_excerpt_ends_in_a_heading(name, question):
    for settings in (
        *({"max_tokens": most} for most in (2, 6, 10, 20, 30, 45, 90)),
        {"max_share": 0.9},
        {"window": 3, "max_tokens": 60},
        {"window": 2},
    ):
        for one in compress(question, [SECTIONS[name]], **settings):
            assert one.text.strip() and not one.text.rstrip().endswith(HEADS), settings


def test_a_heading_is_kept_with_the_sentence_under_it():
    kept = compress("How long do deleted files stay?", [SECTIONS["Markdown"]], max_tokens=60)
    shown = "\n".join(one.text for one in kept)
    assert "## Trash\n\nA deleted file goes to the trash." in shown
    (alone,) = compress("What is it?", ["## The trash\n"])
    assert alone.text == "## The trash"
    bold = compress("What is the total?", ["It is due on Monday.\n\n**Total: 42 euros**"])
    assert any("**Total: 42 euros**" in one.text for one in bold)
