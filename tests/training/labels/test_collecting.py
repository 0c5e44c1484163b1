"""Labels by hand, what counts as no answer, and the cache of answers."""

import asyncio
import json
from contextlib import closing
from types import SimpleNamespace

import pytest

from fitrag_integrations import Passage
from fitrag_integrations.errors import InputError, PortError
from fitrag_integrations.evaluation.answers import check_answers, matches_pattern
from fitrag_integrations.training.asking_llm import REFUSAL, AskLLM, AskReader
from fitrag_integrations.training.collecting import (
    Failed,
    Question,
    Told,
    count_labels,
    passage_labels,
)
from fitrag_integrations.training.journal import AnswerCache

SEA = Passage("", "The Danube ends in the Black Sea.", "Danube")
TOWN = Passage("", "Ulm lies on it.", "Ulm")
PAIRS = [("what sea?", SEA), ("what sea?", TOWN)]


def always(prompt):
    return True


def ask(llm, pairs=PAIRS, **options):
    heard = {}
    asker = AskLLM(llm, wait=0.0, **{"retries": 2, **options})
    prompts = [asker.prompt(*pair) for pair in pairs]
    asker.send(dict(zip(prompts, pairs, strict=True)), always, heard.__setitem__)
    return [heard[prompt] for prompt in prompts]


def test_labels_are_separate_and_no_answer_is_no_zero():
    question = Question("what sea?", ("Black Sea", "Euxine"), (SEA, TOWN, SEA, TOWN))
    outcomes = [
        Told("the river Inn"),
        Told("It is the black sea."),
        Failed("timeout", "60 s"),
        None,
    ]
    found = passage_labels(question, outcomes)
    assert [one["has_answer"] for one in found] == [1, 0, 1, 0]
    assert [one["llm_prefer"] for one in found] == [0, 1, None, None]
    assert found[2]["llm_error"] == "timeout: 60 s" and "answer" not in found[2]
    text, counts = count_labels([{"passages": found}, {"error": {"message": "no"}}])
    groups = {"1,1": 0, "1,0": 1, "0,1": 1, "0,0": 0, "1,null": 1, "0,null": 1}
    assert (counts["groups"], counts["pairs"], counts["mismatched"]) == (groups, 4, 2)
    assert counts["imbalance"] == 0.0 and counts["errors"] == counts["failures"]["timeout"] == 1
    assert "not answered: timeout 1" in text and "has_answer=0 llm_prefer=null: 1 (25.0%)" in text


@pytest.mark.parametrize(
    ("text", "pattern", "found"),
    [
        ("in the year 1954 .", r"19\d4", True),
        ("in the year 21954", r"19\d4", False),
        ("São Paulo", "sao (paulo|joao)", True),
        ("Mt. Everest", r"(Mt\.?|Mount) Everest", True),
        ("because", "us", False),
    ],
)
def test_patterns_fold_and_keep_to_whole_words(text, pattern, found):
    assert matches_pattern(text, [pattern]) is found
    question = Question("?", (pattern,), (Passage("", text),), patterns=True)
    (labels,) = passage_labels(question, [Told(text)])
    assert (labels["has_answer"], labels["llm_prefer"]) == (found, found)


def test_a_pattern_that_never_ends_is_told():
    with pytest.raises(InputError, match=r"answers` must be .*in 2 s"):
        matches_pattern("a" * 60 + "!", [r"(a|aa|aaa)+b"])


@pytest.mark.parametrize("given", [None, [], "", [""], ["Rome", " "], ["?!"], ["x"], ["é"], [3]])
def test_answers_that_cannot_be_looked_for_are_refused(given):
    with pytest.raises(InputError, match="answers"):
        check_answers(given)


def test_answers_that_can():
    assert check_answers("Rome") == ("Rome",)
    assert check_answers(["7", "水", "AB"]) == ("7", "水", "AB")
    assert check_answers([r"\d+"], patterns=True) == (r"\d+",)
    for wrong in ("(", "a*", "x"):
        with pytest.raises(InputError):
            check_answers([wrong], patterns=True)


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("I'm sorry, but I can't help with that.", True),
        ("As an AI language model, I cannot assist with this request.", True),
        ("I must decline.", True),
        ("I can't help falling in love", False),
        ("Unfortunately, the passage does not say.", False),
        ("The Black Sea", False),
    ],
)
def test_what_is_a_refusal(text, refused):
    assert bool(REFUSAL.search(text)) is refused


