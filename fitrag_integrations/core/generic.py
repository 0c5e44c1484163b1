"""Type variables that modules share: each stands for any type, within one signature."""

from typing import TypeVar

Q = TypeVar("Q")  # a question, or whatever a call is given
T = TypeVar("T")
