"""`/openapi.json` describes the routes that exist, and requests made from it get only statuses that it names."""

import re
from typing import Any

import pytest
import schemathesis
from hypothesis import given
from hypothesis import strategies as st
from schemathesis import GenerationMode

from penstock.rest.endpoint import Endpoint
from penstock.rest.routes import ENDPOINTS
from tests.records import job_record
from tests.rest.fake_job import ADMIN, IDS, READ, Served
from tests.rest.generated_requests import A_FEW, to_request


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    served = Served(tmp_path_factory.mktemp("rest"))
    served.job.current = job_record(status="FINISHED")  # so that the stream of events ends
    return served


@pytest.fixture(scope="module")
def document(served: Served) -> dict[str, Any]:
    response = served.client.get("/openapi.json", headers=READ)
    assert response.status_code == 200
    found: dict[str, Any] = response.json()
    return found


def test_every_route_is_described_with_its_statuses_and_no_other(document: dict[str, Any]) -> None:
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == {(endpoint.method, endpoint.path) for endpoint in ENDPOINTS}
    for endpoint in ENDPOINTS:
        operation = document["paths"][endpoint.path][endpoint.method.lower()]
        assert operation["summary"], endpoint
        assert {str(endpoint.status), "400", "401", "403", "500"} <= set(operation["responses"])
        names = {one["name"] for one in operation["parameters"] if one["in"] == "path"}
        assert names == set(re.findall(r"{(\w+)}", endpoint.path))
    operations = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]
    assert len(set(operations)) == len(operations)


def test_bodies_refuse_unknown_fields_in_the_description_too(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    assert schemas["StopBody"]["additionalProperties"] is False
    assert set(schemas["StopBody"]["properties"]) == {"targetDirectory", "drain", "formatType", "triggerId"}


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: f"{endpoint.method} {endpoint.path}")
def test_rest_r4_generated_requests_get_only_statuses_that_are_documented(
    endpoint: Endpoint, mode: GenerationMode, served: Served, document: dict[str, Any]
) -> None:
    """Requests that fit the description and requests that do not, with ids that exist and others."""
    operation = schemathesis.openapi.from_dict(document)[endpoint.path][endpoint.method]
    documented = document["paths"][endpoint.path][endpoint.method.lower()]["responses"]

    @A_FEW
    @given(case=operation.as_strategy(generation_mode=mode), has_known_ids=st.booleans())
    def request(case: Any, has_known_ids: bool) -> None:  # noqa: FBT001 - hypothesis passes it by name
        if has_known_ids:
            case.path_parameters = {name: IDS[name] for name in case.path_parameters or ()}
        response = served.client.request(**to_request(case, str(served.client.base_url), ADMIN))
        assert str(response.status_code) in documented, response.text
        assert response.status_code < 500, response.text
        if response.status_code >= 400:
            assert set(response.json()) == {"errors", "code", "request_id"}

    request()
