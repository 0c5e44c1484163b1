"""Models that compute from the text they are given; rows to give them, and their files."""

import gzip
import json

from fitrag_integrations.types import BiLabelScore, Passage


class Words:
    """Score a passage by its length and by the share of the question's words it holds."""

    def __init__(self):
        self.calls = []

    def score(self, pairs):
        self.calls.append(len(pairs))
        return [self.one(question.lower().split(), passage) for question, passage in pairs]

    def one(self, words, passage):
        if "SCORER FAILS" in passage.text:
            raise RuntimeError("no memory left")
        text = passage.text.lower().split()
        return BiLabelScore(sum(w in text for w in words) / len(words), 1 / (1 + len(text)))


class Span:
    def __init__(self, text, start, score):
        self.text, self.start, self.end, self.score = text, start, start + len(text), score


class FirstWord:
    """Answer with the first word of the passage, trusted by the passage's length."""

    abstain_below = 0.5

    def read(self, pairs):
        return [self.one(passage.text) for _, passage in pairs]

    def one(self, text):
        words = text.split()
        return Span(words[0], text.index(words[0]), min(1.0, len(text) / 100))


class Trusted(FirstWord):
    """Answer whatever the passage's length."""

    abstain_below = None


FOUND = "Ann wrote it long ago. " * 5  # so long that the reader trusts it


class Fixed:
    """An index that finds the same passage for every question."""

    def __init__(self):
        self.asked = []

    def retrieve(self, queries):
        self.asked.append(len(queries))
        found = [Passage("p1", FOUND, "T", metadata={"retrieval_score": 0.5})]
        return [found for _ in queries]


def passages(*texts):
    return [{"title": f"T{i}", "text": text} for i, text in enumerate(texts)]


def write(path, rows):
    lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    data = b"".join(line + b"\n" for line in lines)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def read(path):
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    return [json.loads(line) for line in text.decode("ascii").splitlines()]
