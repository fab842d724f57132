"""Error texts of client libraries, short and without possible secrets."""

import re

MAX_CHARACTERS = 300
_QUERY = re.compile(r"\?[^\s'\",)]*")
_SECRET = re.compile(r"<(AWSAccessKeyId|SignatureProvided|StringToSign|CanonicalRequest)[^>]*>.*?</\1[^>]*>", re.DOTALL)


def brief_reason(error: Exception) -> str:
    """The first paragraph of the error's text, without the query strings of URLs, which may hold signatures and tokens.

    >>> brief_reason(OSError("GET https://host/a?sig=abc failed\\n\\nDebug source: ..."))
    'GET https://host/a failed'
    """
    text = _QUERY.sub("", _SECRET.sub("", str(error).partition("\n\n")[0]))
    return " ".join(text.split())[:MAX_CHARACTERS] or type(error).__name__
