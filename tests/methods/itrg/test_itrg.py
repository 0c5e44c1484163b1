"""ITRG driven by hand, every prompt and query in its order; its stops, failures and lock step."""

import asyncio
import json

import pytest
from by_hand import asked, finished
from hypothesis import given
from hypothesis import strategies as st

from fitrag_integrations.core.record import plain
from fitrag_integrations.flow import arun_many, run, run_many
from fitrag_integrations.methods import ITRG, Shot
from fitrag_integrations.methods.answering import Answering
from fitrag_integrations.methods.itrg.prompts import check_demonstrations, document_prompt
from fitrag_integrations.methods.prompts import ITRG_ANSWER
from fitrag_integrations.methods.writing import cut, expanded_query, read_document, update
from fitrag_integrations.ports import Ports
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.types import Context, Excerpt, Passage

QUESTION = "When was the mother of Ilse Marbach born?"
A = Passage("a", "Ilse Marbach is a painter.", "Ilse Marbach")
B = Passage("b", "Klara Marbach is her mother.", "Marbachs")
C = Passage("c", "Klara Marbach was born in 1931.", "Klara Marbach")
D = Passage("d", "The Marbach is a brook.")
COLD = Passage("cold", "Oslo is cold.")
SHOT = ("Who built it?", "Anna Vell built it in 1870.", "Anna Vell")


def ids(context):
    return [(one["new"], one["old"]) for one in context.details["rounds"]]


def begun(method):
    flow = method(QUESTION, World().ports)
    return flow, asked(flow.send(None))


class World:
    """Find passages by the number of words in a query, write by a rule; remember every call."""

    def __init__(self, found=None, written=None):
        self.found = found or (lambda query: [A, B])
        self.written = written or (lambda prompt: "It says so.")
        self.retrieved, self.prompts = [], []

    def retrieve(self, queries):
        self.retrieved.append(list(queries))
        return [self.found(query) for query in queries]

    def generate(self, prompts):
        self.prompts.append(list(prompts))
        return [self.written(prompt) for prompt in prompts]

    @property
    def ports(self):
        return Ports(self, generate=self)

    def run(self, question=QUESTION, **options):
        return run(ITRG(**options)(question, self.ports))


def counting():
    """Write a different document every time."""
    written = iter(range(1000))
    return lambda prompt: f"Document {next(written)}."


def test_refine_by_hand():
    flow, first = begun(ITRG(rounds=3))
    assert first == ("retrieve", [QUESTION])
    shown = "Passage:\n1. Ilse Marbach: Ilse Marbach is a painter.\n"
    shown += f"2. Marbachs: Klara Marbach is her mother.\nQuestion: {QUESTION}\nDocument:"
    port, (prompt,) = asked(flow.send([[A, B]]))
    assert port == "generate" and prompt.endswith("\n\n" + shown)
    assert prompt.startswith("In the following task, write a document that contains the answer")
    assert "arlier document" not in prompt
    query = f"{QUESTION} Her mother is Klara."
    assert asked(flow.send(["Her mother is Klara."])) == ("retrieve", [query])
    port, (prompt,) = asked(flow.send([[C, B]]))  # B was there before
    shown = "Earlier document: Her mother is Klara.\nPassage:\n"
    shown += f"1. Klara Marbach: Klara Marbach was born in 1931.\nQuestion: {QUESTION}\nDocument:"
    assert port == "generate" and prompt.endswith("\n\n" + shown) and "painter" not in prompt
    assert asked(flow.send(["Klara, born 1931."])) == (
        "retrieve",
        [f"{QUESTION} Klara, born 1931."],
    )
    port, (prompt,) = asked(flow.send([[A, C]]))  # A was not there in the last round
    assert "is a painter" in prompt and "was born in" not in prompt
    context = finished(flow, ["In 1931."])
    assert context.method == "itrg" and context.draft == "In 1931." and context.notes == ()
    assert context.excerpts == (Excerpt.whole(A), Excerpt.whole(C))
    assert context.queries == (query, f"{QUESTION} Klara, born 1931.")
    assert ids(context) == [(["a", "b"], []), (["c"], ["b"]), (["a"], ["c"])]
    assert context.details["rounds"][1] == {
        "round": 2,
        "query": query,
        "new": ["c"],
        "old": ["b"],
        "document": "Klara, born 1931.",
        "answer": None,
    }
    assert (context.details["stopped"], context.details["mode"]) == ("rounds", "refine")


