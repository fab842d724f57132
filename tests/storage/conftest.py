"""Servers for the tests of storages. One S3 server serves all of them; each test has its own prefix."""

from collections.abc import Callable, Iterator

import boto3
import pytest

from tests.storage.s3_server import BUCKET, ENVIRONMENT, s3_server


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    with s3_server() as endpoint:
        yield endpoint


@pytest.fixture
def s3_uri(s3_endpoint: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """An address on the server for this test alone."""
    for key, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": s3_endpoint}.items():
        monkeypatch.setenv(key, value)
    return f"s3://{BUCKET}/{abs(hash(request.node.nodeid)):x}"


@pytest.fixture
def s3_keys(s3_endpoint: str) -> Callable[[], list[str]]:
    """Lists the keys of all objects, as they are."""

    def keys() -> list[str]:
        client = boto3.client(
            "s3", endpoint_url=s3_endpoint, aws_access_key_id="x", aws_secret_access_key="x", region_name="us-east-1"
        )
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        found = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
        client.close()
        return found

    return keys
