"""What is left of a web page once it was read."""

from __future__ import annotations

from dataclasses import dataclass

from fitrag_integrations.core.checks import check_many, check_text
from fitrag_integrations.core.record import Record


@dataclass(frozen=True, slots=True)
class Page(Record):
    """Hold a page's paragraphs in order, cleaned; a stranger's words, to be labelled as such.

    ``url`` is the one asked for, ``title`` blank where there is none, ``final_url`` where the
    redirects led, ``fetched_at`` the time in ISO 8601, UTC.
    """

    url: str
    final_url: str
    title: str
    paragraphs: tuple[str, ...]
    fetched_at: str

    def __post_init__(self) -> None:
        check_text("Page.url", self.url)
        check_text("Page.final_url", self.final_url)
        check_text("Page.title", self.title)
        check_text("Page.fetched_at", self.fetched_at)
        paragraphs = check_many("Page.paragraphs", self.paragraphs, str)
        object.__setattr__(self, "paragraphs", paragraphs)

    @property
    def text(self) -> str:
        """Join the paragraphs by blank lines."""
        return "\n\n".join(self.paragraphs)