def test_only_what_failed_is_tried_again_and_it_is_told_by_its_kind():
    calls = []

    def llm(prompts):
        calls.append(len(prompts))
        return ["the Black Sea", "", "I’m sorry, I can’t assist with that."][-len(prompts) :]

    told, empty, refusal = ask(llm, [*PAIRS, ("what town?", TOWN)])
    assert told == Told("the Black Sea") and calls == [3, 2, 2]
    assert (empty.kind, refusal.kind) == ("empty", "refusal")


@pytest.mark.parametrize(
    ("error", "kind", "tries"),
    [
        (RuntimeError("overloaded"), "error", 3),
        (TimeoutError("60 s"), "timeout", 3),
        (PortError("status 401"), "error", 1),  # was tried again where it came from
    ],
)
def test_errors(error, kind, tries):
    calls = []

    def llm(prompts):
        calls.append(prompts)
        raise error

    outcomes = ask(llm)
    assert [one.kind for one in outcomes] == [kind] * 2 and len(calls) == tries
    assert str(error) in outcomes[0].message
    few = ask(lambda prompts: ["one"])[0].message
    assert few == "PortError: <lambda> got 2 prompts but gave 1 answers"


class Framework:
    """A model as LangChain and LlamaIndex have them, and how many ask it at once."""

    model_name = "one"

    def __init__(self):
        self.open, self.most = 0, 0

    async def answer(self):
        self.open += 1
        self.most = max(self.most, self.open)
        await asyncio.sleep(0)
        self.open -= 1


class Chat(Framework):
    async def ainvoke(self, prompt):
        await self.answer()
        tokens = {"input_tokens": 7, "output_tokens": 2}
        reason = {"finish_reason": "content_filter"} if "Ulm" in prompt else {}
        return SimpleNamespace(text="Black Sea", usage_metadata=tokens, response_metadata=reason)


class Completing(Framework):
    async def acomplete(self, prompt):
        await self.answer()
        return SimpleNamespace(text=" Black Sea ")


def test_models_of_the_frameworks():
    llm = Chat()
    told, refused = ask(llm)
    assert told == Told("Black Sea", (7, 2))
    assert (refused.kind, refused.tokens) == ("refusal", (21, 6))  # three tries were paid
    assert ask(Completing()) == [Told("Black Sea")] * 2
    assert AskLLM(llm).name == "one"


async def test_a_model_is_asked_where_a_loop_is_running_and_never_more_at_once_than_allowed():
    llm = Completing()
    pairs = [(f"what sea {i}?", SEA) for i in range(20)]
    assert ask(llm, pairs, concurrency=3) == [Told("Black Sea")] * 20
    assert llm.most == 3


def test_real_framework_models():
    chat = pytest.importorskip("langchain_core.language_models.fake_chat_models")
    index = pytest.importorskip("llama_index.core.llms.mock")
    assert ask(chat.FakeListChatModel(responses=["Black Sea"])) == [Told("Black Sea")] * 2
    assert [type(one) for one in ask(index.MockLLM(max_tokens=4))] == [Told, Told]


class Never:
    async def ainvoke(self, prompt):
        await asyncio.Event().wait()


def test_a_model_that_never_answers_times_out():
    assert [one.kind for one in ask(Never(), timeout=0.01, retries=1)] == ["timeout"] * 2


def test_the_prompt_is_filled_once():
    asker = AskLLM(len, prompt="{passage}|{question}")
    assert asker.prompt("{passage}?", Passage("", "{question}")) == "{question}|{passage}?"
    with pytest.raises(InputError, match="prompt"):
        AskLLM(len, prompt="{question}")
    with pytest.raises(InputError, match="llm"):
        AskLLM(3)


PLAN = {"llm": "one", "depth": 5}


def sending(outcomes):
    """Send nothing: the outcomes are known."""

    def send(asked, may, heard):
        for prompt in asked:
            if may(prompt):
                heard(prompt, outcomes[prompt])

    return send


