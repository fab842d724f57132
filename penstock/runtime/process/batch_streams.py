"""Arrow batches over a connection: the schema, then one frame per batch, then an empty frame.

The empty frame proves that the sender had no more rows. A connection that just ends raises ConnectionLostError, so a
half-sent epoch is never taken for a complete one.
"""

import socket
from collections.abc import Iterable, Iterator

import pyarrow as pa

from penstock.codec.socket_frames import recv_frame, send_frame
from penstock.errors import RpcError

BATCH_LIMIT_BYTES = 1 << 30


def send_batches(connection: socket.socket, batches: Iterable[pa.RecordBatch]) -> int:
    """Send every batch and the end mark; return the number of rows."""
    rows = 0
    schema_sent = False
    for batch in batches:
        if not schema_sent:
            send_frame(connection, memoryview(batch.schema.serialize()))
            schema_sent = True
        if batch.num_rows:
            send_frame(connection, memoryview(batch.serialize()), BATCH_LIMIT_BYTES)
            rows += batch.num_rows
    if not schema_sent:
        send_frame(connection, memoryview(pa.schema([]).serialize()))
    send_frame(connection, b"")
    return rows


def receive_batches(connection: socket.socket) -> Iterator[pa.RecordBatch]:
    """The batches up to the end mark."""
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(recv_frame(connection, BATCH_LIMIT_BYTES)))
        while data := recv_frame(connection, BATCH_LIMIT_BYTES):
            yield pa.ipc.read_record_batch(pa.py_buffer(data), schema)
    except pa.ArrowInvalid as error:
        raise RpcError(f"unreadable rows: {error}") from error
