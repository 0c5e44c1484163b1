"""Records that a question names are kept, whatever they are written in, and also torn."""

import json

import pytest

from fitrag_integrations import compress, rerank
from fitrag_integrations.text.layout import identifiers
from fitrag_integrations.types import Passage

NAMES = "harbor lantern meadow quarry summit willow falcon garnet indigo juniper kestrel marble"
ROWS = [
    {"service": name, "owner": f"team {name[::-1][:4]}", "port": 8000 + 37 * n, "memory": f"{n} GB"}
    for n, name in enumerate(NAMES.split())
]
OTHER = ["The services are restarted at night.", "A port is a number. Every service has one."]
KEYED = {row["service"]: {key: row[key] for key in ("owner", "port", "memory")} for row in ROWS}
CELLS = ["".join(f"<td>{row[key]}</td>" for key in ("service", "port", "memory")) for row in ROWS]
FORMS = {
    "JSON Lines": "\n".join(map(json.dumps, ROWS)),
    "JSON": json.dumps(ROWS),
    "JSON without blanks": json.dumps(ROWS, separators=(",", ":")),
    "objects by key": json.dumps(KEYED),
    "objects by key, a line each": json.dumps(KEYED, indent=2),
    "HTML without a header row": f"<table><tr>{'</tr><tr>'.join(CELLS)}</tr></table>",
    "CSV": "\n".join(["service,owner,port", *(f"{r['service']},x,{r['port']}" for r in ROWS)]),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_record_that_is_asked_for_is_kept(form):
    kept = [asked(row, [FORMS[form]], 80) for row in ROWS]
    assert sum(kept) >= (11 if form == "HTML without a header row" else 12)


@pytest.mark.parametrize("form", [form for form in FORMS if "JSON" in form or "key" in form])
def test_and_where_its_text_was_torn_anywhere(form):
    text = FORMS[form]
    torn = [text[at : at + 500] for at in range(0, len(text), 400)]
    assert all(asked(row, torn, 120) for row in ROWS)


def asked(row, texts, most):
    question = f"Which port does {row['service']} listen on?"
    kept = compress(question, [*texts, *OTHER], max_tokens=most)
    return str(row["port"]) in "\n".join(one.text for one in kept)


PARTS = [
    f"The pump TX-{n} has a hose of {n % 7} meters and was made in {1990 + n % 20}. It weighs "
    f"{3 * n:,} grams, as the list of 2019 says."
    for n in range(4230, 4250)
]
SPELLED = {
    "as it is": ("What does TX-4241 weigh?", "12,723"),
    "joined": ("What does TX4241 weigh?", "12,723"),
    "parted": ("What does the TX 4241 weigh?", "12,723"),
    "a number": ("Which pump weighs 12723 grams?", "12,723"),
    "a number with its comma": ("Which pump weighs 12,708 grams?", "12,708"),
    "the number alone": ("What about 4233?", "TX-4233"),
}


@pytest.mark.parametrize("name", SPELLED)
def test_identifiers_are_found_however_they_are_spelled(name):
    question, answer = SPELLED[name]
    kept = "\n".join(one.text for one in compress(question, PARTS, max_tokens=80))
    assert answer in kept


VERSIONS = "4 5 6 7 8 9 10 11 12 14.04 16.04 18.04 20.04 533 534 535 03164417 3.12.1 TX-4241"
BIRDS = "heron falcon wren plover curlew dunlin avocet godwit osprey merlin kestrel petrel gannet "
BIRDS += "puffin fulmar skua tern shrike pipit"
RELEASES = [
    Passage(
        str(n),
        f"version: {version}\nname: {bird}\ndate: {n % 28 + 1:02d}/{n % 12 + 1:02d}/{2004 + n}"
        f"\nkernel: {2 + n // 5}.{n % 7}\nsupport: {(3, 5, 9, 10)[n % 4]} years",
        source="releases.csv",
    )
    for n, (version, bird) in enumerate(zip(VERSIONS.split(), BIRDS.split(), strict=True))
]


@pytest.mark.parametrize(("what", "order"), [("version", 1), ("release", -1)])
def test_a_row_is_found_by_its_version_in_any_order(what, order):
    for version, one in zip(VERSIONS.split(), RELEASES, strict=True):
        question = f"When did {what} {version} come out?"
        assert rerank(question, RELEASES[::order])[0].passage is one
        assert one in [kept.passage for kept in compress(question, RELEASES, max_tokens=100)]


def test_years_and_small_numbers_name_nothing_in_prose():
    prose = "In 1974 the 9 men of the town met at pier 4 after 12 days."
    assert identifiers(prose) == {"pier4"}
    assert identifiers("Which of the 9 men met in 1974?", asked=True) == {"9", "1974"}
    assert identifiers("| 9 | 1974 |\nage: 12,\n7,8,red") == {"9", "1974", "12", "7", "8", "age12"}


OPTIONS = {
    "cache_size": ("128MB", "Memory for pages that were read."),
    "login_timeout": ("61", "Seconds that a client may take to log in."),
    "sort_memory": ("4MB", "Memory of one sort before it spills to disk."),
    "max_clients": ("131", "Clients that may connect at once."),
    "idle_timeout": ("7200", "Seconds before a silent client is dropped."),
    "writer_delay": ("210ms", "Rest of the writer between two rounds."),
    "log_age": ("24h", "Time after which a log file is replaced."),
    "page_cost": ("4.0", "Estimate of reading a page out of order."),
}
PAGES = {
    "reST": ("", ".. option:: {name}\n\n   {text}\n\n   *Default*: ``{value}``\n\n"),
    "Markdown": ("", "`{name}`\n: {text}\n\n    Default: `{value}`\n\n"),
    "man page": ("OPTIONS\n", "  {name}\n     {text}\n     The default is {value}.\n\n"),
    "table": (
        "| Option | Default | What it is |\n|---|---|---|\n",
        "| {name} | {value} | {text} |\n",
    ),
    "flags": ("", "--{flag}\n: {text}\n\n    Default: `{value}`\n\n"),
}


@pytest.mark.parametrize(("head", "entry"), PAGES.values(), ids=PAGES)
def test_the_default_of_the_option_asked_about_is_shown(head, entry):
    def shape(name, text="", value=""):
        return {"name": name, "flag": name.replace("_", "-"), "text": text, "value": value}

    page = head + "".join(
        entry.format(**shape(name, text, value)) for name, (value, text) in OPTIONS.items()
    )
    called = "--{flag}" if "flag" in entry else "{name}"
    shown = []
    for name, (value, _) in OPTIONS.items():
        question = f"What is the default of {called.format(**shape(name))}?"
        kept = compress(question, [page], max_tokens=40)
        shown.append(any(value in one.text for one in kept))
    assert sum(shown) >= len(OPTIONS) - 1, dict(zip(OPTIONS, shown, strict=True))


def test_names_with_an_underscore_or_behind_dashes_are_identifiers():
    assert identifiers("Set sort_memory, not --max-size or well-known.") == {
        "sortmemory",
        "maxsize",
    }
    assert identifiers("__init__ of a _note_") == frozenset()
