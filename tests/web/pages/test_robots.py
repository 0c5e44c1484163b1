"""robots.txt as RFC 9309 has it."""

import pytest

from fitrag_integrations.web.fetch import parse_rules
from fitrag_integrations.web.guard import AGENT


def allows(text, path, agent=AGENT):
    return parse_rules(text, agent).can_fetch(f"http://a.example{path}", agent)


EXAMPLE = """
# RFC 9309, 5.1
User-Agent: *
Disallow: *.gif$
Disallow: /example/
Allow: /publications/

User-Agent: foobot
Disallow:/
Allow:/example/page.html
Allow:/example/allowed.gif

User-Agent: barbot
User-Agent: bazbot
Disallow: /example/page.html

User-Agent: quxbot
"""


@pytest.mark.parametrize(
    ("agent", "allowed", "refused"),
    [
        (
            "other",
            ["/", "/publications/a", "/a.gif?b"],
            ["/a.gif", "/example/", "/example/page.html"],
        ),
        (
            "FooBot",
            ["/example/page.html", "/example/allowed.gif"],
            ["/", "/example/", "/publications/"],
        ),
        ("barbot", ["/", "/a.gif", "/example/"], ["/example/page.html"]),
        ("bazbot", ["/example/"], ["/example/page.html"]),
        ("quxbot", ["/", "/example/page.html", "/a.gif"], []),
    ],
)
def test_the_example_of_the_standard(agent, allowed, refused):
    assert all(allows(EXAMPLE, path, agent) for path in allowed)
    assert not any(allows(EXAMPLE, path, agent) for path in refused)


@pytest.mark.parametrize(
    ("rule", "path", "matches"),
    [
        ("/fish", "/fish", True),
        ("/fish", "/fishheads/yummy.html", True),
        ("/fish", "/Fish", False),
        ("/fish*", "/fish.html", True),
        ("/fish/", "/fish", False),
        ("/*.php", "/folder/filename.php?parameters", True),
        ("/*.php", "/windows.PHP", False),
        ("/*.php$", "/filename.php", True),
        ("/*.php$", "/filename.php?parameters", False),
        ("/fish*.php", "/fishheads/catfish.php?a", True),
        ("/*?", "/page?key=1", True),
        ("/*?", "/page", False),
        ("/$", "/", True),
        ("/$", "/page", False),
        ("/a*b*c$", "/abc", True),
        ("/a*bc*c$", "/abc", False),
        ("/~name", "/%7Ename", True),
        ("/a%3cd", "/a%3Cd", True),
        ("/a%2fb", "/a/b", False),
        ("/\u00e4", "/%C3%A4", True),
        ("/" + "*a" * 5_000 + "b", "/" + "a" * 20_000, False),
    ],
)
def test_patterns(rule, path, matches):
    assert allows(f"User-agent: *\nDisallow: {rule}", path) is not matches


def test_the_longest_rule_decides_and_the_milder_of_two_equal_ones():
    text = "user-agent: *\ndisallow: /p\nallow: /page\ndisallow: /page\n"
    assert allows(text, "/page") and not allows(text, "/p")
    assert allows(text, "/robots.txt") and allows(text, "/other")


@pytest.mark.parametrize(
    "text", ["", "nonsense", "Disallow: /", "User-agent: *\nDisallow:", "<html>"]
)
def test_what_says_nothing_closes_nothing(text):
    assert allows(text, "/page")
