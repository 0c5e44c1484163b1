"""A key in the environment, told back by the server in every way, is in nothing that is left."""

import gzip
import json
import logging
from urllib.parse import quote

import pytest
from chat_server import serving
from command_fakes import passages, write
from typer.testing import CliRunner

from fitrag_integrations.cli import app

KEY = "sk-planted/0123+456789=abcdefgh"
TOLD = [KEY, KEY[:15], quote(KEY, safe=""), json.dumps(KEY)[1:-1].replace("/", "\\/")]
ROWS = [
    {
        "question": f"Who built the {what}?",
        "answers": [who],
        "passages": passages(f"The {what} was built by {who}.", "It rained."),
    }
    for who, what in zip(
        ("Ann Lee", "Bo Karr", "Cy Dunn", "Di Ewing"),
        ("mill", "tower", "bridge", "harbour"),
        strict=True,
    )
]
FIT = ["--k", 2, "--limit", 4, "--drop", 0.5, "--confidence", 0.5, "--yes"]
COMMANDS = {
    "label bilabel": ["{rows}", "--out", "{home}/out.jsonl", "--retries", 0],
    "label ik": ["{rows}", "--out", "{home}/out.jsonl.gz"],
    "label necessity": ["{rows}", "--out", "{home}/out.jsonl"],
    "label claims": ["{rows}", "--out", "{home}/out.jsonl"],
    "label eligibility": ["{rows}", "--out", "{home}/out.jsonl", "--retries", 0],
    "fit": ["{corpus}", "{rows}", "--out", "{home}/fitted", *FIT],
}


@pytest.fixture(scope="module")
def server():
    """Tell the key back: as an answer, as a refusal, or amid something that is no JSON."""
    keys = []

    def reply(body, headers):
        keys.append(headers["Authorization"])
        said = f"Ann Lee {headers['Authorization']}"
        choice = {"text": said, "message": {"content": said}, "finish_reason": "stop"}
        if body["model"] == "refuses":
            return 401, {"error": {"message": said}}
        whole = json.dumps({"choices": [choice]}).encode()
        return 200, whole + (said.encode() if body["model"] == "garbles" else b"")

    with serving(reply) as made:
        made.keys = keys
        yield made


def left_in(folder):
    """Give what every file of a folder holds, unpacked."""
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            yield path.name, gzip.decompress(data) if path.suffix == ".gz" else data


@pytest.mark.parametrize("model", ["answers", "refuses", "garbles"])
@pytest.mark.parametrize("verb", COMMANDS)
def test_a_planted_key_is_in_nothing_that_is_left(
    server, tmp_path, monkeypatch, caplog, verb, model
):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    for name in list(logging.root.manager.loggerDict):
        caplog.set_level(logging.DEBUG, logger=name)
    given = tmp_path / "given"
    given.mkdir()
    texts = [{"id": str(i), "text": row["passages"][0]["text"]} for i, row in enumerate(ROWS)]
    names = {
        "rows": write(given / "rows.jsonl", ROWS),
        "corpus": write(given / "corpus.jsonl", texts),
        "home": tmp_path,
    }
    words = [str(word).format(**names) for word in COMMANDS[verb]]
    url = ["--url", server.url, "--llm", model]
    server.keys.clear()
    done = CliRunner().invoke(app, [*verb.split(), *words, *url])
    assert f"Bearer {KEY}" in server.keys, done.output
    told = {"output": done.output, "raised": repr(done.exception), "log": caplog.text}
    told["records"] = "".join(repr(vars(record)) for record in caplog.records)
    told |= {name: data.decode("utf-8", "replace") for name, data in left_in(tmp_path)}
    found = {name for name, text in told.items() for part in TOLD if part in text}
    assert not found
