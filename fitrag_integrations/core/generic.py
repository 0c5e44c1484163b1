"""Type variables of generic functions: a question, its answer, a result, and any other type."""

from typing import TypeVar

Q = TypeVar("Q")
A = TypeVar("A")
R = TypeVar("R")
T = TypeVar("T")
