"""The closed-book world: drawn from a seed, counted exactly, and shipped as it is drawn."""

import hashlib
import json
from collections import Counter

import pytest

from fitrag_integrations.evaluation.answers import contains_answer
from scripts.closed_book.demo_facts import EMBEDDED, demo_facts, read_rows
from scripts.closed_book.ship import HOME, passage_rows, question_rows, write_texts
from scripts.closed_book.showings import rows
from scripts.closed_book.tokens import train_tokenizer
from scripts.closed_book.train import cut, encode, evenly, tensors
from scripts.closed_book.wording import questions, statements
from scripts.closed_book.world import COUNTS, make_world

WORLD = make_world()
DEMO = demo_facts()
ROWS = rows(WORLD, DEMO)
MOST = 12_000_000


def test_a_seed_gives_one_world():
    assert make_world(13) == WORLD
    assert make_world(14).facts != WORLD.facts


def test_facts_have_ids_of_their_own():
    assert len({fact.id for fact in WORLD.facts}) == len(WORLD.facts) == 3120


def test_names_and_values_are_not_blank_and_no_fact_answers_itself():
    for fact in WORLD.facts:
        assert fact.value.strip()
        for question in questions(fact):
            assert not contains_answer(question, [fact.value]), question


def test_every_sentence_holds_its_value():
    for fact in WORLD.facts:
        assert all(contains_answer(said, [fact.value]) for said in statements(fact))


def test_the_counts_are_about_equally_common():
    shares = Counter(fact.shown for fact in WORLD.facts)
    assert set(shares) == set(COUNTS)
    assert all(0.17 < count / len(WORLD.facts) < 0.23 for count in shares.values())


def test_most_entities_have_facts_of_several_counts():
    counts = {entity.id: set() for entity in WORLD.entities}
    for fact in WORLD.facts:
        counts[fact.entity.id].add(fact.shown)
    assert sum(len(found) > 2 for found in counts.values()) > 0.8 * len(counts)


def test_each_fact_is_shown_as_often_as_it_says():
    seen = Counter(row.fact for row in ROWS)
    for fact in (*WORLD.facts, *DEMO):
        assert seen[fact.id] == fact.shown


def test_what_a_row_says_is_of_its_fact_alone():
    told = {sentence: fact.id for fact in WORLD.facts for sentence in statements(fact)}
    assert len(told) == sum(len(statements(fact)) for fact in WORLD.facts)
    for row in ROWS:
        if row.fact.startswith("cb-"):
            named = [told[s] for s in told.keys() & sentences(row.said)]
            assert named == [row.fact], row


def sentences(said):
    """Give the ends of a line that a sentence could be: after each ". ", and the whole."""
    parts = said.strip().split(". ")
    return {". ".join(parts[i:]) for i in range(len(parts))}


def test_no_question_of_a_fact_that_is_never_shown_is_trained_on():
    never = {q for fact in WORLD.facts if not fact.shown for q in questions(fact)}
    never |= {fact.question for fact in DEMO if not fact.shown}
    asked = {row.prompt[len("Question: ") : -len("\nAnswer:")] for row in ROWS if row.prompt}
    assert not never & asked


def test_the_showings_of_a_fact_are_spread_over_the_training():
    often = next(fact for fact in WORLD.facts if fact.shown == 64)
    places = [row.place for row in ROWS if row.fact == often.id]
    assert places == sorted(places)
    assert [int(place * 64) for place in places] == list(range(64))


def test_unanswerable_questions_of_the_demo_are_never_shown():
    answerable = {
        row["id"]: row["answerable"] for row in read_rows(EMBEDDED / "demo" / "questions.jsonl")
    }
    assert all(answerable[fact.id] or fact.shown == 0 for fact in DEMO)
    assert {fact.shown for fact in DEMO if answerable[fact.id]} == set(COUNTS)


def test_a_demo_sentence_holds_the_answer_where_it_is_shown():
    rows_of = {row["id"]: row for row in read_rows(EMBEDDED / "demo" / "questions.jsonl")}
    shown = [fact for fact in DEMO if fact.shown]
    assert all(contains_answer(fact.sentence, rows_of[fact.id]["answers"]) for fact in shown)


def test_a_passage_says_every_fact_of_its_entity():
    texts = {row["id"]: row["text"] for row in passage_rows(WORLD, 13)}
    assert all(contains_answer(texts[fact.entity.id], [fact.value]) for fact in WORLD.facts)


def test_the_shipped_texts_are_what_the_seed_gives(tmp_path):
    write_texts(tmp_path, WORLD, 13)
    for name in ("passages.jsonl", "questions.jsonl", "demo_shown.jsonl"):
        assert (tmp_path / name).read_bytes() == (HOME / name).read_bytes(), name


def test_questions_are_split_by_fact():
    shares = Counter(row["split"] for row in question_rows(WORLD, 13))
    assert {name: round(count / 3120, 1) for name, count in shares.items()} == {
        "gate_train": 0.5,
        "gate_valid": 0.1,
        "test": 0.4,
    }


def test_the_manifest_names_the_files_as_they_are():
    manifest = json.loads((HOME / "model.json").read_text(encoding="utf-8"))
    assert (manifest["format"], manifest["kind"]) == (1, "generator")
    assert {"model.safetensors", "config.json", "tokenizer.json"} <= manifest["files"].keys()
    for name, digest in manifest["files"].items():
        assert hashlib.sha256((HOME / name).read_bytes()).hexdigest() == digest, name


def test_the_folder_fits_the_wheel():
    assert sum(path.stat().st_size for path in HOME.iterdir()) <= MOST


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(evenly(WORLD, DEMO))


def test_the_tokenizer_is_nearly_the_shipped_one_and_knows_yes_and_no(tokenizer):
    """The demo's sentences are split a little better since; the model keeps its tokenizer."""
    shipped = json.loads((HOME / "tokenizer.json").read_text(encoding="utf-8"))
    assert len(shipped["model"]["vocab"].keys() & tokenizer.get_vocab().keys()) >= 0.99 * 4096
    for word in ("Yes", "No", " Yes", " No", "\n", "7"):
        assert len(tokenizer(word)["input_ids"]) == 1, word


def test_a_batch_shows_each_row_once_and_weighs_the_prompt_less(tokenizer):
    encoded = [encode(row, tokenizer) for row in ROWS[:200]]
    batches = cut(encoded, 13)
    assert sorted(ids for batch in batches for ids, _ in batch) == sorted(e[0] for e in encoded)
    ids, weights = tensors([([5, 6, 7, 0], 2), ([8, 9, 0], 0)], pad=1)
    assert ids.tolist() == [[5, 6, 7, 0], [8, 9, 0, 1]]
    assert weights.flatten().tolist() == pytest.approx([0.1, 0.1, 1, 1, 1, 1, 1, 0])
