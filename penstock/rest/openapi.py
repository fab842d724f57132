"""The control server described in OpenAPI, made from its table of endpoints."""

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, get_origin

import msgspec

from penstock import __version__
from penstock.rest.bodies import NoBody
from penstock.rest.endpoint import Endpoint

COMMON_ERRORS = (400, 401, 403, 405, 408, 413, 415, 421, 431, 500, 503)
"""Every request may get these: access, its form, its size, and a job that cannot answer now."""
_PARAMETER = re.compile(r"{(\w+)}")
_REF = "#/components/schemas/{name}"
PATH_PARAMETERS = {
    "jobid": "32 hex digits.",
    "vertexid": "The id of a vertex of the job.",
    "subtaskindex": "The index of a subtask, from 0.",
    "attempt": "The number of the current attempt of a subtask.",
    "checkpointid": "The number of a checkpoint.",
    "triggerid": "The `request-id` of an operation.",
    "taskmanagerid": "The id of a TaskManager.",
    "log": "The name of a log.",
    "operator": "The uid of an operator.",
    "state": "The name of a keyed state.",
}
NUMBERS = ("subtaskindex", "attempt", "checkpointid")


def openapi_document(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """The document. Every path has the same description with `/v1` in front of it."""
    paths: dict[str, dict[str, Any]] = {}
    bodies: dict[str, Any] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
        if endpoint.body is not NoBody:
            _, found = _body_schema(endpoint.body)
            bodies.update(found)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "The control server of a Penstock job",
            "version": __version__,
            "description": "Flink's REST API for one job. Each path also works with `/v1` in front of it.",
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {**bodies, "Error": _ERROR},
        },
    }


def _body_schema(body: type[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schema of a body, and those that it refers to."""
    (schema,), found = msgspec.json.schema_components([_describable(body)], ref_template=_REF)
    return schema, found


def _describable(body: type[Any]) -> type[Any]:
    """The body, or one like it: a value that is decoded later may be missing, which has no form in JSON."""
    if get_origin(body) is not None:  # an object with a struct by name
        return body
    fields = msgspec.structs.fields(body)
    if not any(isinstance(field.default, msgspec.Raw) for field in fields):
        return body
    known: list[tuple[str, Any, Any]] = []
    for field in fields:
        if isinstance(field.default, msgspec.Raw):
            known.append((field.name, Any, msgspec.field(default=None, name=field.encode_name)))
        else:
            like = {"default": field.default, "default_factory": field.default_factory, "name": field.encode_name}
            given = {name: value for name, value in like.items() if value is not msgspec.NODEFAULT}
            known.append((field.name, field.type, msgspec.field(**given)))
    return msgspec.defstruct(body.__name__, known, forbid_unknown_fields=True, kw_only=True)


_ERROR = {
    "type": "object",
    "required": ["errors", "code", "request_id"],
    "properties": {
        "errors": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "code": {"type": "string"},
        "request_id": {"type": "string"},
    },
}


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    names = _PARAMETER.findall(endpoint.path)
    parameters = [_path_parameter(name) for name in names]
    parameters += [{"name": name, "in": "query", "schema": {"type": "string"}} for name in endpoint.query]
    found: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": f"{endpoint.method.lower()}{re.sub(r'[^a-z0-9]+', '_', endpoint.path.lower())}",
        "description": f"Needs the {endpoint.scope} token.",
        "parameters": parameters,
        "responses": _responses(endpoint, has_parameters=bool(names)),
    }
    if endpoint.body is not NoBody:
        schema, _ = _body_schema(endpoint.body)
        found["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    return found


def _path_parameter(name: str) -> dict[str, Any]:
    schema = {"type": "integer", "minimum": 0} if name in NUMBERS else {"type": "string"}
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": PATH_PARAMETERS[name],
        "schema": schema,
    }


def _responses(endpoint: Endpoint, *, has_parameters: bool) -> dict[str, Any]:
    media_type = endpoint.media_type.partition(";")[0]
    schema = {"type": "string"} if media_type != "application/json" else {}
    success = {"description": HTTPStatus(endpoint.status).phrase, "content": {media_type: {"schema": schema}}}
    errors = {*COMMON_ERRORS, *endpoint.errors, *([404] if has_parameters else [])}
    refused = {"application/json": {"schema": {"$ref": _REF.format(name="Error")}}}
    return {
        str(endpoint.status): success,
        **{str(status): {"description": HTTPStatus(status).phrase, "content": refused} for status in sorted(errors)},
    }
