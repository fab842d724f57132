"""Where the events of the job under fault come from and where its rows go, by the words on its command line.

A source is a folder, or `kafka=servers=topic`. A sink is `file`, `delta`, `iceberg`, `print`, which is at least once,
`kafka=servers=topic=guarantee=transaction timeout`, `postgres=url=table`, `sqlite=path=table`, both with `=column` for
a table that is written by key, or `spark=path`, which is `to_spark` with a writer that stores tokens. Several sinks are
separated by `+`. Behind `exchange:` they get the rows through a second stage, which checks that those of a key come
once each and in order.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from penstock.datastream.connectors import DeliveryGuarantee, FileSink, FileSource

EVENT = "id bigint, key string, amount bigint"
EXCHANGE = "exchange:"
ROW = "id bigint, key string, amount bigint, count bigint"
TABLES = (
    "calls (token text, rows integer)",
    "tokens (token text PRIMARY KEY)",
    "tally (id integer, key text, amount integer, count integer)",
)
"""Of the writer with a token."""


def is_topic(events: str) -> bool:
    """Whether the events come from a topic."""
    return events.startswith("kafka=")


def source_of(events: str) -> Any:
    """The source of that name. A topic is read to the end that it has when the job starts."""
    if not is_topic(events):
        return FileSource.of(events, "json", EVENT)
    from penstock.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
    from penstock.datastream.formats import JsonRowDeserializationSchema

    _, servers, topic = events.split("=")
    schema = JsonRowDeserializationSchema.builder().type_info(EVENT).build()
    builder = KafkaSource.builder().set_bootstrap_servers(servers).set_topics(topic)
    builder.set_bounded(KafkaOffsetsInitializer.latest()).set_value_only_deserializer(schema)
    return builder.build()


def write_rows(rows: Any, sinks: str, output: str) -> None:
    """Give the stream its sinks: the first has the uid `out`, the others `out-2` and so on."""
    for number, sink in enumerate(sinks.split("+"), 1):
        uid = "out" if number == 1 else f"out-{number}"
        _write(rows, sink, output).uid(uid)


def _write(rows: Any, sink: str, output: str) -> Any:
    kind, *words = sink.split("=")
    if kind == "print":
        return rows.print()
    if kind == "spark":
        return rows.to_spark(TokenWriter(words[0]), exactly_once=True)
    if kind in ("delta", "iceberg"):
        from tests.connectors.table_formats import FORMATS

        return rows.sink_to(FORMATS[kind](Path(output)).sink())
    if kind == "kafka":
        return rows.sink_to(_kafka_sink(*words))
    if kind == "postgres":
        from penstock.connectors.postgres import PostgresSink

        return rows.sink_to(PostgresSink(words[0], words[1], key=words[2:]))
    if kind == "sqlite":
        from penstock.connectors.sqlite import SqliteSink

        return rows.sink_to(SqliteSink(words[0], words[1], key=words[2:]))
    assert kind == "file", f"no sink {sink!r}"
    return rows.sink_to(FileSink.for_row_format(output, "json").build())


def _kafka_sink(servers: str, topic: str, guarantee: str, timeout_ms: str) -> Any:
    from penstock.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink
    from penstock.datastream.formats import JsonRowSerializationSchema

    value = JsonRowSerializationSchema.builder().with_type_info(ROW).build()
    schema = KafkaRecordSerializationSchema.builder().set_topic(topic).set_value_serialization_schema(value)
    builder = KafkaSink.builder().set_bootstrap_servers(servers).set_record_serializer(schema.build())
    builder.set_property("transaction.timeout.ms", timeout_ms)
    # Small requests, one after the other: a transaction is open long enough to be hit.
    builder.set_properties({"batch.num.messages": "50", "max.in.flight.requests.per.connection": "1"})
    return builder.set_delivery_guarantee(DeliveryGuarantee[guarantee]).build()


class TokenWriter:
    """Writes rows into an SQLite file together with their token, and skips a token that is there.

    The table `calls` has a row for every call, so that a test sees which were repeated.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, df: Any, epoch: Any) -> None:
        rows = [tuple(row) for row in df.collect()]
        with closing(sqlite3.connect(self._path)) as database:
            with database:
                database.execute("CREATE TABLE IF NOT EXISTS calls (token text, rows integer)")
                database.execute("CREATE TABLE IF NOT EXISTS tokens (token text PRIMARY KEY)")
                database.execute(
                    "CREATE TABLE IF NOT EXISTS tally (id integer, key text, amount integer, count integer)"
                )
                database.execute("INSERT INTO calls VALUES (?, ?)", (epoch.token, len(rows)))
            with database:
                added = database.execute("INSERT OR IGNORE INTO tokens VALUES (?)", (epoch.token,)).rowcount
                if added:
                    database.executemany("INSERT INTO tally VALUES (?, ?, ?, ?)", rows)
