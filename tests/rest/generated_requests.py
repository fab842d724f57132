"""Requests that schemathesis makes from `/openapi.json`."""

from typing import Any

from hypothesis import HealthCheck, Phase, settings

A_FEW = settings(
    max_examples=5,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def to_request(case: Any, base_url: str, token: dict[str, str]) -> dict[str, Any]:
    """The arguments of httpx's `request` for a generated case, with this token."""
    sent = case.as_transport_kwargs(base_url=base_url)
    headers = {name: value for name, value in (sent.get("headers") or {}).items() if name != "Authorization"}
    return {
        "method": sent["method"],
        "url": sent["url"],
        "params": sent.get("params"),
        "json": sent.get("json"),
        "content": sent.get("data"),
        "headers": {**headers, **token},
        "follow_redirects": False,
    }
