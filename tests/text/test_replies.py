"""Replies of models that think aloud, decline, or say both; and of tools that say "nothing"."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitrag_integrations.text.replies import (
    astreamed,
    found_nothing,
    read_yes_no,
    refuses,
    streamed,
    strip_thoughts,
)

HARMONY = "<|channel|>analysis<|message|>Which town?<|end|><|start|>assistant"
THOUGHTS = [
    ("<think>The town? Besk or Arlow.</think>\n\nBesk", "Besk"),
    ("<THINK>hm</THINK>Besk", "Besk"),
    ("<thinking>hm</thinking> Besk", "Besk"),
    ("<seed:think>hm</seed:think>Besk", "Besk"),
    ("<reasoning>hm</reasoning>\nBesk", "Besk"),
    ("[THINK]hm[/THINK]Besk", "Besk"),
    ("◁think▷hm◁/think▷Besk", "Besk"),
    ("<|START_THINKING|>hm<|END_THINKING|><|START_RESPONSE|>Besk<|END_RESPONSE|>", "Besk"),
    (
        "<|begin_of_thought|>hm<|end_of_thought|>\n<|begin_of_solution|>Besk<|end_of_solution|>",
        "Besk",
    ),
    (f"{HARMONY}<|channel|>final<|message|>Besk<|return|>", "Besk"),
    (f"{HARMONY}<|channel|>commentary<|message|>hm<|end|>", ""),
    ("analysisThe user asks for a town.assistantfinalBesk", "Besk"),
    ("<|channel>thought\nhm<channel|>Besk", "Besk"),
    ("<unused94>thought\nhm<unused95>Besk", "Besk"),
    ("Here is my thought process: hm. Here is my response: Besk", "Besk"),
    ("<think></think><answer>Besk</answer>", "Besk"),
    ("<scratchpad>hm</scratchpad>\nBesk", "Besk"),
    ("<analysis>Besk or Arlow.</analysis>Besk", "Besk"),
    ("<rationale>hm</rationale><answer>Besk</answer>", "Besk"),
    ("<chain_of_thought>hm", ""),
    ("<think>one</think>Besk <think>two</think>it is", "Besk it is"),
    ("<think>never ends, Besk", ""),
    ("Besk <think>or Arlow", "Besk"),
    ("Besk, in a < b > c and [1] [x]", "Besk, in a < b > c and [1] [x]"),
    ("Qwen writes `<think>` before `</think>`.", "Qwen writes `<think>` before `</think>`."),
    ("analysis of towns", "analysis of towns"),
    ("<answer>Besk</answer>", "<answer>Besk</answer>"),
    ("", ""),
]


@pytest.mark.parametrize(("reply", "answer"), THOUGHTS)
def test_thoughts_are_no_part_of_a_reply(reply, answer):
    assert strip_thoughts(reply) == answer
    for step in (1, 5, 60):
        pieces = (reply[at : at + step] for at in range(0, len(reply), step))
        assert "".join(streamed(pieces)).strip() == answer


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("The user asks about a town.</think>\nBesk", "Besk"),
        ("The town? Hm.</thinking> <answer>Besk</answer>", "Besk"),
        ("Which?[/THINK]Besk", "Besk"),
        ("Which?<|end|><|start|>assistant<|channel|>final<|message|>Besk", "Besk"),
        ("<think>one <think> two</think> three</think>Besk", "Besk"),
    ],
)
def test_a_thought_that_nobody_opened_ends_at_its_closing_mark(reply, answer):
    assert strip_thoughts(reply) == answer


@given(st.text("<think>/ab\n[]", max_size=60), st.integers(1, 9))
def test_a_text_without_marks_streams_as_it_is(text, step):
    pieces = [text[at : at + step] for at in range(0, len(text), step)]
    if strip_thoughts(text) is text:
        assert "".join(streamed(iter(pieces))) == text


async def test_an_async_stream_loses_its_thoughts_too():
    async def pieces():
        for piece in ("<th", "ink>hm</thi", "nk>", "Be", "sk"):
            yield piece

    assert "".join([piece async for piece in astreamed(pieces())]) == "Besk"


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("Yes", True),
        (" yes.", True),
        ("**Yes**, it is", True),
        ("True", True),
        ("Yes, there is no doubt.", True),
        ("<think>No. Or is it?</think>Yes", True),
        ("It may be No.</think>Yes", True),
        ("Answer: Yes", True),
        ("The answer is Yes.", True),
        ("**Final answer:** yes", True),
        ("My verdict is: True.", True),
        ("Answer: no", False),
        ("The correct answer is No.", False),
        ("No. The draft is not true.", False),
        ("Yes. The draft is not true.", None),
        ("Yes, but I am not sure", None),
        ("Yes. That is incorrect.", None),
        ("True, though only in part.", None),
        ("Yes, probably.", None),
        ("Yes, I doubt it.", None),
        ("The answer is yes; however, it isn’t certain.", None),
        ("The answer is unknown", None),
        ("No", False),
        ("FALSE", False),
        ("No, that is not true.", False),
        ("Yes or No", None),
        ("Yes/No", None),
        ("Yes. No.", None),
        ("Yes and no", None),
        ("True / False", None),
        ("no, it was Verdi: yes", None),
        ("Yes\nNo", None),
        ("<think>Yes", None),
        ("", None),
        ("Perhaps", None),
        ("Yesterday", None),
        ("Nobody knows", None),
    ],
)
def test_a_reply_with_both_is_no_verdict(reply, said):
    assert read_yes_no(reply) is said


@pytest.mark.parametrize(
    ("reply", "declines"),
    [
        ("I'm sorry, but I cannot search the web.", True),
        ("I’m unable to help with that", True),
        ("As an AI language model, I have no web", True),
        ("Unfortunately, there are none", True),
        ("None.", True),
        ("No keywords come to mind", True),
        ("None of the towns", False),
    ],
)
def test_a_refusal_is_known_by_how_it_begins(reply, declines):
    assert refuses(reply) is declines


@pytest.mark.parametrize(
    "said",
    [
        "No good Google Search Result was found",
        "No good DuckDuckGo Search Result was found",
        "No results",
        "No results found! Try a less restrictive/shorter query.",
        "0 results",
        "No relevant results found for 'x' on Stack Overflow",
        "No search results found for 'x'. Suggestions: try fewer words",
        "There were no results for your query.",
        "Your search returned no results.",
        "Sorry, nothing found.",
        "I couldn’t find any results for that.",
        "Results: []",
        "{'results': []}",
        "None",
        "202 Ratelimit",
        "https://html.duckduckgo.com/html 202 Ratelimit",
        "DuckDuckGoSearchException: https://html.duckduckgo.com 202 Ratelimit",
        "Rate limit exceeded. Please try again later.",
        "HTTPError('429 Client Error: Too Many Requests')",
        "You have exceeded your daily quota.",
        "Error: 401 Unauthorized",
        "Request timed out.",
        "Keine Ergebnisse gefunden.",
        "Your search did not match any documents.",
        "Your search - Amarcord composer - did not match any documents.",
        "HTTP 503: Service Unavailable",
        "502 Bad Gateway",
        "401 Client Error: Unauthorized for url: https://api.example/search?q=x",
        "requests.exceptions.ConnectionError: Failed to establish a new connection",
        "Search error: the connection was refused",
        "The read operation timed out",
        "Invalid API key provided.",
        "Something went wrong, please try again",
        "Es wurden leider keine Treffer gefunden.",
        "Aucun résultat trouvé pour votre recherche.",
        "No se encontraron resultados.",
        "Nessun risultato trovato",
        "Nenhum resultado encontrado.",
        "Ничего не найдено.",
        "没有找到相关结果。",
        "検索結果が見つかりませんでした",
        "검색 결과가 없습니다.",
    ],
)
def test_what_a_search_tool_says_of_itself_is_no_result(said):
    assert found_nothing(said)


@pytest.mark.parametrize(
    "text",
    [
        "No matches were played in 1940.",
        "Rate limit: 60 requests a minute.",
        "The API's rate limit is 60 requests a minute.",
        "Status 429 means too many requests.",
        "Nothing is known about her birth.",
        "None of the towns has a station.",
        "No results of the vote were published before May.",
        "Error handling in Python uses try.",
        "The quota for 2020 was exceeded by 4 %.",
        "The peace talks of 1940 failed because neither side would give way.",
        "The Forbidden City",
        "Not found until 1922, the tomb had four rooms.",
        "Die Stadt hat keine Ergebnisse der Wahl veröffentlicht, bevor der Rat zusammentrat.",
        "A timeout ends a request after 30 seconds.",
        "Nino Rota",
        "8,849 m",
        "No results. " + "The page goes on. " * 30,
    ],
)
def test_a_result_about_such_words_stays(text):
    assert not found_nothing(text)
