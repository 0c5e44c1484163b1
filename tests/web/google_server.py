"""Replies in the schema of Google's Custom Search JSON API, written for these tests."""

KEY = "AIza-not-a-real-key/+1"


def found(*items):
    """Give a reply with these ``(title, link, snippet)``; None leaves a field out."""
    listed = [
        {
            "kind": "customsearch#result",
            **{
                name: value
                for name, value in zip(("title", "link", "snippet"), item, strict=True)
                if value is not None
            },
        }
        for item in items
    ]
    return 200, {"kind": "customsearch#search", "items": listed}


NOTHING = 200, {"kind": "customsearch#search", "searchInformation": {"totalResults": "0"}}


def refused(status, message, reason, name="PERMISSION_DENIED"):
    """Give an error reply."""
    errors = [{"message": message, "domain": "global", "reason": reason}]
    return status, {"error": {"code": status, "message": message, "errors": errors, "status": name}}


CLOSED = refused(
    403, "This project does not have the access to Custom Search JSON API.", "forbidden"
)
BAD_KEY = refused(400, "API key not valid. Please pass a valid API key.", "badRequest")
SPENT = refused(
    429,
    "Quota exceeded for quota metric 'Queries' and limit 'Queries per day'.",
    "rateLimitExceeded",
    "RESOURCE_EXHAUSTED",
)
SPENT_403 = refused(403, "Daily Limit Exceeded", "dailyLimitExceeded")
BROKEN = 500, b"<html>backend error</html>"
ECHO = refused(403, f"The key {KEY} is not for this.", "forbidden")
