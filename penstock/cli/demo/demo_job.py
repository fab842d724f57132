"""The demo's program, as a user would write it: running totals and sessions per user."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from penstock.cli.demo.demo_data import MAX_JITTER_MS, SCHEMA, SESSION_GAP_MS
from penstock.common import Configuration, Duration, Types, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, FileSource
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.model.time import EPOCH

TOTALS = "id bigint, user string, clicks bigint, dwell_ms bigint"
SESSIONS = "user string, start_ms bigint, end_ms bigint, clicks bigint, dwell_ms bigint"


@dataclass(frozen=True)
class DemoFolders:
    """The folders of one run of the demo."""

    root: Path

    @property
    def clicks(self) -> Path:
        return self.root / "clicks"

    @property
    def totals(self) -> Path:
        return self.root / "totals"

    @property
    def sessions(self) -> Path:
        return self.root / "sessions"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"


class RunningTotals(KeyedProcessFunction):
    """For every click: the user's number of clicks so far, and their time on the site."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.totals = runtime_context.get_state(
            ValueStateDescriptor("totals", Types.TUPLE([Types.LONG(), Types.LONG()]))
        )

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        clicks, dwell_ms = self.totals.value() or (0, 0)
        clicks, dwell_ms = clicks + 1, dwell_ms + value.dwell_ms
        self.totals.update((clicks, dwell_ms))
        yield value.id, value.user, clicks, dwell_ms


class Sessions(KeyedProcessFunction):
    """A user's clicks up to a pause. A timer after each click checks whether a pause has begun there."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.visits = runtime_context.get_list_state(
            ListStateDescriptor("visits", Types.TUPLE([Types.LONG(), Types.LONG()]))
        )

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        at_ms = event_time_ms(value)
        self.visits.add((at_ms, value.dwell_ms))
        ctx.timer_service().register_event_time_timer(at_ms + SESSION_GAP_MS)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        visits = sorted(self.visits.get())
        run: list[tuple[int, int]] = []
        for at, visit in enumerate(visits):
            run.append(visit)
            is_last = at + 1 == len(visits) or visits[at + 1][0] - visit[0] > SESSION_GAP_MS
            if is_last and visit[0] + SESSION_GAP_MS <= timestamp:
                yield ctx.get_current_key(), run[0][0], visit[0], len(run), sum(dwell_ms for _, dwell_ms in run)
                self.visits.update(visits[at + 1 :])
                run = []


def event_time_ms(click: Any, before: int = 0) -> int:
    """The event time of a click."""
    return int((click.at - EPOCH) // timedelta(milliseconds=1))


def configure(folders: DemoFolders) -> Configuration:
    """Two TaskManagers on local Spark, two files of clicks a second, a checkpoint every two seconds."""
    settings = {
        "spark.master": "local[2,4]",
        "spark.local.dir": str(folders.root),
        "parallelism.default": "2",
        "execution.checkpointing.interval": "2s",
        "execution.checkpointing.dir": str(folders.checkpoints),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
        "restart-strategy.fixed-delay.delay": "500ms",
        "penstock.epoch.interval": "500ms",
        "penstock.epoch.max-files": "1",
    }
    return Configuration.from_dict(settings)


def build(env: StreamExecutionEnvironment, folders: DemoFolders) -> None:
    """Add the program's streams to the environment."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(MAX_JITTER_MS))
    clicks = env.from_source(
        FileSource.of(folders.clicks, "json", SCHEMA), strategy.with_timestamp_assigner(event_time_ms), "clicks"
    )
    by_user = clicks.key_by("user")
    totals = by_user.process(RunningTotals(), output_type=TOTALS).uid("totals")
    totals.sink_to(FileSink.for_row_format(folders.totals, "json").build()).uid("totals-files")
    sessions = by_user.process(Sessions(), output_type=SESSIONS).uid("sessions")
    sessions.sink_to(FileSink.for_row_format(folders.sessions, "json").build()).uid("sessions-files")
