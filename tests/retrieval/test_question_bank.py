"""The bank of labelled questions: Euclidean neighbours, saved, damaged, refused."""

import asyncio
import pickle

import pytest
from retrieval_fakes import WordEncoder

from fitrag_integrations.errors import ChecksumError, InputError, ModelLoadError
from fitrag_integrations.methods.fitrag.recognizer import Bank
from fitrag_integrations.retrieval import FaissIndex, QuestionBank
from fitrag_integrations.types import Passage


def test_the_bank_finds_the_nearest_by_euclidean_distance():
    questions = ["red red red", "red", "blue", "blue red"]
    bank = QuestionBank.build(questions, [True, False, True, False], WordEncoder())
    assert isinstance(bank, Bank)
    # from "red": itself 0, "blue red" 1, "blue" sqrt(2), "red red red" 2; cosines would differ
    assert bank.neighbours(["red"], 4) == [[False, False, True, True]]
    assert bank.neighbours(["red", "blue"], 1) == [[False], [True]]
    assert bank.neighbours(["red"], 99) == bank.neighbours(["red"], 4)
    assert bank.neighbours([], 3) == []
    assert asyncio.run(bank.aneighbours(["red"], 2)) == [[False, False]]
    assert (len(bank), bank.known) == (4, (True, False, True, False))


def test_a_bank_is_the_same_after_saving_and_pickling(tmp_path):
    questions = ["red \u2028 red", "blue \ud800", "green"]
    bank = QuestionBank.build(questions, [True, False, True], WordEncoder())
    bank.save(tmp_path / "bank")
    for other in (
        QuestionBank.load(tmp_path / "bank", encoder=WordEncoder()),
        pickle.loads(pickle.dumps(bank)),
    ):
        assert other.questions == tuple(questions) and other.known == bank.known
        assert other.neighbours(["red", "green"], 3) == bank.neighbours(["red", "green"], 3)
    with pytest.raises(InputError, match="the encoder this index was built with, 'words'"):
        QuestionBank.load(tmp_path / "bank")
    other = QuestionBank.load(tmp_path / "bank", encoder=WordEncoder(salt="other"))
    with pytest.raises(InputError, match="other vectors"):
        other.neighbours(["red"], 1)


@pytest.mark.parametrize("file", ["manifest.json", "index.faiss", "passages.jsonl"])
def test_a_damaged_bank_is_refused(tmp_path, file):
    QuestionBank.build(["red", "blue"], [True, False], WordEncoder()).save(tmp_path)
    whole = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(whole[:-9] + b"XXXXXXXX\n")
    expected = ModelLoadError if file == "manifest.json" else ChecksumError
    with pytest.raises(expected, match=file):
        QuestionBank.load(tmp_path, encoder=WordEncoder())
    (tmp_path / file).unlink()
    with pytest.raises(ModelLoadError):
        QuestionBank.load(tmp_path, encoder=WordEncoder())


def test_a_bank_is_no_index_and_an_index_is_no_bank(tmp_path):
    QuestionBank.build(["red", "blue"], [True, False], WordEncoder()).save(tmp_path / "bank")
    with pytest.raises(ModelLoadError, match="of the kind 'l2' is not one of flat, fp16"):
        FaissIndex.load(tmp_path / "bank", encoder=WordEncoder())
    FaissIndex.build([Passage("1", "red")], encoder=WordEncoder()).save(tmp_path / "index")
    with pytest.raises(ModelLoadError, match="of the kind 'flat' is not one of l2"):
        QuestionBank.load(tmp_path / "index", encoder=WordEncoder())


@pytest.mark.parametrize(
    ("questions", "known"), [([], []), (["a"], []), (["a", " "], [True, True]), (["a"], [1])]
)
def test_a_bank_refuses_what_it_cannot_hold(questions, known):
    with pytest.raises(InputError):
        QuestionBank.build(questions, known, WordEncoder())
