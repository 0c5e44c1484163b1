"""Records: cut between them, or between members that show the keys they belong to."""

import json

import pytest

from fitrag_integrations.text.layout import units_of
from fitrag_integrations.text.records import MAX_RECORD, records_of
from fitrag_integrations.text.sentences import split_sentences
from fitrag_integrations.types import Passage
from fitrag_integrations.values.windows import windows

SERVICES = [
    {
        "name": f"svc-{n}",
        "network": {"host": f"10.0.0.{n}", "port": 8000 + n, "protocols": ["http", "grpc"]},
        "limits": {"memory": f"{n * 128}Mi", "cpu": n / 10},
    }
    for n in range(1, 6)
]
LONG = [{**one, "text": "A long tale follows. " * 60} for one in SERVICES]
YAML = "".join(
    f"- name: svc-{n}\n  network:\n    host: 10.0.0.{n}\n    port: {8000 + n}\n"
    f"  limits:\n    memory: {n * 128}Mi\n"
    for n in range(1, 6)
)
KEYED = {one["name"]: one for one in SERVICES}
TABLE = "<table><thead><tr><th>name</th><th>port</th></tr></thead><tbody>{}</tbody></table>"
TEXTS = {
    "minified": json.dumps(SERVICES, separators=(",", ":")),
    "pretty": json.dumps(SERVICES, indent=2),
    "lines": "\n".join(map(json.dumps, SERVICES)),
    "keyed": json.dumps({"version": 2, "services": KEYED}, indent=1),
    "long": json.dumps(LONG),
    "cut": json.dumps(SERVICES, indent=2)[7:-9],
    "yaml": YAML,
    "html": TABLE.format("".join(
        f"<tr><td>svc-{n}</td><td>{8000 + n}</td></tr>\n" for n in range(1, 6)
    )),
    "xml": "".join(f"<s><name>svc-{n}</name><port>{8000 + n}</port></s>" for n in range(1, 6)),
}  # fmt: skip


def shown(text):
    return [one.text for one in windows(Passage("p", text), size=1)]


@pytest.mark.parametrize("name", TEXTS)
def test_what_has_a_value_has_its_name_and_its_record(name):
    for n in range(1, 6):
        (found,) = (one for one in shown(TEXTS[name]) if str(8000 + n) in one)
        assert f"svc-{n}" in found
        assert "port" in found
        assert str(8001 + n % 5) not in found


@pytest.mark.parametrize("name", TEXTS)
def test_parts_cover_the_text_in_order(name):
    text = TEXTS[name]
    for parts in (records_of(text), records_of(text, longest=0)):
        at = 0
        for part in parts:
            assert not text[at : part.start].strip()
            assert all(a < b <= part.end for a, b in part.lead)
            at = part.end
        assert not text[at:].strip()


def test_what_is_too_long_is_led_by_its_keys():
    text = json.dumps({"services": {"web": {"text": "It is long. " * 50, "port": 80}}})
    units = units_of(text, split_sentences(text))
    leads = [[text[a:b] for a, b in lead] for _, lead in units]
    assert leads[0] == []
    assert leads[1] == ['"services":', '"web":', '"text":']
    assert leads[-1] == ['"services":', '"web":']
    assert len(text) > MAX_RECORD


@pytest.mark.parametrize(
    "text",
    [
        'He said "hi": it was "nice": so.',
        "Joey: Hi.\nRoss: Hello: you.\nJoey: What?",
        "- Source: a page.\n- Licence: MIT.\n- Fields: id, set.",
        "# Title\n\nYou need:\n\n- a: one\n- b: two\n",
        "<p>It is <b>long</b>.</p> And <a href='x'>this</a> is a text of its own.",
        "[1] It is so. [2] It is not.",
        "{{ template }} of {{ two }}",
    ],
)
def test_other_texts_are_no_records(text):
    assert records_of(text) == ()
