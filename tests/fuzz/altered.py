"""Values made of bytes: a whole example with a few places of it changed."""

import copy

VALUES = (
    *(None, True, False, -1, 0, 1, 2, 10**9, 10**400, -(10**400), 0.5, 1e308, -1e308),
    *(float("nan"), float("inf"), "", " ", "x", "0", "\x00", "\ud800", "a\nb", "Yes", [], {}, [[]]),
    *([None], ["x"], [1], {"a": {}}, {"text": "x"}, [{"text": "x"}], {"index": 0}, [{}]),
)


class Bytes:
    """Take numbers and texts off a string of bytes, zeros where it has ended."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, most):
        """Take a number below `most`."""
        width = 1 if most <= 256 else 2
        taken = self.data[self.at : self.at + width]
        self.at += width
        return int.from_bytes(taken, "big") % most

    def text(self):
        """Take a text, as long as its first byte says."""
        size = self.number(256)
        taken = self.data[self.at : self.at + size]
        self.at += size
        return taken.decode("utf-8", "surrogateescape")

    def rest(self):
        """Take what is left, as text."""
        taken, self.at = self.data[self.at :], len(self.data)
        return taken.decode("utf-8", "surrogateescape")


def altered(examples, data):
    """Give one of the examples with up to four changes."""
    given = data if isinstance(data, Bytes) else Bytes(data)
    whole = [copy.deepcopy(examples[given.number(len(examples))])]
    for _ in range(given.number(5)):
        _change(whole, given)
    return whole[0]


def _change(whole, given):
    places = list(_places(whole))
    inside, name = places[given.number(len(places))]
    how = given.number(8)
    if how == 0 and inside is not whole:
        del inside[name]
    elif how == 1:
        inside[name] = given.text()
    elif how == 2 and isinstance(inside, dict):
        inside[given.text()] = inside[name]
    elif how == 3:
        inside[name] = [inside[name]] * given.number(4)
    elif how == 4:
        other, its = places[given.number(len(places))]
        inside[name] = copy.deepcopy(other[its])
    else:
        inside[name] = copy.deepcopy(VALUES[given.number(len(VALUES))])


def _places(value):
    """Give each place in a value, at any depth, as what holds it and its name there."""
    todo = [value]
    while todo:
        inside = todo.pop()
        named = inside.items() if isinstance(inside, dict) else enumerate(inside)
        for name, each in list(named):
            yield inside, name
            if isinstance(each, dict | list):
                todo.append(each)
