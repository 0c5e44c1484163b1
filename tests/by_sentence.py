"""A scorer of sentences made of one of pairs: each sentence is judged as a text of its own."""

from dataclasses import replace


class BySentence:
    """Judge passages and their sentences, in one call, by a function of pairs."""

    def __init__(self, score, name=""):
        self.score, self.name = score, name

    def score_sentences(self, items):
        return [
            (
                *self.score([(question, passage)]),
                self.score(
                    [(question, replace(passage, text=passage.text[a:b])) for a, b in spans]
                ),
            )
            for question, passage, spans in items
        ]
