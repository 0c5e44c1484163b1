"""`fitrag fit`: the plan before, the refusals, and a fitted folder that answers."""

import json
import random
import threading

import pytest
from command_fakes import write
from fitted_folder import PLAIN, write_fitted
from openai_server import Server, write_causal
from typer.testing import CliRunner

from fitrag_integrations.cli import app
from fitrag_integrations.commands.fit.fit import estimate
from fitrag_integrations.errors import InputError, PortError, ThresholdMismatchError
from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.training.fitted import Wish
from fitrag_integrations.types import Passage

pytest.importorskip("faiss")
FACTS = (
    ("Ann Lee", "bridge", "stone"),
    ("Bo Karr", "mill", "brick"),
    ("Cy Dunn", "tower", "iron"),
    ("Di Ewing", "harbour", "oak"),
    ("Ed Frost", "library", "glass"),
    ("Flo Gray", "station", "steel"),
)


def corpus(folder, facts=FACTS):
    rows = [
        {"id": what, "title": what, "text": f"It rained. The {what} of {of} was built by {who}."}
        for who, what, of in facts
    ]
    return str(write(folder / "corpus.jsonl", rows))


def asked(folder):
    rows = [{"question": f"Who built the {w}?", "answers": [who]} for who, w, _ in FACTS]
    random.Random(0).shuffle(rows)
    return str(write(folder / "questions.jsonl", rows))


