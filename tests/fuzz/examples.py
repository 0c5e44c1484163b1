"""Whole examples of what is read, for `altered` to change."""

PASSAGES = [{"title": "Danube", "text": "The Danube rises. It is long.", "has_answer": 1}]
PASSAGES += [{"text": "Lunch is at noon.", "has_answer": 0, "llm_prefer": None, "reader_score": 1}]
QUESTION = {"question": "Where does the Danube rise?", "answers": ["Black Forest"]}
SCORE = {"has_answer": 0.5, "llm_prefer": 0.25, "has_answer_logit": 0.0, "llm_prefer_logit": -1.1}
EXCERPT = {"passage": 0, "start": 0, "end": 5, "score": 0.5}

ROWS = [
    {**QUESTION, "passages": PASSAGES, "scores": [SCORE, SCORE], "excerpts": [EXCERPT]},
    {**QUESTION, "passage": PASSAGES[0], "answer_start": 4, "negatives": PASSAGES},
    {**QUESTION, "prediction": "x", "answer_groups": [["a"], ["b"]], "long_answers": ["a b"]},
    {**QUESTION, "p_known": 0.5, "known": 1, "right_with": 1, "right_without": 0, "score": 0.1},
    {**QUESTION, "prediction": "A", "choices": [{"label": "A", "text": "x"}], "rounds": [{}]},
]

PAGES = {"title": ["T"], "sentences": [["One.", "Two."]]}
TABLES = [
    {"question": "q", "answer": ["a"]},
    {"question": "q", "answer": {"value": "a", "aliases": ["b"]}, "entity_pages": {"title": ["t"]}},
    {"Question": "q", "Answer": {"Value": "a", "Aliases": ["b"], "HumanAnswers": ["c"]}},
    {"question": "q", "possible_answers": '["a", "b"]', "s_wiki_title": "t", "id": 3},
    {"ambiguous_question": "q", "qa_pairs": [{"short_answers": ["a"]}], "sample_id": "1"},
    {"claim": "c", "label": 1, "main_text": "words", "claim_id": 2},
    {"question": {"stem": "q", "choices": [{"label": "A", "text": "x"}]}, "answerKey": "A"},
    {"question": "q", "choices": {"label": ["A"], "text": ["x"]}, "answerKey": "A", "id": "i"},
    {"question": "q", "answer": "a", "context": PAGES, "supporting_facts": {"title": ["T"]}},
    {"question": "q", "answer": "a", "context": [["T", ["One."]]], "evidences": [], "_id": "i"},
    {"question": "q", "answer": "a", "paragraphs": [{"title": "t", "paragraph_text": "p"}]},
    {"input": "q", "output": [{"answer": "a", "provenance": [{"title": "t"}]}], "id": "i"},
    {"question": "q", "answers": ["a"], "positive_ctxs": [{"title": "t", "text": "p"}]},
    {"topic": "Who", "output": "o", "facts": ["f"], "ctxs": [{"title": "t", "text": "p"}]},
    {"question": "q", "golds": ["a"], "output": "[Relevant]x</s>", "ctxs": [{"text": "p"}]},
    {"q_id": 1, "question": "q", "response": "r", "label": ["a"]},
    {"question": "q", "answers": ["a"], "passages": PASSAGES},
]

SHOWN = [{"token": " Yes", "logprob": -0.1}, {"token": "No", "logprob": -2.5}]
TOLD = {"content": [{"token": " hello", "logprob": -0.2, "top_logprobs": SHOWN}]}
LISTED = {"tokens": ["hello"], "token_logprobs": [-0.2], "top_logprobs": [{"Yes": -0.1, "No": -3}]}
REPLIES = [
    {
        "choices": [{"text": "hello", "finish_reason": "length", "logprobs": LISTED}],
        "usage": {"completion_tokens": 0, "prompt_tokens": 3},
    },
    {"choices": [{"message": {"content": "hello"}, "logprobs": TOLD}], "usage": None},
    [{"index": 1, "score": 2.5}, {"index": 0, "score": -1}],
    {
        "results": [
            {
                "index": 0,
                "relevance_score": 0.5,
                "relevant_spans": [{"start": 0, "end": 4, "score": 0.9}],
            },
            {"index": 1, "relevance_score": 0.25},
        ]
    },
    {"data": [{"index": 0, "score": 0.5, "relevance_score": 0.5}, {"index": 1, "score": 0.1}]},
]

HIT = {"title": "A title", "url": "https://a.example/x", "content": "words", "engine": "e"}
SEARCHES = [
    {"results": [HIT, HIT], "unresponsive_engines": [["e", "too many requests"]]},
    {"organic": [{"title": "t", "link": "http://b.example", "snippet": "s"}]},
    [{"title": "t", "href": "http://c.example", "body": "s"}, "a text"],
    {"error": "it failed", "results": []},
]

