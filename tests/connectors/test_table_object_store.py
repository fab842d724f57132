"""Tables in an object store, with credentials from the environment."""

import threading
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from penstock.common import Row
from penstock.connectors.delta import DeltaSink
from penstock.connectors.iceberg import IcebergSink
from penstock.connectors.staged.staged_sink import StagedSink
from penstock.errors import ConnectorUnavailableError
from penstock.model.types import resolve_type
from tests.connectors.table_formats import staged
from tests.storage.s3_server import BUCKET, ENVIRONMENT, s3_server

IDS = resolve_type("id bigint, name string")


def write(sink: StagedSink) -> None:
    """Two checkpoints; the second by two drivers at once."""
    sink.check(IDS)
    first = staged(sink, [Row(1, "a"), Row(2, "b")], IDS, (1, 1))
    sink.commit_all(first)
    sink.commit_all(first)
    second = staged(sink, [Row(3, "c")], IDS, (1, 2))
    drivers = [threading.Thread(target=sink.commit_all, args=(second,)) for _ in range(2)]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join()


def ids(table: pa.Table) -> list[int]:
    return sorted(table["id"].to_pylist())


@pytest.mark.full
def test_tables_on_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_server() as endpoint:
        for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true"}.items():
            monkeypatch.setenv(name, value)
        delta = DeltaSink(f"s3://{BUCKET}/orders")
        write(delta)
        assert ids(DeltaTable(f"s3://{BUCKET}/orders").to_pyarrow_table()) == [1, 2, 3]
        with pytest.raises(ConnectorUnavailableError, match="the Delta table 's3://nobody/orders' cannot be read or"):
            write(DeltaSink("s3://nobody/orders"))
        catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"s3://{BUCKET}/warehouse"}
        catalog |= {"s3.endpoint": endpoint, "s3.region": "us-east-1"}
        write(IcebergSink("db.orders", "test", catalog))
        assert ids(load_catalog("test", **catalog).load_table("db.orders").scan().to_arrow()) == [1, 2, 3]
        assert ENVIRONMENT["AWS_SECRET_ACCESS_KEY"] not in repr(delta)
