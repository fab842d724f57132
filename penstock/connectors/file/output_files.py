"""The names of finished part files, and when a part ends. The API is PyFlink's."""

from dataclasses import dataclass
from typing import ClassVar, NoReturn, TypeAlias

from penstock.errors import UsageError
from penstock.model.units import MIB

MAX_NAME_BYTES = 128
"""The limit of prefix and suffix together; a file name has at most 255 bytes."""


@dataclass(frozen=True)
class RollingPolicy:
    """When a part file ends. Every checkpoint ends it; a size may do so earlier."""

    part_size: int | None = None

    @staticmethod
    def default_rolling_policy(
        part_size: int = 128 * MIB, rollover_interval: int = 60_000, inactivity_interval: int = 60_000
    ) -> "RollingPolicy":
        """Ends a part at a checkpoint, or when it has reached `part_size` bytes.

        The intervals, in milliseconds, are PyFlink's and have no effect: every part ends at a checkpoint, and its rows
        become visible with that checkpoint.
        """
        for name, value in (
            ("part_size", part_size),
            ("rollover_interval", rollover_interval),
            ("inactivity_interval", inactivity_interval),
        ):
            if value <= 0:
                raise UsageError(f"{name} of a rolling policy is {value}; give a number above 0")
        return RollingPolicy(part_size)

    @staticmethod
    def on_checkpoint_rolling_policy() -> "RollingPolicy":
        """Ends a part at a checkpoint only."""
        return RollingPolicy()


@dataclass(frozen=True)
class BucketAssigner:
    """The folder of a part file: always the sink's own folder."""

    @staticmethod
    def base_path_bucket_assigner() -> "BucketAssigner":
        """All files are in the sink's folder."""
        return BucketAssigner()

    @staticmethod
    def date_time_bucket_assigner(format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None) -> NoReturn:
        """Not available: a replayed row would end up in the folder of another hour."""
        raise UsageError(
            "files are not sorted into folders by the time of writing; use a sink for each folder, or "
            "BucketAssigner.base_path_bucket_assigner()"
        )


class OutputFileConfigBuilder:
    """PyFlink's builder of an OutputFileConfig."""

    def __init__(self) -> None:
        self._prefix = "part"
        self._suffix: str | None = None

    def with_part_prefix(self, prefix: str) -> "OutputFileConfigBuilder":
        """Set how finished names start."""
        self._prefix = prefix
        return self

    def with_part_suffix(self, suffix: str) -> "OutputFileConfigBuilder":
        """Set how finished names end."""
        self._suffix = suffix
        return self

    def build(self) -> "OutputFileConfig":
        """The configuration; UsageError if finished files would look hidden."""
        return OutputFileConfig(self._prefix, self._suffix)


_Builder: TypeAlias = OutputFileConfigBuilder  # the class below has an attribute of the real name


@dataclass(frozen=True)
class OutputFileConfig:
    """The names of finished files: `<prefix>-<sink>-<subtask>-<nonce><suffix>`."""

    part_prefix: str = "part"
    part_suffix: str | None = None
    """None: the format's own, such as `.json`."""
    OutputFileConfigBuilder: ClassVar = OutputFileConfigBuilder

    def __post_init__(self) -> None:
        prefix, suffix = self.part_prefix, self.part_suffix or ""
        if prefix.startswith((".", "_")) or not prefix:
            raise UsageError(
                f"part prefix {prefix!r}: a finished file must not look hidden; start with a letter or digit"
            )
        if any(char in prefix + suffix for char in "/\0"):
            raise UsageError(f"part prefix {prefix!r} and suffix {suffix!r} are parts of a file name; remove the '/'")
        if len((prefix + suffix).encode()) > MAX_NAME_BYTES:
            raise UsageError(f"part prefix {prefix!r} and suffix {suffix!r} together exceed {MAX_NAME_BYTES} bytes")

    def get_part_prefix(self) -> str:
        """The start of every finished name."""
        return self.part_prefix

    def get_part_suffix(self) -> str:
        """The end of every finished name; empty if it is the format's own."""
        return self.part_suffix or ""

    @staticmethod
    def builder() -> _Builder:
        """Starts from prefix `part` and the format's own suffix."""
        return OutputFileConfigBuilder()
