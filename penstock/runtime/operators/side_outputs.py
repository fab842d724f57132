"""Side outputs: what a function yields as `tag, value` leaves its operator apart from the other records."""

from penstock.graph.job_graph import COLUMN_KINDS
from penstock.model.output_tag import OutputTag
from penstock.runtime.operators.batch import Batch
from penstock.runtime.operators.record_operators import Operator

PASS_ON = COLUMN_KINDS | {"filter", "keyed_filter", "timestamps", "reduce", "final_reduce", "side_output"}
"""Kinds that emit no tagged records. Most pass on what they get, from which tagged records were already taken out."""


def split_tagged(batch: Batch) -> Batch:
    """The batch with its tagged records in `side`; the batch itself if there are none."""
    tagged = [n for n, record in enumerate(batch.records) if _is_tagged(record)]
    if not tagged:
        return batch
    side = dict(batch.side or {})
    times = batch.timestamps
    for number in tagged:
        tag, value = batch.records[number]
        part = side.setdefault(tag.tag_id, Batch([], None if times is None else []))
        part.records.append(value)
        if times is not None and part.timestamps is not None:
            part.timestamps.append(times[number])
    apart = set(tagged)
    rest = [n for n in range(len(batch)) if n not in apart]
    return Batch([batch.records[n] for n in rest], None if times is None else [times[n] for n in rest], None, side)


def _is_tagged(record: object) -> bool:
    return isinstance(record, tuple) and len(record) == 2 and isinstance(record[0], OutputTag)


class SideOutput(Operator):
    """Emits one side output of the operator before it; the chain gives it only those records."""

    @property
    def tag_id(self) -> str:
        """The tag that its records had."""
        return str(self.plan.config["tag"])

    def open(self) -> None:
        """Nothing to fetch: there is no function."""

    def close(self) -> None:
        """Nothing to close."""

    def process_from(self, position: int, batch: Batch) -> Batch | None:
        return (batch.side or {}).get(self.tag_id)

    def process(self, batch: Batch) -> Batch | None:
        return batch
