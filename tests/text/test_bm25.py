"""BM25: numbers computed by hand, and what rarity does."""

import math

import pytest

from fitrag_integrations.text.bm25 import BM25

TEXTS = ["Logger M-77 is in lot 4", "Logger M-78 is in lot 5", "A lot of lots"]


def test_a_score_is_that_of_the_formula():
    score = BM25(["a b", "a a c d"])
    rare = math.log(1 + (2 - 1 + 0.5) / (1 + 0.5))
    assert score("b", "a b") == pytest.approx(rare * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 2 / 3)))
    assert score("b", "a a c d") == score("", "a b") == score("a", "") == 0
    assert BM25([])("a", "a") > 0


def test_a_rare_word_counts_more_than_common_ones():
    score = BM25(TEXTS)
    scores = [score("Which lot is logger M-78 in?", text) for text in TEXTS]
    assert scores[1] > scores[0] > scores[2] > 0


@pytest.mark.parametrize(
    ("question", "texts"),
    [
        ("年假有多少天?", ["工作满一年的员工每年享有十天年假。", "图书馆周日闭馆。"]),
        ("駐車場の料金は?", ["駐車料金は一時間五百円です。", "図書館は日曜日に休みです。"]),
        ("ที่จอดรถราคาเท่าไร", ["ค่าจอดรถชั่วโมงละห้าสิบบาท", "ห้องสมุดปิดวันอาทิตย์"]),
    ],
)
def test_scripts_without_spaces_share_characters(question, texts):
    score = BM25(texts)
    assert score(question, texts[0]) > score(question, texts[1])