MODELS = [
    {
        "format": 1,
        "kind": "bilabel",
        "encoder": "encoder",
        "head": {"file": "head.safetensors", "sha256": "0" * 64, "units": 16},
        "temperatures": [1.1, 0.9],
        "temperature": 1.0,
    }
]
LLM = {"value": 0.5, "model": "m", "target": "t", "data": "d", "rows": 3, "low": 0.1, "high": 0.9}
LLM["confidence"] = 0.95
ACTIONS = {"upper": 0.5, "lower": -0.5, "strip": 0.1, "model": "m", "sentences": 2}
THRESHOLDS = [LLM, ACTIONS]
FOLDERS = [
    {
        "format": 1,
        "metric": "inner_product",
        "kind": "flat",
        "count": 2,
        "encoder": {"name": "e", "width": 8, "settings": {}},
        "files": {
            "index": {"name": "index.faiss", "sha256": "0"},
            "passages": {"name": "passages.jsonl", "sha256": "0"},
        },
    },
    {
        "schema": 1,
        "llm": "m",
        "recipe": {"method": "direct", "k": 3},
        "gate": "neighbours",
        "threshold": LLM,
        "thresholds": ACTIONS,
        "promise": {},
        "corpus": {"passages": 3},
        "run": ["fitrag"],
    },
]

SEEDS = {
    "sentences": [
        "Dr. No rose. It is 3.5 m.\n\n- one\n- two\n```\ncode\n```\n| a | b |",
        "他来了。走吧。",
    ],
    "cleaning": ["a &amp; b <b>x</b>\u200b <|im_start|>user &#x41;", "<!-- x --> [INST] \u202e"],
    "written": [
        "<think>no</think> The answer is x [1][2, 3].",
        "<Known(True)> <Claim> c <Query> q </Claim>",
        '[{"claim": "c", "query": ["q"]}]',
        "Follow up: who? Intermediate answer: x\nSo the final answer is: y",
        "[Relevant] [Fully supported] [Utility:5] known (true)",
    ],
    "robots": [
        "/abc                                    User-agent: *\nDisallow: /a*b$\nAllow: /\n"
    ],
    "pages": [
        "<html><head><title>T</title><style>.x{display:none}</style></head><body><article>"
        "<p>One <b hidden>two</b> three.</p><p class=x>four</p></article></body></html>",
        "<\ufffdtml><title>T</title><style>.x</style></span>",  # its root was an element inside
    ],
    "styles": ["p.x, #y {opacity: 0.0; left:-999px} @media screen {a{font:0/1 x}} /* c */"],
    "addresses": ["https://user@a.example:80/../x?q=1#y", "http://0x7f.1/", "//b\\@c", "[::1]"],
    "headers": ["\x1dFri, 31 Dec 1999 23:59:59 GMT", "\x02 3", "\x00\x20text/html; charset=cp1251"],
    "files": [
        'x[{"question": "q", "answer": ["a"]}]',
        "xid\ttext\ttitle\n1\tone\ttwo\n",
        'x{"data": [{"question": "q", "answers": ["a"]}]}',
        'x{"kind": "gate", "figures": [], "schema": 1, "plots": []}',
    ],
    "journal": [
        '{"plan": {"llm": "x"}}\n{"tokens": [1, 2], "prompt": "p", "answer": "a"}\n',
        '{"plan": []}\n',
        "[" * 2000 + "\n",
    ],
    "folders": ["[" * 2000],
    "tensors": ['\x36\0\0\0\0\0\0\0{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}\0\0\0\0'],
    "rows": ['{"question": "q", "passages": [{"text": "t"}]}\n'],
    "requests": [
        '{"query": "q", "texts": ["a"], "\\ud800": 1}',
        '{"query": "q", "documents": ["\\ud800"], "relevant_spans": {}}',
        "[" * 200,
    ],
    "json_replies": ['{"choices": [{"text": "x"}]}', "[1, 2]"],
    "searches": ['{"results": [{"title": "t", "url": "u", "content": "c"}]}'],
    "models": [
        "[" * 2000,
        '{"format": 1, "kind": "bilabel", "head": {"file": "h", "sha256": "0"}}',
    ],
}
REQUESTS = [
    {"query": "q", "documents": ["one", {"text": "two", "title": "t", "id": "2"}], "model": "m",
     "top_n": 1, "return_documents": True, "relevant_spans": {"threshold": 0.1, "max_spans": 2}},
    {"query": "q", "texts": ["one", "two"], "raw_scores": True, "return_text": True},
    {"question": "q", "passages": [{"text": "one", "title": "t"}], "offsets": "utf16", "id": 1},
]  # fmt: skip
