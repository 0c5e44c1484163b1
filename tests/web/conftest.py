"""Two web servers on loopback: one that stands for the open web, one that is private."""

from contextlib import ExitStack

import pytest
from hostile_server import PRIVATE, PUBLIC, Site, serving


class Web:
    """Start sites, and make guards for which the public address is the only one allowed."""

    def __init__(self, stack):
        self._stack = stack
        self.private = stack.enter_context(serving(Site(), PRIVATE))
        self.names = {"private.example": [PRIVATE], "metadata.example": ["169.254.169.254"]}
        self.sites = []

    def site(self, routes=None, *names):
        """Serve routes on the public address, under the names given."""
        site = self._stack.enter_context(serving(Site(routes), PUBLIC))
        self.sites.append(site)
        self.names.update({name: [PUBLIC] for name in names or ("site.example",)})
        return site

    def guard(self, **options):
        from fitrag_integrations.web import NetworkGuard

        ports = [site.port for site in (self.private, *self.sites)]
        settings = {
            "allow_addresses": [PUBLIC],
            "ports": ports,
            "resolver": dict(self.names),
            "page_seconds": 30.0,
        }
        return NetworkGuard(**{**settings, **options})


@pytest.fixture
def web():
    with ExitStack() as stack:
        yield Web(stack)
