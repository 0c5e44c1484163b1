"""Two rows of our own in each published shape, as files of those names hold them."""

import json

SPRING = ["The Iller rises in the Allgäu. ", "It meets the Danube at Ulm."]
LAKE = ["Lake Constance drains into the Rhine.", "Its island is Mainau."]

NQ = [
    {"question": "where does the iller end", "answer": ["the Danube", "Danube"]},
    {"question": "which island lies in lake constance", "answer": ["Mainau"]},
]
TRIVIA = [
    {
        "question": "Which river ends at Ulm?",
        "question_id": "t_1",
        "answer": {
            "value": "Iller",
            "aliases": ["Iller", "River Iller"],
            "normalized_aliases": ["iller", "river iller"],
            "normalized_value": "iller",
            "matched_wiki_entity_name": "",
            "type": "WikipediaEntity",
        },
        "entity_pages": {
            "doc_source": ["TagMe"],
            "filename": ["Iller.txt"],
            "title": ["Iller"],
            "wiki_context": ["".join(SPRING)],
        },
        "search_results": {"title": [], "search_context": [], "rank": []},
    },
    {
        "question": "Which island does Lake Constance have?",
        "question_id": "t_2",
        "answer": {"value": "Mainau", "aliases": [], "normalized_aliases": ["mainau"]},
        "entity_pages": {"title": [], "wiki_context": []},
        "search_results": {
            "title": ["Constance", "Blank"],
            "search_context": [" ".join(LAKE), " "],
            "rank": [1, 2],
        },
    },
]
TRIVIA_OWN = {
    "Data": [
        {
            "Question": row["question"],
            "QuestionId": row["question_id"],
            "Answer": {
                "Value": row["answer"]["value"],
                "Aliases": row["answer"]["aliases"],
                "NormalizedAliases": row["answer"]["normalized_aliases"],
                "Type": "WikipediaEntity",
            },
            "EntityPages": [{"Title": "Iller", "Filename": "Iller.txt"}],
        }
        for row in TRIVIA
    ],
    "Domain": "Web",
    "Version": 1.0,
}
POPQA = [
    {
        "id": 11,
        "subj": "Iller",
        "prop": "mouth of the watercourse",
        "obj": "Danube",
        "s_pop": 120,
        "question": "What is the mouth of the Iller?",
        "possible_answers": '["Danube", "River Danube", "Donau"]',
    },
    {
        "id": 12,
        "subj": "Mainau",
        "prop": "located in",
        "obj": "Lake Constance",
        "s_pop": 90,
        "question": "In what lake is Mainau?",
        "possible_answers": '["Lake Constance", "Bodensee"]',
    },
]
HOTPOT = [
    {
        "_id": "h1",
        "question": "At which city does the Iller end?",
        "answer": "Ulm",
        "type": "bridge",
        "level": "easy",
        "supporting_facts": [["Iller", 1]],
        "context": [["Iller", SPRING], ["Lake Constance", LAKE]],
    },
    {
        "_id": "h2",
        "question": "Does Lake Constance drain into the Danube?",
        "answer": "no",
        "type": "comparison",
        "level": "hard",
        "supporting_facts": [["Lake Constance", 0]],
        "context": [["Iller", SPRING], ["Lake Constance", LAKE]],
    },
]
HOTPOT_HUB = [
    {
        "id": row["_id"],
        "question": row["question"],
        "answer": row["answer"],
        "type": row["type"],
        "level": row["level"],
        "supporting_facts": {
            "title": [title for title, _ in row["supporting_facts"]],
            "sent_id": [at for _, at in row["supporting_facts"]],
        },
        "context": {
            "title": [title for title, _ in row["context"]],
            "sentences": [sentences for _, sentences in row["context"]],
        },
    }
    for row in HOTPOT
]
WIKI = [
    {
        **{key: value for key, value in row.items() if key != "level"},
        "evidences": [["Iller", "mouth", "Danube"]],
    }
    for row in HOTPOT
]
WIKI_TEXTS = [
    {
        **row,
        **{name: json.dumps(row[name]) for name in ("context", "supporting_facts", "evidences")},
    }
    for row in WIKI
]
WIKI_CONTENT = [
    {**row, "context": {"title": ["Iller"], "content": [SPRING]}, "supporting_facts": hub}
    for row, hub in zip(WIKI, (each["supporting_facts"] for each in HOTPOT_HUB), strict=True)
]
MUSIQUE = [
    {
        "id": f"2hop__{i}",
        "paragraphs": [
            {
                "idx": 0,
                "title": "Iller",
                "paragraph_text": "".join(SPRING),
                "is_supporting": i == 0,
            },
            {
                "idx": 1,
                "title": "Lake Constance",
                "paragraph_text": " ".join(LAKE),
                "is_supporting": i == 1,
            },
        ],
        "question": question,
        "question_decomposition": [
            {"id": 1, "question": "Iller >> mouth", "answer": "Danube", "paragraph_support_idx": 0}
        ],
        "answer": answer,
        "answer_aliases": aliases,
        "answerable": True,
    }
    for i, (question, answer, aliases) in enumerate(
        [("Where does the Iller end?", "Ulm", ["Ulm on the Danube"]), ("Which isle?", "Mainau", [])]
    )
]
ASQA = {
    "dev": {
        "-101": {
            "ambiguous_question": "Where does the river end?",
            "qa_pairs": [
                {
                    "question": "Where does the Iller end?",
                    "short_answers": ["Ulm", "the Danube"],
                    "context": "No context provided",
                    "wikipage": None,
                },
                {
                    "question": "Where does the Aare end?",
                    "short_answers": ["the Rhine"],
                    "context": "No context provided",
                    "wikipage": "Aare",
                },
            ],
            "wikipages": [{"title": "Iller", "url": ""}],
            "annotations": [{"knowledge": [], "long_answer": "The Iller ends in the Danube."}],
        },
        "-102": {
            "ambiguous_question": "Which island?",
            "qa_pairs": [
                {"question": "Which island in Lake Constance?", "short_answers": ["Mainau"]}
            ],
            "annotations": [],
        },
    }
}
PUBHEALTH = [
    {
        "claim_id": "c1",
        "claim": "River water cures hiccups.",
        "explanation": "Nobody measured it.",
        "label": 3,
        "main_text": "A pamphlet says so.",
        "subjects": "Health",
    },
    {"claim_id": "c2", "claim": "Cold water is wet.", "label": 2, "main_text": ""},
    {"claim_id": "c3", "claim": "Nobody judged this.", "label": -1, "main_text": ""},
]
ARC = [
    {
        "id": "a1",
        "question": "What moves a river?",
        "choices": {"text": ["gravity", "the moon", "wind"], "label": ["A", "B", "C"]},
        "answerKey": "A",
    },
    {
        "id": "a2",
        "question": "What is ice?",
        "choices": {"text": ["a gas", "solid water"], "label": ["1", "2"]},
        "answerKey": "2",
    },
]
ARC_OWN = [
    {
        "id": row["id"],
        "question": {
            "stem": row["question"],
            "choices": [
                {"text": text, "label": label}
                for text, label in zip(row["choices"]["text"], row["choices"]["label"], strict=True)
            ],
        },
        "answerKey": row["answerKey"],
    }
    for row in ARC
]
CTXS = [{"id": "7", "title": "Iller", "text": "".join(SPRING), "score": "1.5"}]
SELFRAG = [
    {
        "question": "Where does the Iller end?",
        "answers": ["Ulm"],
        "ctxs": CTXS,
        "output": "[Relevant]Ulm[Fully supported][Utility:5]</s>",
    },
    {
        "question": "Which island?",
        "answers": ["Mainau"],
        "ctxs": CTXS,
        "output": "[No Retrieval]Elba",
    },
]
SELFRAG_LISTS = {
    "preds": ["Ulm", "Elba[Utility:2]"],
    "prompts": [
        "### Instruction:\nWhere does the Iller end?\n\n### Response:\n",
        "### Instruction:\nAnswer it.\n\n## Input:\n\nWhich island?\n\n### Response:\n",
    ],
    "golds": [["Ulm"], ["Mainau"]],
    "metric_results": [1, 0],
    "all_results": [{}, {}],
    "metric": "match",
    "metric_mean": 0.5,
    "scores": [],
}
SELFRAG_LONG = {
    "data": [
        {
            "question": "Where does the river end?",
            "qa_pairs": ASQA["dev"]["-101"]["qa_pairs"],
            "docs": CTXS,
            "output": "It ends at Ulm [0].",
        }
    ],
    "args": [],
    "total_cost": 0.0,
}
BERGEN = [
    {
        "q_id": "b1",
        "response": "It ends at Ulm.",
        "instruction": "Background: ...",
        "label": ["Ulm"],
        "question": "Where does the Iller end?",
        "ranking_label": None,
    },
    {
        "q_id": "b2",
        "response": "Elba",
        "instruction": "Background: ...",
        "label": ["Mainau"],
        "question": "Which island?",
        "ranking_label": None,
    },
]
KILT = [
    {
        "id": "k1",
        "input": "where does the iller end",
        "output": [
            {
                "answer": "Danube",
                "provenance": [
                    {"wikipedia_id": "7", "title": "Iller", "start_paragraph_id": 1},
                    {"wikipedia_id": "8", "title": "Danube", "start_paragraph_id": 2},
                ],
            },
            {"answer": "the Danube"},
            {"provenance": [{"wikipedia_id": "7", "title": "Iller"}]},
        ],
        "meta": {},
    },
    {"id": "k2", "input": "The Iller ends in the Rhine.", "output": [{"answer": "REFUTES"}]},
]
DPR = [
    {
        "dataset": "nq_dev_psgs_w100",
        "question": "where does the iller end",
        "answers": ["the Danube"],
        "positive_ctxs": [
            {"title": "Iller", "text": SPRING[1], "score": 9.1, "title_score": 1, "psg_id": "4"}
        ],
        "negative_ctxs": [],
        "hard_negative_ctxs": [
            {"title": "Lake Constance", "text": LAKE[0], "score": 7.0, "psg_id": "5"}
        ],
    }
]
BIOGRAPHY = [
    {
        "input": "Tell me a bio of Ilse Marbach.",
        "topic": "Ilse Marbach",
        "cat": ["rare", "Europe"],
        "output": "Ilse Marbach is a painter. She was born in Ulm.",
        "ctxs": [{"id": 1, "title": "Ilse Marbach", "text": "Ilse Marbach is a painter."}],
    },
    {"topic": "Klara Marbach", "output": ""},
]