def test_refresh_by_hand_shows_all_passages_and_no_earlier_document():
    flow, _ = begun(ITRG("refresh", rounds=2))
    flow.send([[A, B]])
    assert asked(flow.send(["WRONG WORDS."])) == ("retrieve", [f"{QUESTION} WRONG WORDS."])
    port, (prompt,) = asked(flow.send([[C, B]]))
    assert port == "generate" and "WRONG" not in prompt
    assert prompt == document_prompt(QUESTION, [C, B])
    assert "1. Klara Marbach: " in prompt and "2. Marbachs: " in prompt
    context = finished(flow, ["In 1931."])
    assert ids(context) == [(["a", "b"], []), (["c"], ["b"])]
    assert context.draft == "In 1931."


def test_an_empty_difference_keeps_the_document_and_asks_nobody():
    flow, _ = begun(ITRG())
    flow.send([[A, B]])
    flow.send(["Her mother is Klara."])
    context = finished(flow, [[B]])  # a part of what was there, in any order, is nothing new
    assert context.draft == context.details["rounds"][1]["document"] == "Her mother is Klara."
    assert ids(context) == [(["a", "b"], []), ([], ["b"])]
    assert context.details["stopped"] == "empty" and context.excerpts == (Excerpt.whole(B),)


def test_refresh_writes_anew_from_nothing_new_unless_told_to_stop():
    world = World(written=counting())
    context = world.run(mode="refresh", rounds=3).value
    assert len(world.retrieved) == len(world.prompts) == 3
    assert context.draft == "Document 2." and context.details["stopped"] == "rounds"
    world = World(written=counting())
    context = world.run(mode="refresh", rounds=3, stop="empty").value
    assert (len(world.retrieved), len(world.prompts)) == (2, 1)
    assert context.draft == "Document 0." and context.details["stopped"] == "empty"


def test_rounds_that_would_repeat_the_last_are_left_out():
    world = World(written=lambda prompt: "The same.")
    context = world.run(mode="refresh").value
    assert len(world.retrieved) == 2 and context.details["stopped"] == "settled"


def test_an_unchanged_answer_ends_the_rounds():
    replies = iter(["Doc 1.", "in 1930", "Doc 2.", "In 1931.", "Doc 3.", "the IN  1931"])
    found = iter([[A], [B], [C], [D]])
    world = World(lambda query: next(found), lambda prompt: next(replies))
    context = world.run(stop=("unchanged",)).value
    assert context.details["stopped"] == "unchanged" and len(world.retrieved) == 3
    answers = [one["answer"] for one in context.details["rounds"]]
    assert answers == ["in 1930", "In 1931.", "the IN  1931"]
    assert world.prompts[1] == [Context(QUESTION, draft="Doc 1.").prompt(ITRG_ANSWER)]
    assert (context.draft, context.details["answers"]) == ("the IN  1931", True)
    assert context.details["document"] == "Doc 3." and "template" not in context.details


def test_an_unchanged_document_has_the_answer_it_had():
    world = World(written=lambda prompt: "1931" if prompt.endswith("Answer:") else "Doc.")
    context = world.run(stop=["empty", "unchanged"], mode="refresh").value
    assert len(world.prompts) == 2 and context.details["stopped"] == "empty"
    assert [one["answer"] for one in context.details["rounds"]] == ["1931", "1931"]


def test_the_answers_of_all_rounds_are_one_ask():
    found = iter([[A], [B], [C]])
    world = World(lambda query: next(found), counting())
    context = world.run(rounds=3, answers="each").value
    assert [len(prompts) for prompts in world.prompts] == [1, 1, 1, 3]
    assert [one["answer"] for one in context.details["rounds"]] == [
        f"Document {n}." for n in (3, 4, 5)
    ]
    world = World()
    context = world.run(answers="last").value
    answers = [one["answer"] for one in context.details["rounds"]]
    assert answers == [None, "It says so."] and len(world.prompts) == 2
    assert (context.draft, context.details["answers"]) == ("It says so.", True)


