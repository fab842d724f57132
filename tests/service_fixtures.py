"""Real systems for tests: `hdfs`, `kafka` and `postgres` as fixtures. Each starts when a test first asks for it.

The processes of one run share it (pytest-xdist), and it ends with the run. Where its programs cannot be fetched, tests
fail in `make test-e2e` and are skipped elsewhere.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from penstock.errors import ServiceError
from penstock.services import RunningService, start_service


def shared_service(name: str, request: pytest.FixtureRequest, folders: pytest.TempPathFactory) -> RunningService:
    """The service of this run of pytest; for the fixture of each service."""
    on_worker = "PYTEST_XDIST_WORKER" in os.environ
    # The folder of a worker is in that of the run, and its parent process is the run.
    folder: Path = (folders.getbasetemp().parent if on_worker else folders.getbasetemp()) / f"service-{name}"
    try:
        return start_service(name, folder, os.getppid() if on_worker else os.getpid())
    except ServiceError as error:
        if "e2e" in (request.config.option.markexpr or ""):
            raise
        pytest.skip(str(error).splitlines()[0])


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunningService:
    """A Kafka broker; tests use topics of their own, and resume it if they kill it."""
    return shared_service("kafka", request, tmp_path_factory)


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunningService:
    """A PostgreSQL server; tests use tables or a `database` of their own, and resume it if they kill it."""
    return shared_service("postgres", request, tmp_path_factory)


@pytest.fixture
def database(postgres: RunningService) -> Iterator[str]:
    """The address of an empty database, for tests whose tables have plain names."""
    name = f"db_{uuid4().hex}"
    with psycopg.connect(postgres.address, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield postgres.address.rpartition("/")[0] + f"/{name}"
    with psycopg.connect(postgres.address, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def hdfs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunningService:
    """HDFS; tests use folders of their own, and resume it if they kill it."""
    return shared_service("hdfs", request, tmp_path_factory)
