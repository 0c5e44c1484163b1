"""Name the site of an address as a browser would, so that a label names who is really asked."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_DROPPED = re.compile(r"[\t\r\n]")  # browsers take them out of an address, wherever they stand
_HOST = re.compile(r"[a-z0-9_.:-]+")


def site_of(address: str) -> str:
    """Give the host of an http or https address, in ASCII and lower case; empty where it has none.

    As browsers do (WHATWG's URL Standard), a backslash counts as a slash, so that
    ``https://evil.example\\@good.example/`` is evil.example's, and what stands before an @ is no
    host. A name in other letters comes out as it is looked up (``xn--...``), so that it cannot
    pass for another.
    """
    plain = _DROPPED.sub("", address[:4096]).strip("".join(map(chr, range(33))))
    try:
        parts = urlsplit(plain.replace("\\", "/"))
        host = (parts.hostname or "").rstrip(".").encode("idna").decode("ascii").lower()
    except ValueError:  # no address, or a name that nobody can look up
        return ""
    is_web = parts.scheme in ("http", "https")
    return host if is_web and _HOST.fullmatch(host) else ""
