"""Which network addresses are public, however they are spelled.

The rules are those of the IANA special-purpose registries (RFC 6890 and its updates). An IPv4
address inside an IPv6 one (mapped, or behind NAT64) is judged as the IPv4 address it reaches;
6to4 and Teredo, which nobody needs any more, are refused whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TypeAlias

from fitrag_integrations.errors import InputError

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

METADATA_ADDRESSES = frozenset(
    map(
        ip_address,
        (
            "169.254.169.254",
            "169.254.170.2",
            "fd00:ec2::254",
            "100.100.100.200",
            "168.63.129.16",  # Azure's, which is a public address
            "192.0.0.192",
        ),
    )
)
"""Where cloud machines are told their credentials: refused whatever else is allowed."""

METADATA_NAMES = frozenset({"metadata.google.internal", "metadata.goog", "instance-data"})

_UNICAST = IPv6Network("2000::/3")  # all that IPv6 has given out so far
_NAT64 = IPv6Network("64:ff9b::/96")
_TUNNELS = (IPv6Network("2002::/16"), IPv6Network("2001::/32"))
# What Python 3.11 still takes for public.
_ALSO_SPECIAL = tuple(map(ip_network, ("192.0.0.0/24", "192.88.99.0/24", "2001::/23", "3fff::/20")))
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


def canonical_host(host: str) -> str:
    """Write a host name as it is looked up, and an address in its usual spelling.

    Names come out in lower case without the trailing dot; ``0x7f.1``, ``2130706433``,
    ``0177.0.0.1`` and ``::ffff:7f00:1`` all come out as ``127.0.0.1``, the way browsers and
    resolvers read them. Takes ASCII (IDNA already applied); raises ``ValueError`` otherwise.
    """
    name = host.lower().removesuffix(".")
    if ":" in name:
        return str(reached(IPv6Address(name)))
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return str(_ipv4(labels))
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError(f"not a host name: {host[:80]!r}")
    return name


def reached(address: Address) -> Address:
    """Give the IPv4 address that an IPv6 address stands for, or the address itself."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def refusal(address: str, allowed: Iterable[Network] = ()) -> str | None:
    """Say why an address is not to be connected to, or None where it is public or allowed.

    ``allowed`` networks open private ones on purpose; the metadata addresses stay shut.
    """
    bare, _, zone = address.partition("%")
    if not is_address(bare):
        return "not an address"
    found = reached(ip_address(bare))
    if found in METADATA_ADDRESSES:
        return "a cloud metadata address"
    if not zone and any(found in network for network in allowed):
        return None
    for name in ("unspecified", "loopback", "multicast", "link_local", "reserved", "private"):
        if getattr(found, f"is_{name}"):
            return f"a {name.replace('_', '-')} address"
    if any(found in network for network in _TUNNELS):
        return "a tunnelled address"
    return None if _is_public(found) and not zone else "not a public address"


def within(host: str, domains: Sequence[str]) -> bool:
    """Say whether a host is one of the domains, or lies under one."""
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)


def is_address(host: str) -> bool:
    """Say whether a canonical host is an address and not a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def read_domain(field_name: str, text: str) -> str:
    """Require a domain, as a host name or ``*.name``."""
    try:
        plain = text.strip().removeprefix("*").removeprefix(".").encode("idna").decode("ascii")
        return canonical_host(plain)
    except ValueError:
        raise InputError.of(field_name, given=text, allowed="host names") from None


def read_network(field_name: str, text: str) -> Network:
    """Require a network such as ``10.20.0.0/16``."""
    try:
        return ip_network(text)
    except ValueError:
        allowed = "networks such as 10.20.0.0/16"
        raise InputError.of(field_name, given=text, allowed=allowed) from None


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address) and address not in _UNICAST:
        return False
    return address.is_global and not any(address in network for network in _ALSO_SPECIAL)


def _ipv4(labels: list[str]) -> IPv4Address:
    """Read one to four numbers, decimal, octal or hexadecimal; the last fills what is left."""
    if len(labels) > 4 or not all(_NUMBER.fullmatch(label) for label in labels):
        raise ValueError("not an IPv4 address")
    *head, last = map(_number, labels)
    if any(number > 255 for number in head) or last >= 256 ** (4 - len(head)):
        raise ValueError("not an IPv4 address")
    return IPv4Address(last + sum(number << 8 * (3 - i) for i, number in enumerate(head)))


def _number(digits: str) -> int:
    if digits.startswith("0x"):
        return int(digits[2:] or "0", 16)
    return int(digits, 8 if digits.startswith("0") else 10)