def fit(*given):
    done = CliRunner().invoke(app, ["fit", *map(str, given)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Fit with the embedded models; gives the folder of all files."""
    at = tmp_path_factory.mktemp("fit")
    given = [corpus(at), asked(at), "--out", at / "fitted", "--k", 3, "--limit", 6]
    given += ["--drop", 0.5, "--confidence", 0.5]
    assert fit(*given, "--yes", "--quiet").exit_code == 0
    return at, given


def test_nothing_starts_without_a_yes(tmp_path):
    enough = ["--drop", 0.5, "--confidence", 0.5]
    done = fit(
        *(corpus(tmp_path), asked(tmp_path), "--out", tmp_path / "fitted", "--price-in", 1, *enough)
    )
    assert done.exit_code == 0 and not (tmp_path / "fitted").exists()
    assert "6 questions at most" in done.stderr and "in money" in done.stderr
    assert "pass --yes" in done.stderr


def test_too_few_questions_are_refused_before_any_work(tmp_path):
    given = [corpus(tmp_path), "--out", tmp_path / "fitted", "--yes"]
    with pytest.raises(InputError, match="questions` must be 99 for --drop 0.05.*half"):
        fit(given[0], asked(tmp_path), *given[1:])
    with pytest.raises(InputError, match=r"or --drop 0\.\d+ with these"):
        fit(given[0], asked(tmp_path), *given[1:], "--confidence", 0.6)
    for more in ([], ["--llm", "openai:some"]):  # made from the corpus, or written about it
        with pytest.raises(InputError, match="number of questions` must be"):
            fit(*given, *more)
    (tmp_path / "file").write_text("")
    enough = ["--drop", 0.5, "--confidence", 0.5, "--yes", "--quiet"]
    with pytest.raises(InputError, match="--out"):
        fit(given[0], asked(tmp_path), "--out", tmp_path / "file" / "fitted", *enough)
    assert not (tmp_path / "fitted").exists()


def test_a_language_model_out_of_reach_ends_it_before_the_index(tmp_path):
    enough = ["--drop", 0.5, "--confidence", 0.5, "--yes", "--quiet"]
    served = ["--llm", "small", "--url", "http://127.0.0.1:9/v1"]
    with pytest.raises(PortError, match="the language model does not answer"):
        fit(corpus(tmp_path), asked(tmp_path), "--out", tmp_path / "fitted", *enough, *served)
    assert not (tmp_path / "fitted" / "index").exists()


def test_what_was_fitted_is_told_again_and_answers(fitted):
    at, given = fitted
    again = fit(*given)
    assert again.stdout.startswith("Fitted: ") and "of 3 questions held out" in again.stdout
    told = json.loads((at / "fitted" / "fitted.json").read_text())
    assert told["promise"]["certified"] and told["llm"] == "embedded"
    assert told["run"][:3] == ["fitrag", "fit", str(at / "corpus.jsonl")]
    answered = CliRunner().invoke(
        app, ["answer", "Who built the mill?", "--fitted", str(at / "fitted")]
    )
    assert answered.exit_code == 0 and answered.stdout.startswith("Bo Karr")


def test_what_does_not_go_together_is_refused(fitted):
    at, given = fitted
    with pytest.raises(ThresholdMismatchError, match="fitted for 'embedded', given 'other'"):
        fit(*given, "--llm", "other")
    with pytest.raises(InputError, match="--max-cost` must be with --price-in"):
        fit(*given, "--max-cost", 1)
    with pytest.raises(InputError, match="--update"):
        fit(given[0], "--out", at / "none", "--update")
    answer = ["answer", "Who?", "--fitted", str(at / "fitted")]
    refused = CliRunner().invoke(app, [*answer, "--llm", "openai:other"])
    assert isinstance(refused.exception, ThresholdMismatchError)
    refused = CliRunner().invoke(app, [*answer, "--method", "crag"])
    assert isinstance(refused.exception, InputError)


def test_a_changed_corpus_is_told_and_refreshed(fitted):
    """Come after all that read the folder, which this changes."""
    at, given = fitted
    corpus(at, (*FACTS[1:], ("Al Brown", "gate", "bronze")))
    with pytest.raises(InputError, match=r"1 new, 1 gone passages since\), or --update"):
        fit(*given)
    assert fit(*given, "--update", "--yes", "--quiet").exit_code == 0
    assert fit(*given).exit_code == 0


def test_a_local_and_a_served_model_answer_what_was_fitted_to_them(tmp_path):
    write_causal(tmp_path / "small")
    write_fitted(tmp_path / "fitted", llm="small", recipe=PLAIN, gate="")
    row = {"question": "Who?", "passages": [{"title": "", "text": "Ann Lee."}]}
    asked = ["answer", str(write(tmp_path / "rows.jsonl", [row])), "--fitted"]
    asked += [str(tmp_path / "fitted"), "--quiet", "--llm"]

    def answer(name, *more):
        out = tmp_path / f"{len(more)}.jsonl"
        done = CliRunner().invoke(app, [*asked, name, *more, "--overwrite", str(out)])
        if isinstance(done.exception, Exception):
            raise done.exception
        return json.loads(out.read_text())

    local = answer(str(tmp_path / "small"))
    assert "in a few words" in local["prompt"] and local["answer"]
    server = Server(tmp_path / "small")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = ["--url", f"http://127.0.0.1:{server.server_port}/v1", "--api", "completions"]
        assert answer("small", *url)["answer"]
        with pytest.raises(ThresholdMismatchError, match="fitted for 'small', given 'big'"):
            answer("big", *url)
    finally:
        server.shutdown()
        server.server_close()
    refused = CliRunner().invoke(app, ["answer", "Who?", "--index", "x", "--url", "http://x/v1"])
    assert isinstance(refused.exception, InputError) and "--llm" in str(refused.exception)


def test_the_estimate_counts_every_call():
    some = [Passage(str(i), "word " * 100) for i in range(9)]
    how = {"embedded": False, "at_once": 8, "prices": Prices(1.0, 2.0)}
    most = estimate(some, Wish(count=10), made=True, **how)
    given = estimate(some, Wish(count=10), made=False, **how)
    assert most.calls - given.calls == 30 and most.calls == 10 * 11 + 25 + 30
    assert estimate(some, Wish(count=10), made=False, drafts=True, **how).calls - given.calls == 20
    assert 0 < given.money < most.money and most.read > 10_000
