"""1,000 rows a second, each with the time at which its function ran, to the sink that is named."""

import sys
import time
from pathlib import Path
from typing import Any

from penstock.common import Configuration, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import DataGeneratorSource

ROWS = "id bigint, at bigint"


def iceberg_catalog(folder: Path) -> dict[str, str]:
    """A catalog in a file."""
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}


def make_sink(name: str, address: str, folder: Path) -> Any:
    """The sink of that name; each is imported only where it is used."""
    if name in ("files", "hdfs"):
        from penstock.datastream.connectors.file_system import FileSink

        return FileSink.for_row_format(address if name == "files" else f"{address}/out", "json").build()
    if name == "sqlite":
        from penstock.connectors.sqlite import SqliteSink

        return SqliteSink(address, "timed")
    if name == "postgres":
        from penstock.connectors.postgres import PostgresSink

        return PostgresSink(address, "timed")
    if name == "delta":
        from penstock.connectors.delta import DeltaSink

        return DeltaSink(address)
    if name == "iceberg":
        from penstock.connectors.iceberg import IcebergSink

        return IcebergSink("bench.timed", catalog="bench", catalog_properties=iceberg_catalog(folder))
    from penstock.datastream.connectors import DeliveryGuarantee
    from penstock.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink
    from penstock.datastream.formats import JsonRowSerializationSchema

    value = JsonRowSerializationSchema.builder().with_type_info(ROWS).build()
    schema = KafkaRecordSerializationSchema.builder().set_topic("out").set_value_serialization_schema(value)
    builder = KafkaSink.builder().set_bootstrap_servers(address).set_record_serializer(schema.build())
    return builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).build()


def main() -> None:
    name, address, folder, interval_ms = sys.argv[1:]
    work = Path(folder)
    settings = {
        "parallelism.default": "2",
        "execution.checkpointing.interval": f"{interval_ms} ms",
        "execution.checkpointing.dir": str(work / "checkpoints"),
        "penstock.registry.dir": str(work / "registry"),
        "spark.master": "local[2,4]",
        "spark.ui.enabled": "false",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    source = DataGeneratorSource.of(lambda number: (number,), "id bigint", rows_per_second=1000)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    timed = numbers.map(lambda row: (row[0], time.time_ns() // 1_000_000), ROWS)
    timed.sink_to(make_sink(name, address, work)).uid("out")
    env.execute("timed-rows")


if __name__ == "__main__":
    main()
