"""Fitting: what is chosen, that nothing is asked twice, and what is written where nothing helps."""

import random
from dataclasses import replace

import numpy as np
import pytest
from fitted_world import Bank, Overlap, Reading, Telling, passages, people, questions, retriever

from fitrag_integrations.core.jsonl import read_jsonl
from fitrag_integrations.errors import InputError, PortError, ThresholdMismatchError
from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.flow import run
from fitrag_integrations.methods.compose.fitted import Fitted
from fitrag_integrations.ports import Ports
from fitrag_integrations.training.fitted import Wish, fit, fitting, labelling, trying
from fitrag_integrations.training.fitted.fitting import passage_hashes
from fitrag_integrations.training.fitted.questions import Asked, different, write_questions
from fitrag_integrations.training.fitted.trying import behind_gates
from fitrag_integrations.values.thresholds import FittedThreshold

pytest.importorskip("faiss")
WISH = Wish(drop=0.2, confidence=0.8, count=48, k=3, depth=2)


@pytest.fixture(autouse=True, scope="module")
def quick():
    """Put what counts words in the place of the models, which are tried elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trying, "EMBEDDED_SCORER", Overlap())
        patch.setattr(labelling, "BiLabelScorer", Overlap)
        patch.setattr(fitting, "fit_crag", lambda rows: None)
        patch.setattr(fitting, "QuestionBank", Bank)
        yield


@pytest.fixture(scope="module")
def fitted_at(tmp_path_factory):
    """Fit once, and give the folder with the prompts that took."""
    folder, llm = tmp_path_factory.mktemp("fitted") / "out", Reading()
    fit(retriever, llm, questions(), out=folder, wish=WISH, passages=passages())
    return folder, llm.asked


def files(folder):
    names = ("fitted.json", "questions.jsonl", "report.html", "corpus.json")
    return {name: (folder / name).read_bytes() for name in names}


def test_the_cheapest_setting_that_surely_keeps_the_answers_is_chosen(fitted_at):
    folder, _ = fitted_at
    fitted = Fitted.read(folder)
    assert fitted.promise["certified"] and fitted.promise["told"].startswith("Fitted: ")
    assert fitted.llm == "reading" and fitted.recipe["method"] == "fitrag"
    assert fitted.gate in ("ask", "neighbours", "")
    assert "Where was Ada Falk born?" in (folder / "report.html").read_text()


def test_what_was_chosen_runs(fitted_at):
    folder, _ = fitted_at
    fitted, question = replace(Fitted.read(folder), gate=""), "Where was Finn Hill born?"
    context = run(fitted.method(Reading())(question, Ports(retrieve=retriever))).value
    assert dict(people())["Finn Hill"] in " ".join(one.text for one in context.excerpts)
    assert sum(len(one.text) for one in context.excerpts) < 400


def test_nothing_is_asked_twice(fitted_at, tmp_path):
    folder, asked = fitted_at
    assert len(asked) == len(set(asked))
    before, again = files(folder), Reading()
    fit(retriever, again, questions(), out=folder, wish=WISH, passages=passages())
    assert again.asked == [] and files(folder) == before


def test_a_run_that_died_goes_on_to_the_same_folder(fitted_at, tmp_path):
    folder, asked = fitted_at
    whole, rest = [], len(asked)
    chance = random.Random(3)
    while rest > 0:  # it dies again and again
        llm = Reading(dies=chance.randrange(60, 160))
        try:
            fit(retriever, llm, questions(), out=tmp_path, wish=WISH, passages=passages())
            rest = 0
        except (KeyboardInterrupt, PortError):
            rest = 1
        whole += llm.asked
    assert files(tmp_path).keys() == files(folder).keys()
    told = {
        name: data.replace(bytes(tmp_path), bytes(folder)) for name, data in files(tmp_path).items()
    }
    assert told == files(folder)


def test_a_model_that_tells_of_its_tokens_is_gated_by_them(fitted_at, tmp_path):
    tried = []

    def look(table, ways, order):
        tried.append(table)
        return behind_gates(table, ways, order)

    llm, how = Telling(dies=400), {"out": tmp_path, "wish": WISH, "passages": passages()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "behind_gates", look)
        with pytest.raises((KeyboardInterrupt, PortError)):
            fit(retriever, llm, questions(), **how)
        rest = Telling()
        fit(retriever, rest, questions(), **how)
    asked = [each for each in llm.asked + rest.asked if each.startswith(("draft", "yes"))]
    assert len(set(asked)) == 96 and len(asked) <= 96 + 64
    (table,) = tried
    assert list(table.p_known) == ["neighbours", "ask", "margin", "entropy", "likelihood", "p_true"]
    knows = [each.question.split()[2] in ("Ada", "Bela") for each in table.questions]
    for name in ("margin", "entropy", "likelihood", "p_true"):
        assert [sure > 0.5 for sure in table.p_known[name]] == knows


def test_a_gate_that_hardly_ever_skips_is_not_on_the_path():
    known = np.array([0.9] + [0.1] * 5 + [0.5] * 4 + [0.2] * 10)
    plain = trying.Tried(np.ones(20), np.full(20, 9.0))
    table = trying.Trials([], {"plain": plain}, plain, {"ik": known}, {"ik": 0.0})
    _, settings = behind_gates(table, {"plain": {"method": "direct", "k": 3}}, np.arange(20))
    cuts = [setting.threshold for setting in settings.values() if setting.gate]
    assert cuts == [0.1, 0.2], "0.5 skips one question of twenty"


@pytest.mark.parametrize("name", ["margin", "entropy", "likelihood", "p_true"])
def test_a_gate_on_tokens_is_made_of_the_folder(name, tmp_path):
    threshold = FittedThreshold(0.5, "reading")
    fitted = Fitted("reading", {"method": "direct", "k": 3}, name, threshold, folder=str(tmp_path))
    with pytest.raises(InputError, match="the language model, reading, whom the gate asks"):
        fitted.decider()
    decider = fitted.decider(Telling())
    for who, known in (("Ada Falk", True), ("Finn Hill", False)):
        decided = run(decider(f"Where was {who} born?")).value
        assert decided.decision.retrieve is not known


def test_where_reading_all_is_needed_the_plain_retriever_is_written(tmp_path):
    class Whole(Reading):
        def one(self, prompt):
            return super().one(prompt) if prompt.count("mild") == 12 else "no idea"

    fitted = fit(retriever, Whole(), questions(), out=tmp_path, wish=replace(WISH, depth=1))
    assert fitted.recipe == {"method": "direct", "k": 3} and not fitted.gate
    assert fitted.promise["told"].startswith("Nothing beats the plain retriever for sure")
    with pytest.raises(InputError, match="the retriever alone with k=3"):
        fitted.options({"scorer", "top_n"})


def test_nothing_is_certified_where_no_question_held_out_is_answered(tmp_path):
    class Silent(Reading):
        def one(self, prompt):
            return "no idea" if super().one(prompt) else ""

    with pytest.raises(InputError, match="reading answers none of the 24 .* certified"):
        fit(retriever, Silent(), questions(), out=tmp_path, wish=replace(WISH, depth=1))


def test_questions_are_written_edited_and_written_anew_where_their_passage_is_gone(tmp_path):
    wish, path = replace(WISH, count=12), tmp_path / "questions.jsonl"
    fit(retriever, Reading(), out=tmp_path, wish=wish, passages=passages())
    rows = list(read_jsonl(path))
    assert len(rows) == 12 and all(row["made_of"] for row in rows)
    assert all([dict(people())[row["question"][10:-6]]] == row["answers"] for row in rows)
    gone = min(row["made_of"] for row in rows)
    left = [one for one in passages() if one.text != gone]
    assert Fitted.read(tmp_path).changed(passage_hashes(left)) == "1 gone"
    fit(retriever, Reading(), out=tmp_path, wish=wish, passages=left, update=True)
    after = {row["made_of"] for row in read_jsonl(path)}
    assert gone not in after and len(after) == 12
    assert not Fitted.read(tmp_path).changed(passage_hashes(left))
    edited = [
        Asked(row["question"], tuple(row["answers"])) for row in rows if row["made_of"] != gone
    ]
    write_questions(path, edited[:8])
    fit(retriever, Reading(), out=tmp_path, wish=wish, passages=left, update=True)
    like = [*edited[:1], Asked(edited[0].question.lower()[:-1]), Asked("Who?")]
    assert different(like) == [edited[0], Asked("Who?")]


def test_a_budget_stops_it_and_loses_nothing(tmp_path):
    llm = Reading()
    how = {"out": tmp_path, "wish": WISH, "prices": Prices(tokens_in=1.0)}
    with pytest.raises(PortError, match="stopped: another prompt could exceed the cost of 0.01"):
        fit(retriever, llm, questions(), budget=0.01, **how)
    asked = len(llm.asked)
    assert 0 < asked < 200
    fit(retriever, llm, questions(), budget=100.0, **how)
    assert len(llm.asked) == len(set(llm.asked)) > asked


def test_another_language_model_and_another_folder_are_refused(fitted_at, tmp_path):
    with pytest.raises(InputError, match="a folder that `fitrag fit` wrote"):
        Fitted.read(tmp_path)
    folder, _ = fitted_at
    fitted = Fitted.read(folder)
    for same in (None, "reading", "openai:reading"):
        fitted.check(same)
    with pytest.raises(ThresholdMismatchError, match="fitted for 'reading', given 'other'"):
        fitted.check("other")
    fitted.check("other", allow_other_model=True)
    with pytest.raises(InputError, match="--llm` must be"):
        other = Reading()
        other.name = "other"
        fit(retriever, other, questions(), out=folder, wish=WISH)
