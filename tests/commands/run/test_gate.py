"""`fitrag gate`, and the two verbs that fit and judge one."""

import json

import pytest
from command_fakes import read, write
from gate_rows import ROWS as LABELLED

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.options import ModelOptions
from fitrag_integrations.errors import InputError

PARTS = "who wrote part {} ?"


class Numbers:
    """Know a question by the number in it; a draft that says "sure" settles it."""

    threshold = 0.6
    draft_tokens = 8

    def __init__(self):
        self.calls = []

    def p_known(self, questions, drafts):
        self.calls.append((len(questions), list(drafts)))
        return [self.one(*pair) for pair in zip(questions, drafts, strict=True)]

    def one(self, question, draft):
        number = int(question.split()[3])
        if number == 13:
            raise RuntimeError("no memory left")
        return 0.95 if draft.startswith("sure") else (number % 10) / 10


@pytest.fixture
def loaded(monkeypatch):
    made = Numbers()
    made.options = []
    monkeypatch.setattr(models, "load_gate", lambda options: made.options.append(options) or made)
    return made


@pytest.fixture
def decide(tmp_path, loaded, fitrag):
    """Gate rows and give what comes back."""

    def run(rows, *arguments, code=0):
        source = write(tmp_path / "in.jsonl", rows)
        done = fitrag("gate", source, tmp_path / "out.jsonl", "--overwrite", *arguments)
        assert done[0] == code, done
        return read(tmp_path / "out.jsonl")

    return run


def asked(*numbers):
    return [{"id": n, "question": PARTS.format(n)} for n in numbers]


def test_a_question_is_known_only_above_the_threshold(decide, loaded):
    got = decide(asked(5, 6, 7), "--model", "folder", "--device", "cpu", "--batch-tokens", 64)
    assert loaded.calls == [(3, [""] * 3)]  # of a chunk, one batch
    (chosen,) = loaded.options
    assert (chosen.model, chosen.device, chosen.batch_tokens) == ("folder", "cpu", 64)
    assert [row["p_known"] for row in got] == [0.5, 0.6, 0.7]
    assert [row["retrieve"] for row in got] == [True, True, False]
    assert all(row["why"] for row in got)
    assert [row["id"] for row in got] == [5, 6, 7]
    assert [row["retrieve"] for row in decide(asked(5, 6), "--threshold", 0.55)] == [True, False]
    assert decide(asked(0), "--threshold", 0)[0]["retrieve"] is True


def test_the_draft_of_the_row_is_read_unless_told_otherwise(decide, loaded):
    row = {"question": PARTS.format(1), "draft": "sure, it was Ann"}
    (got,) = decide([row])
    assert (got["p_known"], got["retrieve"], got["draft"]) == (0.95, False, row["draft"])
    (got,) = decide([row], "--no-drafts")
    assert (got["p_known"], got["retrieve"]) == (0.1, True)
    assert loaded.calls[-1] == (1, [""])
    assert decide([{**row, "draft": None}])[0]["p_known"] == 0.1
    loaded.draft_tokens = 0
    assert decide([row])[0]["p_known"] == 0.1


def test_a_gate_that_writes_its_own_drafts(decide, loaded):
    class Drafting:
        def generate(self, prompts):
            return ["sure" if "part 1 " in prompt else "perhaps" for prompt in prompts]

    loaded.drafter = Drafting()
    rows = [*asked(1, 2), {"question": PARTS.format(3), "draft": "sure enough"}]
    assert [row["p_known"] for row in decide(rows)] == [0.95, 0.2, 0.95]
    assert [row["p_known"] for row in decide(rows, "--no-drafts")] == [0.1, 0.2, 0.3]


def test_a_row_that_fails_is_retrieved_for(decide, loaded):
    rows = [
        *asked(7, 13),
        {"question": "  "},
        {"question": PARTS.format(8), "draft": " \n"},
        {"question": PARTS.format(8), "draft": 3},
        b"no json",
    ]
    got = decide(rows, code=1)
    assert got[0]["retrieve"] is False
    for row in got[1:]:
        assert (row["p_known"], row["retrieve"]) == (None, True)
        assert row["why"] == "the row failed: retrieving"
    assert got[1]["error"]["message"] == "RuntimeError: no memory left"
    assert [row["error"].get("field") for row in got[2:5]] == ["question", "draft", "draft"]


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "gate"
    made.mkdir()
    manifest = {"format": 1, "kind": "ik", "model": "tiny-lm", "draft_tokens": 32}
    (made / "model.json").write_text(json.dumps(manifest))
    return made