def test_the_caller_answers_from_the_last_document():
    context = World().run().value
    shown = f"Document: It says so.\nQuestion: {QUESTION}\nAnswer:"
    assert context.prompt() == context.prompt(ITRG_ANSWER) and context.prompt().endswith(shown)
    assert Context.from_dict(json.loads(json.dumps(context.to_dict()))).prompt() == context.prompt()
    world = World()
    answered = run(Answering(ITRG())(QUESTION, world.ports)).value
    assert world.prompts[-1] == [answered.prompt] == [context.prompt()]


def test_demonstrations_stand_between_task_and_question():
    examples = [SHOT, Shot("Where {is} it?", "Oslo", (COLD,), document="It is in Oslo.")]
    world = World()
    context = world.run(demonstrations=iter(examples)).value
    (prompt,) = world.prompts[0]
    assert (
        "answer to the question.\n\nQuestion: Who built it?\nDocument: Anna Vell built it in 1870."
        "\n\nPassage:\n1. Oslo is cold.\nQuestion: Where {is} it?\nDocument: It is in Oslo.\n\n"
        "Passage:\n1. Ilse Marbach: "
    ) in prompt
    assert (
        "Document: Anna Vell built it in 1870.\nQuestion: Who built it?\nAnswer: Anna Vell\n\n"
        "Document: It is in Oslo.\nQuestion: Where {is} it?\nAnswer: Oslo\n\n"
        "Document: It says so."
    ) in context.prompt()
    table = {"question": SHOT[0], "document": SHOT[1], "answer": SHOT[2]}
    assert ITRG(demonstrations=[table]) == ITRG(demonstrations=[list(SHOT)])
    shots = check_demonstrations("demonstrations", [SHOT])
    later = document_prompt(QUESTION, [A], document="Old.", demonstrations=shots)
    assert later.index("Anna Vell") < later.index("Earlier document: Old.\nPassage:")
    assert later.count("Earlier document") == 1


def test_only_k_usable_passages_are_used():
    blank = Passage("blank", " ")
    world = World(lambda query: [blank, A, A, B, C])
    context = world.run(k=2).value
    assert context.excerpts == (Excerpt.whole(A), Excerpt.whole(B))
    assert context.notes[:2] == (
        "round 1: 1 of 5 passages left out: no text",
        "round 1: 1 of 5 passages left out: repeated",
    )


def test_a_passage_found_with_another_score_is_not_new():
    again = Passage("a", A.text, A.title, metadata={"retrieval_score": 0.5})
    assert update([again, B], [A]) == (B,)
    assert update([A], []) == (A,) and update([], [A]) == ()
    assert update([Passage("a", A.text)], [A]) != (), "another title is another passage"


def test_the_query_is_the_question_and_the_document_on_one_line():
    assert expanded_query("Who?", "") == "Who?"
    assert expanded_query("Who?", "He.\n\nShe. ") == "Who? He. She."


@pytest.mark.parametrize("mode", ["refine", "refresh"])
@pytest.mark.parametrize("wrote", ["", " \n ", "<think>hm", "Document:", "Document: \n"])
def test_a_blank_document_leaves_the_last_one(mode, wrote):
    replies = iter(["Good.", wrote, "Too late."])
    found = iter([[A], [B], [C]])
    context = World(lambda query: next(found), lambda prompt: next(replies)).run(mode=mode).value
    assert context.draft == "Good." and context.details["stopped"] == "settled"
    assert context.notes == ("round 2: the language model wrote no document: the last one is kept",)
    assert context.excerpts == (Excerpt.whole(B),)


def test_without_any_document_the_passages_are_left():
    context = World(written=lambda prompt: "").run(answers="last").value
    assert context.draft is None and context.excerpts == (Excerpt.whole(A), Excerpt.whole(B))
    assert context.notes == ("round 1: the language model wrote no document: there is none",)
    assert len(context.details["rounds"]) == 1
    assert "is a painter" in context.prompt(), "the caller still has a prompt with the passages"


