"""Records that a question names are kept, whatever they are written in, and also torn."""

import json

import pytest

from fitrag_integrations import compress

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


@pytest.mark.parametrize("most", [80, 120])
@pytest.mark.parametrize("form", FORMS)
def test_the_record_that_is_asked_for_is_kept(form, most):
    kept = [asked(row, [FORMS[form]], most) for row in ROWS]
    assert sum(kept) >= 11


@pytest.mark.parametrize("form", [form for form in FORMS if "JSON" in form or "key" in form])
def test_and_where_its_text_was_torn_anywhere(form):
    text = FORMS[form]
    torn = [text[at : at + 500] for at in range(0, len(text), 400)]
    assert sum(asked(row, torn, 120) for row in ROWS) >= (11 if form == "objects by key" else 12)


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