def test_the_cache_knows_answers_and_cuts_what_is_half_written(tmp_path):
    path = tmp_path / "out.jsonl.asked"
    said = {
        "who?": Told("a king\u2028", (4, 2)),
        "when?": Failed("empty", "nothing", (3, 0)),
        "where?": Told("Ulm", score=0.25),
    }
    cache = AnswerCache(path, PLAN)
    assert cache(dict.fromkeys(said), sending(said)) == said
    cache.close()
    whole = path.read_bytes()
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        cache = AnswerCache(path, PLAN)
        known, tokens = [cache.get(prompt) for prompt in said], cache.tokens
        cache.close()
        lines = whole[:cut].count(b"\n")
        expected = [said[p] if lines > least else None for p, least in (("who?", 1), ("where?", 3))]
        assert known == [expected[0], None, expected[1]]
        assert tokens == ((0, 0), (0, 0), (4, 2), (7, 2), (7, 2))[lines]
        assert (
            path.read_bytes() == whole[:cut].rpartition(b"\n")[0] + b"\n" * bool(lines) or not lines
        )
        assert json.loads(path.read_text().splitlines()[0]) == {"plan": PLAN}


def test_only_what_failed_is_asked_again(tmp_path):
    asked = []

    def llm(prompts):
        asked.append(list(prompts))
        return ["one" if prompt == "a" or len(asked) > 1 else "" for prompt in prompts]

    send = AskLLM(llm, retries=0).send
    with closing(AnswerCache(tmp_path / "asked", PLAN)) as cache:
        found = cache(dict.fromkeys("ab"), send)
        assert found["a"].text == "one" and found["b"].kind == "empty"
    with closing(AnswerCache(tmp_path / "asked", PLAN)) as cache:
        assert [one.text for one in cache(dict.fromkeys("aab"), send).values()] == ["one"] * 2
        assert len(cache) == 2 and "1 asked, 0 failed" in str(cache)
    assert asked == [["a", "b"], ["b"]]


@pytest.mark.parametrize(
    ("limits", "asked", "reason"),
    [
        ({"price_read": 1e6, "max_cost": 2.5}, 2, "could exceed the cost of 2.5"),
        ({"max_failures": 3}, 3, "3 failures in a row, the last: error: no"),
        ({"is_ending": lambda: True}, 0, None),
    ],
)
def test_what_may_not_be_asked_is_left_out(tmp_path, limits, asked, reason):
    said = dict.fromkeys(map(str, range(5)), Told("yes", (1, 0)))
    if "max_failures" in limits:
        said = dict.fromkeys(said, Failed("error", "no"))
    with closing(AnswerCache(tmp_path / "asked", PLAN, **limits, longest=1)) as cache:
        assert len(cache(said, sending(said))) == cache.asked == asked
        assert (reason or "") in cache.stopped and bool(cache.stopped) == bool(reason)


class Greedy:
    """Write the same each time, as a local model does."""

    name, is_greedy = "local", True

    def __init__(self):
        self.calls = []

    def generate(self, prompts):
        self.calls.append(len(prompts))
        return ["", "I'm sorry, but I can't help with that."][: len(prompts)]


def test_a_greedy_model_is_asked_once_and_its_empty_reply_is_an_answer():
    llm = Greedy()
    empty, refusal = ask(llm, retries=4)
    assert empty == Told("") and refusal.kind == "refusal" and llm.calls == [2]
    (labels,) = passage_labels(Question("what sea?", ("Black Sea",), (SEA,)), [empty])
    assert labels == {"has_answer": 1, "llm_prefer": 0, "answer": ""}


class Counting:
    """Read the first word, and count what was read."""

    def __init__(self):
        self.read_pairs = []

    def read(self, pairs):
        self.read_pairs += pairs
        return [SimpleNamespace(text=p.text.split()[0], score=len(p.text) / 100) for _, p in pairs]


def test_a_reader_reads_each_part_once_and_trusts_the_best():
    reader = AskReader(Counting())
    both, none = (Passage("", "", metadata={"parts": parts}) for parts in ((TOWN, SEA), ()))
    asked = {"one": PAIRS[1], "both": ("what sea?", both), "none": ("what sea?", none)}
    heard = {}
    reader.send(asked, always, heard.__setitem__)
    texts = {name: one.text for name, one in heard.items()}
    assert texts == {"one": "Ulm", "both": "The", "none": ""}
    assert len(reader.reader.read_pairs) == 2


def test_the_cache_refuses_a_second_writer_another_plan_and_damage_by_name(tmp_path):
    path = tmp_path / "out.jsonl.asked"
    cache = AnswerCache(path, PLAN)
    with pytest.raises(InputError, match="no other run"):
        AnswerCache(path, PLAN)
    cache.close()
    with pytest.raises(InputError, match=r"--depth` must be .*5, with which .*out.jsonl was begun"):
        AnswerCache(path, {**PLAN, "depth": 9})
    path.write_bytes(b"{}\n")
    with pytest.raises(InputError, match="damaged"):
        AnswerCache(path, PLAN)