def test_nothing_retrieved_is_noted_and_nothing_is_written():
    world = World(lambda query: [])
    context = world.run().value
    assert world.prompts == [] and context.excerpts == () and context.draft is None
    assert context.notes == (
        "round 1: nothing was retrieved",
        "nothing to refer to: no passage with text was retrieved",
    )
    found = iter([[A], []])
    context = World(lambda query: next(found)).run().value
    assert context.excerpts == (Excerpt.whole(A),) and context.draft == "It says so."
    assert context.notes == ("round 2: nothing was retrieved",)


def test_a_model_that_runs_on_is_cut():
    world = World(written=lambda prompt: "again and again " * 20_000)
    context = world.run(document_tokens=40).value
    assert approximate_tokens(context.draft) == 40 == context.details["document_tokens"]
    assert context.notes[0] == "round 1: the document was cut to 40 tokens"
    assert len(world.retrieved[1][0]) < 400
    answered = World(written=lambda prompt: "word " * 9999).run(answers="last").value
    assert approximate_tokens(answered.draft) == 15


@pytest.mark.parametrize(
    "wrote",
    [
        "Klara was born in 1931.",
        "Document: Klara was born in 1931.",
        "**Document:** Klara was born in 1931.",
        "<think>Question: hm</think>\nKlara was born in 1931.",
        "Klara was born in 1931.\n\nQuestion: What else?\nDocument: Nothing.",
        "Klara was born in 1931.\nPassage:\n1. Made up.",
    ],
)
def test_documents_are_read_leniently(wrote):
    assert read_document(wrote, 200, approximate_tokens) == ("Klara was born in 1931.", False)


def test_an_echo_of_the_prompt_is_taken_off():
    world = World(written=lambda prompt: f"{prompt} Klara.")
    assert world.run(answers="last").value.details["rounds"][0]["document"] == "Klara."
    assert world.run(answers="last").value.draft == "Klara."


@given(st.text(max_size=80), st.integers(1, 12))
def test_a_cut_text_is_a_beginning_within_its_budget(text, most):
    kept = cut(text, most, approximate_tokens)
    assert text.lstrip().startswith(kept) or text.startswith(kept)
    assert approximate_tokens(kept) <= most


def test_a_text_without_blanks_is_cut_inside():
    assert cut("音" * 50, 7, approximate_tokens) == "音" * 7
    assert cut("one two three", 2, approximate_tokens) == "one two"
    assert cut("one incomprehensibility", 2, approximate_tokens) == "one"


def failing_on(word, error):
    def call(items):
        if any(word in item for item in items):
            raise error
        return ["It says so." for _ in items]

    return call


@pytest.mark.parametrize("mode", ["refine", "refresh"])
def test_a_model_that_fails_in_a_later_round_leaves_what_there_is(mode):
    found = iter([[A], [C]])
    ports = Ports(lambda queries: [next(found)], generate=failing_on("1931", TimeoutError("slow")))
    context = run(ITRG(mode)(QUESTION, ports)).value
    assert context.draft == "It says so." and context.details["stopped"] == "failed"
    assert context.notes == (
        "round 2: the language model wrote no document (TimeoutError: slow): the last one is kept",
    )
    found = iter([[A], [C]])
    with pytest.raises(TimeoutError):
        _ = run(ITRG(mode, on_error="raise")(QUESTION, ports)).value


def test_a_failed_answer_is_left_to_the_caller():
    ports = Ports(lambda queries: [[A]], generate=failing_on("as few words", ValueError("no")))
    context = run(ITRG(answers="last")(QUESTION, ports)).value
    assert context.draft == "It says so." and "answers" not in context.details
    assert context.prompt().endswith("Answer:")
    assert context.notes == ("round 2: the language model wrote no answer (ValueError: no)",)


def test_a_reply_that_is_no_text_counts_as_failed():
    context = World(written=lambda prompt: None).run().value
    assert context.draft is None and "(InputError: `reply` must be" in context.notes[0]