def stored(folder):
    return json.loads((folder / "model.json").read_text())


@pytest.fixture
def calibrate(fitrag, tmp_path, folder):
    """Fit the threshold of the gate in `folder`; gives what was stored and printed."""

    def run(rows, *arguments, code=0, name="rows.jsonl"):
        given = write(tmp_path / name, rows)
        done = fitrag("calibrate", "gate", given, "--model", folder, *arguments)
        assert done[0] == code, done
        return stored(folder).get("threshold"), done[1], done[2]

    return run


def test_calibrate_stores_the_threshold_with_the_gate(calibrate, folder):
    fitted, out, err = calibrate(LABELLED, "--json", name="rows.jsonl.gz")
    assert "threshold 0.700" in err and "accuracy 1.000, share of retrieval 0.600 of 5" in err
    assert fitted["value"] == pytest.approx(0.7)
    assert (fitted["model"], fitted["data"], fitted["rows"]) == ("tiny-lm", "rows.jsonl.gz", 5)
    assert fitted["low"] <= fitted["value"] <= fitted["high"]
    assert json.loads(out) == {**fitted, "accuracy": 1.0, "share": pytest.approx(0.6)}
    rest = {k: v for k, v in stored(folder).items() if k != "threshold"}
    assert rest == {"format": 1, "kind": "ik", "model": "tiny-lm", "draft_tokens": 32}


@pytest.mark.parametrize(("known", "said"), [(1, "known"), (0, "unknown")])
def test_calibrate_warns_of_questions_of_one_kind(calibrate, known, said):
    rows = [{"question": "q ?", "p_known": p, "known": known} for p in (0.2, 0.9)]
    warning = f"all 2 questions are {said}: a threshold fitted on them is meaningless"
    assert warning in calibrate(rows)[2]
    assert "meaningless" not in calibrate(LABELLED)[2]


def test_calibrate_for_a_target(calibrate):
    share = ("--target", "share", "--max-share", 0.4, "--fitted-for", "other-lm")
    fitted, *_ = calibrate(LABELLED, *share)
    assert fitted["value"] == pytest.approx(0.45) and fitted["model"] == "other-lm"
    drop = ("--target", "drop", "--max-drop", 0.02, "--confidence", 0.9)
    fitted, _, err = calibrate(LABELLED, *drop)
    assert fitted["value"] == 1.0 and "retrieve always: 5 rows are too few" in err


def test_calibrate_lets_the_gate_score_rows_without_scores(calibrate, folder, loaded):
    fitted, *_ = calibrate([{**row, "known": int(row["id"] > 4)} for row in asked(2, 3, 5, 6)])
    assert fitted["value"] == pytest.approx(0.4)
    assert loaded.options[0].model == str(folder)


def test_calibrate_refuses_drafts_of_another_model(calibrate, loaded):
    class Small:
        name = "small-lm"

        def generate(self, prompts):
            return ["perhaps"] * len(prompts)

    loaded.drafter = Small()
    rows = [{**row, "known": 1} for row in asked(2, 3)]
    fitted, _, err = calibrate(rows, code=2)
    assert "drafts of 'tiny-lm', or --fitted-for small-lm" in err and fitted is None
    fitted, *_ = calibrate(rows, "--fitted-for", "small-lm", "--resamples", 5)
    assert fitted["model"] == "small-lm"


