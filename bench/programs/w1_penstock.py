"""Workload W1 on Penstock. The file source never ends: the job is cancelled when every row is in a committed epoch."""

import argparse
import os
from pathlib import Path

from epoch_log import committed_epochs, copy_until

from penstock.common import Configuration, Duration, Types, WatermarkStrategy
from penstock.connectors.discard import DiscardingSink
from penstock.datastream import DataStream, KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.connectors import FileSource
from penstock.datastream.state import ValueStateDescriptor

EVENTS = "key string, ts bigint, value double"


class CountAndSum(KeyedProcessFunction):
    """Running count and sum of a key's values, one row out per row in."""

    def __init__(self, *, queryable: bool = False) -> None:
        self.queryable = queryable

    def open(self, ctx: RuntimeContext) -> None:
        totals = ValueStateDescriptor("totals", Types.TUPLE([Types.LONG(), Types.DOUBLE()]))
        if self.queryable:
            totals.set_queryable("totals")
        self.totals = ctx.get_state(totals)

    def process_element(self, event, ctx):
        n, total = self.totals.value() or (0, 0.0)
        n += 1
        total += event.value
        self.totals.update((n, total))
        yield event.key, n, total


def configure(args: argparse.Namespace) -> Configuration:
    return Configuration.from_dict(
        {
            "parallelism.default": str(args.parallelism),
            **({} if args.checkpoints == "none" else {"execution.checkpointing.interval": args.checkpoints}),
            "execution.checkpointing.dir": str(args.work / "checkpoints"),
            "state.backend.type": "hashmap",
            "penstock.registry.dir": str(args.work / "registry"),
            "spark.master": f"local[{args.parallelism},4]",
            "spark.driver.memory": "6g",
            "spark.ui.enabled": "false",
            **({"penstock.bench.passthrough": "true"} if args.passthrough else {}),
            **({"penstock.rest.enabled": "false"} if args.without_server else {}),
        }
    )


def open_events(env: StreamExecutionEnvironment, args: argparse.Namespace) -> DataStream:
    """The input, packed or read by Spark."""
    folder = str(args.work / "input")
    if args.packed:
        env.configure(Configuration.from_dict({"penstock.epoch.max-files": str(args.files_per_trigger)}))
        files = FileSource.of(folder, "parquet", EVENTS).monitor_continuously(Duration.of_seconds(1))
        return env.from_source(files, WatermarkStrategy.no_watermarks(), "events")
    reader = env.spark.readStream.schema(EVENTS).option("maxFilesPerTrigger", args.files_per_trigger)
    return env.from_dataframe(reader.parquet(folder))


def build(env: StreamExecutionEnvironment, args: argparse.Namespace) -> None:
    events = open_events(env, args)
    function = CountAndSum(queryable=args.queryable)
    totals = events.key_by("key").process(function, output_type="key string, n bigint, total double")
    totals.uid("count-and-sum").sink_to(DiscardingSink()).uid("discard")


def link_input(args: argparse.Namespace) -> int:
    """The input, and some of its files once more under other names; how many rows these hold."""
    folder = args.work / "input"
    folder.mkdir()
    files = sorted(args.data.glob("*.parquet"))
    for file in files:
        (folder / file.name).hardlink_to(file)
    count = args.repeated_batches * args.files_per_trigger
    for index in range(count):
        (folder / f"again-{index:05d}.parquet").hardlink_to(files[index % len(files)])
    return count * args.rows // len(files)


def main(build=build, name="bench-w1") -> None:
    """Run the program that `build` makes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--files-per-trigger", type=int, required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--repeated-batches", type=int, required=True)
    parser.add_argument("--parallelism", type=int, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--events", type=Path, required=True)
    parser.add_argument("--passthrough", action="store_true")
    parser.add_argument("--packed", action="store_true", help="a FileSource, which Penstock reads itself")
    parser.add_argument("--checkpoints", default="5s", help="how often, or none")
    parser.add_argument("--queryable", action="store_true", help="publish the state of w1")
    parser.add_argument("--without-server", action="store_true", help="no control server")
    args = parser.parse_args()

    epoch_log = args.work / "epochs.jsonl"
    os.environ["PENSTOCK_EPOCH_LOG"] = str(epoch_log)
    repeated = link_input(args)
    env = StreamExecutionEnvironment.get_execution_environment(configure(args))
    build(env, args)
    job = env.execute_async(name)

    def is_running() -> bool:
        return not job.get_job_status().result().is_globally_terminal_state()

    epochs = committed_epochs(epoch_log, is_running)
    if args.passthrough or name != "bench-w1":  # nothing comes out of a stage without functions
        epochs = ({name: value for name, value in epoch.items() if name != "rows_out"} for epoch in epochs)
    with args.events.open("w") as events:
        seen = copy_until(args.rows + repeated, epochs, events)
    if seen < args.rows + repeated:
        job.get_job_execution_result().result()
        raise SystemExit(f"the job ended after {seen} of {args.rows} rows")
    job.cancel().result()


if __name__ == "__main__":
    main()