def test_a_retriever_that_fails_later_leaves_what_was_found():
    def retrieve(queries):
        if queries != [QUESTION]:
            raise ConnectionError("gone")
        return [[A]]

    ports = Ports(retrieve, generate=World())
    context = run(ITRG()(QUESTION, ports)).value
    assert context.excerpts == (Excerpt.whole(A),) and context.draft == "It says so."
    assert context.notes == (
        "round 2: retrieval failed (ConnectionError: gone): what was found before is kept",
    )
    with pytest.raises(ConnectionError):
        _ = run(ITRG(on_error="raise")(QUESTION, ports)).value
    with pytest.raises(ConnectionError):
        _ = run(ITRG()("Another?", ports)).value


QUESTIONS = [f"Who lives in house {n}?" for n in range(32)]


def number_of(text):
    return int(text.split("house ")[1].split("?")[0])


class Street(World):
    """World in which house n requires n % 4 + 1 rounds until nothing new is found."""

    def __init__(self):
        super().__init__(self.house, self.narrate)

    def house(self, query):
        number, seen = number_of(query), query.count("word")
        floor = min(seen, number % 4)
        return [Passage(f"{number}-{floor}", f"House {number} floor {floor}.")]

    def narrate(self, prompt):
        floor = prompt.rpartition("floor ")[2][0]
        return "word " * (int(floor) + 1)


def test_32_questions_share_every_call_and_finished_ones_leave():
    world = Street()
    method = ITRG()
    traces = run_many([method(question, world.ports) for question in QUESTIONS])
    rounds = [len(trace.value.details["rounds"]) for trace in traces]
    assert [min(n % 4 + 2, 5) for n in range(32)] == rounds
    assert [len(queries) for queries in world.retrieved] == [32, 32, 24, 16, 8]
    assert [len(prompts) for prompts in world.prompts] == [32, 24, 16, 8]
    assert all(trace.value.notes == () for trace in traces)
    waiting = asyncio.run(arun_many([method(question, world.ports) for question in QUESTIONS]))
    assert [trace.value for trace in waiting] == [trace.value for trace in traces]


@pytest.mark.parametrize("wrote", ["", "again " * 5000, "No format.\nQuestion: Q\n", ValueError()])
def test_one_bad_question_of_32_leaves_the_others_untouched(wrote):
    def generate(prompts):
        if isinstance(wrote, Exception) and any("house 7?" in prompt for prompt in prompts):
            raise wrote
        return [wrote if "house 7?" in prompt else "word" for prompt in prompts]

    good, street = Street(), Street()
    bad = Ports(street, generate=generate)
    fine = Ports(good, generate=lambda prompts: ["word" for _ in prompts])
    got = run_many([ITRG()(question, bad) for question in QUESTIONS])
    expected = run_many([ITRG()(question, fine) for question in QUESTIONS])
    for number, (one, other) in enumerate(zip(got, expected, strict=True)):
        assert one.error is None
        assert (one.value == other.value) == (number != 7)
    outcome = got[7].value
    if wrote == "No format.\nQuestion: Q\n":
        assert outcome.details["rounds"][0]["document"] == "No format."
    else:
        assert outcome.notes and outcome.notes[0].startswith("round 1: the ")


def test_details_are_plain_and_the_trace_tells_the_rounds():
    trace = World().run(answers="each")
    details = trace.value.details
    assert plain(details) == json.loads(json.dumps(details)) == details
    outcome = trace.to_dict(full=True)
    assert outcome["value"]["details"]["rounds"][0]["new"] == ["a", "b"]
    assert "2. generate: 1 asked" in trace.explain()


@pytest.mark.parametrize(
    ("written", "document"),
    [
        ("Klara is her mother.\n\nThe Tirva is a river.", "Klara is her mother."),
        ("Klara is her mother.\n## Sources\nA book.", "Klara is her mother."),
        (
            "# Klara\n\nShe is her mother.\nShe paints.\n\n# Tirva",
            "# Klara\n\nShe is her mother.\nShe paints.",
        ),
        ("Klara is her mother.\n\nQuestion: Who?\nAnswer: Klara", "Klara is her mother."),
    ],
)
def test_a_document_ends_at_its_first_paragraph(written, document):
    world = World(written=lambda prompt: written)
    context = run(ITRG(rounds=1)(QUESTION, world.ports)).value
    assert context.draft == document
    assert any("first paragraph" in note for note in context.notes)