@pytest.mark.parametrize(
    ("rows", "arguments", "said"),
    [
        ([{"p_known": 0.5}], [], "rows[0].known` must be 0 or 1, as `fitrag label ik` adds it"),
        ([b"{"], [], "line 1"),
        (LABELLED, ["--target", "cheap"], "best accuracy, share, drop, conformal"),
        (LABELLED, ["--model", "nowhere"], "nowhere"),
        (LABELLED, ["none.jsonl"], "none.jsonl"),
        (LABELLED, None, "a model of kind 'reader'"),
    ],
)
def test_calibrate_refuses(calibrate, folder, rows, arguments, said):
    if arguments is None:
        (folder / "model.json").write_text('{"format": 1, "kind": "reader"}')
    before = stored(folder)
    assert said in calibrate(rows, *(arguments or ()), code=2)[2]
    assert stored(folder) == before


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('{"format": 1, "kind": "ik"}', "IKClassifier"),
        ('{"format": 1, "kind": "necessity"}', "NecessityJudge"),
        ("[]", "IKClassifier"),
    ],
)
def test_the_folder_says_which_gate_it_holds(monkeypatch, folder, text, name):
    (folder / "model.json").write_text(text)
    monkeypatch.setattr(models, "_load", lambda name, options: (name, options.model))
    assert models.load_gate(ModelOptions(model=str(folder))) == (name, str(folder))
    with pytest.raises(InputError, match="Pass `--model`"):
        models.load_gate(ModelOptions())


def test_evaluate_as_json(fitrag, tmp_path):
    rows = write(tmp_path / "rows.jsonl", LABELLED)
    code, out, err = fitrag("evaluate", "gate", rows, "--json", "--resamples", 50)
    assert code == 0, err
    report = json.loads(out)
    assert (report["questions"], report["settings"]["options"]["threshold"]) == (5, 0.5)
    figures = {figure["figure"]: figure for figure in report["figures"]}
    assert {name: figure["value"] for name, figure in figures.items()} == pytest.approx(
        {
            "known": 3 / 5,
            "accuracy of the gate": 3 / 5,
            "AUC": 5 / 6,
            "calibration error": 1.7 / 5,
            "share of retrieval": 2 / 5,
            "accuracy of the answers": 4 / 5,
            "never retrieving": 3 / 5,
            "always retrieving": 4 / 5,
            "oracle": 1.0,
            "sweep area": (0.82 - 0.7) / (0.9 - 0.7),
            "best point: accuracy": 1.0,
            "best point: share": 3 / 5,
            "best accuracy retrieving for half": 4 / 5,
        }
    )
    for figure in figures.values():
        assert figure["low"] <= figure["high"]
    assert figures["oracle"]["low"] == pytest.approx(0.566, abs=1e-3)  # five of five
    assert figures["AUC"]["pairs"] == [5, 3]


def test_evaluate_as_a_table_with_a_drawing(fitrag, tmp_path):
    pytest.importorskip("matplotlib")
    rows = write(tmp_path / "rows.jsonl", LABELLED)
    drawing = tmp_path / "sweep.png"
    code, out, err = fitrag("evaluate", "gate", rows, "--plot", drawing, "--resamples", 20)
    assert code == 0, err
    assert "5 questions, threshold 0.5" in out and "sweep area" in out
    assert "5 (3 of 5 are 1)" in out  # of the AUC
    assert drawing.read_bytes().startswith(b"\x89PNG")
    assert fitrag("evaluate", "gate", rows, "--plot", "sweep.txt")[0] == 2


def test_evaluate_at_the_threshold_of_the_gate(fitrag, tmp_path, folder, loaded):
    rows = write(tmp_path / "rows.jsonl", LABELLED)
    assert fitrag("calibrate", "gate", rows, "--model", folder)[0] == 0
    arguments = ("--model", folder, "--resamples", 10, "--json")
    told = json.loads(fitrag("evaluate", "gate", rows, *arguments)[1])
    assert told["settings"]["options"]["threshold"] == pytest.approx(0.7)
    unscored = write(tmp_path / "rows2.jsonl", [{**row, "known": 1} for row in asked(3, 7)])
    report = json.loads(fitrag("evaluate", "gate", unscored, "--resamples", 10, "--json")[1])
    assert report["settings"]["options"]["threshold"] == 0.6
    values = {figure["figure"]: figure["value"] for figure in report["figures"]}
    assert values["accuracy of the gate"] == 0.5 and values["AUC"] is None
