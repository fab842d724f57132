"""Every error that Penstock raises on purpose.

PenstockError
├── UsageError                      the program or the command is wrong, nothing has run
│   ├── ArgumentError               an argument of the wrong type, or a function that cannot be called
│   ├── ArgumentValueError          an argument of the right type whose value cannot be used
│   ├── ConfigurationError
│   ├── TypeMismatchError
│   │   └── IncompatibleStateError  saved state does not fit what the program declares
│   ├── GuaranteeRefusedError       a job that promises less than was required of it
│   ├── StateAccessError
│   ├── NotPicklableError
│   ├── PathNotFoundError           a file or folder that a command needs is not there
│   ├── JavaNotFoundError           Spark needs a Java
│   └── ServiceError                a broker or database for development cannot be fetched or started
├── UnsupportedValueError           a value that no codec can store
├── UserFunctionError               the user's own code raised
├── InvalidKeyError                 a record whose key is null or NaN
├── StateBackendError               local files could not be read or written: the attempt ends, recovery follows
├── StorageError
│   ├── FileMissingError            no file of that name
│   ├── PathOutsideError            a name that leads out of the storage's folder
│   ├── StorageAwayError            not reachable, or read-only for now: nothing was changed
│   ├── NameTakenError              a file of that name exists and is never overwritten
│   └── UnknownOutcomeError         a write whose reply was lost
│       └── NotDurableError         a file that a power failure may still remove
├── CheckpointError
│   ├── CheckpointCorruptError
│   ├── CheckpointMissingError
│   ├── SnapshotRefusedError        a savepoint or checkpoint that this program cannot start from
│   │   └── SnapshotNotFoundError
│   ├── CheckpointDeclinedError
│   ├── CheckpointFailedError       too many failures, or a commit that does not end: recovery follows
│   └── LogCorruptError
│       └── LogMissingError
├── ConnectorError                  a broker or database could not serve a request
│   ├── ConnectorUnavailableError   it does not answer: the attempt ends, recovery follows
│   ├── ConnectorRefusedError       it refuses, and would again: wrong password, missing topic
│   └── RecordsLostError            records were deleted before they were read
├── FencedError                     a newer attempt owns the job
├── StateLostError                  the parent version is not held: the attempt ends, recovery follows
├── StaleAttemptError
├── SupersededTaskError
├── TaskManagerLostError
├── SinkTransactionLostError
├── RpcError
│   └── ConnectionLostError         the peer disconnected within a message or within an epoch's rows
├── RequestRefusedError             a request that a job's control server does not serve
└── JobError
    ├── JobFailedError
    ├── SourceFileLostError         a file was deleted before it was read
    ├── OutputIncompleteError       a batch job has committed only part of its output
    ├── JobNotFoundError
    ├── JobConflictError
    │   └── WrongJobError
    ├── QueryRetryError             the job cannot answer a query now, and can soon
    ├── NotReachableError           its control server does not answer, or refuses the token
    └── WaitInterruptedError        the user interrupted a waiting command; the job continues

Messages say what failed, what was expected and what was found, and what to do. Every class passes all its
arguments to `Exception`, so errors survive pickling.
"""

SUMMARY_CHARS = 300
"""Of the cause of a UserFunctionError in its summary."""


class PenstockError(Exception):
    """The parent of all errors that Penstock reports."""

    retryable = False
    exit_code = 1
    code = ""
    """A word for programs, such as `NOT_A_MANIFEST`; empty where the class says enough."""
    __notes__: list[str]
    """Notes that Python 3.11 and the command line show below the message."""

    @property
    def summary(self) -> str:
        """The error in one line: the last one of its message, or its class if it has none."""
        lines = str(self).strip().splitlines()
        return lines[-1] if lines else type(self).__name__


class UsageError(PenstockError):
    """The program or the command cannot work as written; nothing has been started."""

    exit_code = 2


class ArgumentError(UsageError, TypeError):
    """An argument is of a type that the method does not take, or a function has parameters that do not fit."""


class ArgumentValueError(UsageError, ValueError):
    """An argument is of the right type, but its value cannot be used."""


class ConfigurationError(UsageError):
    """A configuration key is unknown or its value has the wrong form."""


class GuaranteeRefusedError(UsageError):
    """`--require-exactly-once` was given, and the job promises less."""

    def __init__(self, guarantee: str, weak_parts: str) -> None:
        super().__init__(guarantee, weak_parts)

    def __str__(self) -> str:
        guarantee, weak_parts = self.args
        return f"--require-exactly-once: nothing was started, because the job delivers {guarantee}\n{weak_parts}"


class TypeMismatchError(UsageError):
    """Two declarations of one thing disagree, for example two states with one name and two types."""


class IncompatibleStateError(TypeMismatchError):
    """A saved state does not match its declaration in the program, and no schema evolution rule applies."""

    exit_code = 5
    code = "INCOMPATIBLE_STATE"

    def __init__(self, operator: str, name: str, was: str, now: str, reason: str, way_out: str) -> None:
        super().__init__(operator, name, was, now, reason, way_out)
        if reason.startswith("PICKLE_DISABLED"):
            self.code = "PICKLE_DISABLED"

    def __str__(self) -> str:
        operator, name, was, now, reason, way_out = self.args
        return (
            f"INCOMPATIBLE_STATE name={name!r} was={was!r} now={now!r}: state {name!r} of operator {operator!r} was "
            f"saved as {was} and is declared as {now}: {reason}; {way_out}"
        )


class StateBackendError(PenstockError):
    """The backend could not read or write its local files; the attempt ends and recovery follows."""


class StateAccessError(UsageError):
    """State or timers were used where there is no key, or after the function was closed."""


class NotPicklableError(UsageError):
    """A user's function cannot be sent to the TaskManagers."""


class PathNotFoundError(UsageError):
    """A file or folder that a command or a program names is not there, or cannot be used; nothing has been started."""

    exit_code = 3


class JavaNotFoundError(UsageError):
    """There is no Java that Spark runs on; nothing has been started."""


class ServiceError(UsageError):
    """A broker or database for tests and development cannot be fetched, started or stopped on this machine."""


class UnsupportedValueError(PenstockError):
    """A value does not fit its declared type, or is of a kind that the tagged codec cannot store."""

    def __init__(self, problem: str, way_out: str = "") -> None:
        super().__init__(problem, way_out)

    def __str__(self) -> str:
        return "; ".join(part for part in self.args if part)

    @property
    def problem(self) -> str:
        """What is wrong, without what to do about it."""
        return str(self.args[0])


class UserFunctionError(PenstockError):
    """The user's own code raised. Carries the traceback, the operator, where it was created, the key and the record."""

    def __init__(self, operator: str, position: str, traceback: str, uid: str = "", facts: str = "") -> None:
        super().__init__(operator, position, traceback, uid, facts)

    def __str__(self) -> str:
        _, position, traceback, _, facts = self.args
        return f"{traceback.rstrip()}\n\nin {self._place}, {position}" + (f"\n{facts}" if facts else "")

    @property
    def summary(self) -> str:
        lines = [line for line in self.args[2].splitlines() if line.strip() and not line.startswith(" ")]
        cause = lines[-1] if lines else "an error"
        return f"{cause if len(cause) <= SUMMARY_CHARS else cause[:SUMMARY_CHARS] + '…'}, in {self._place}"

    @property
    def _place(self) -> str:
        operator, _, _, uid, _ = self.args
        return f"operator {operator!r} (uid {uid!r})" if uid not in ("", operator) else f"operator {operator!r}"


class InvalidKeyError(PenstockError):
    """The key of a record is null or NaN. The same input gives it again, so the job is not restarted."""

    def __init__(self, message: str, facts: str = "") -> None:
        super().__init__(message, facts)

    def __str__(self) -> str:
        return "\n".join(part for part in self.args if part)

    @property
    def summary(self) -> str:
        return str(self.args[0])


class StorageError(PenstockError):
    """An operation on the checkpoint storage failed."""

    retryable = True


class FileMissingError(StorageError):
    """The storage has no file of that name."""

    retryable = False


class PathOutsideError(StorageError):
    """The name is absolute, goes up, or leaves the storage's folder through a link; it is not followed."""

    retryable = False


class NameTakenError(StorageError):
    """The name exists already; existing files are never overwritten."""

    retryable = False


class StorageAwayError(StorageError):
    """The storage cannot be reached, or changes nothing for now (HDFS in safe mode): the operation was not executed."""


class UnknownOutcomeError(StorageError):
    """The reply to a write was lost, so it may or may not have happened; read back before deciding."""


class NotDurableError(UnknownOutcomeError):
    """The file exists, but an fsync of its folder failed, so a power failure may still remove it.

    The write is never repeated: a second fsync would report success without writing anything.
    """


class CheckpointError(PenstockError):
    """A checkpoint cannot be taken, read or restored."""

    exit_code = 5


class CheckpointCorruptError(CheckpointError):
    """A checkpoint file does not match its manifest; restoring it would load wrong state."""

    def __init__(self, path: str, expected: str, found: str, code: str = "CORRUPT_FILE") -> None:
        super().__init__(path, expected, found, code)
        self.code = code

    def __str__(self) -> str:
        path, expected, found, code = self.args
        return (
            f"checkpoint file {path!r} is corrupt ({code}): expected {expected}, found {found}; "
            f"restore an older checkpoint (see `penstock checkpoints list`)"
        )


class CheckpointMissingError(CheckpointError):
    """A checkpoint file that the manifest lists does not exist."""

    code = "MISSING_FILE"


class SnapshotRefusedError(CheckpointError):
    """A savepoint or checkpoint is intact, but the job cannot start from it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code

    def __str__(self) -> str:
        code, message = self.args
        return f"{message} ({code})"


class SnapshotNotFoundError(SnapshotRefusedError):
    """There is no savepoint and no checkpoint at the path."""

    exit_code = 3


class CheckpointDeclinedError(CheckpointError):
    """A subtask declined a checkpoint."""


class CheckpointFailedError(CheckpointError):
    """Too many checkpoints failed, or a commit did not finish in time; recovery follows."""

    retryable = True
    exit_code = 1


class LogCorruptError(CheckpointError):
    """The job log cannot be read to its end, so nothing may start from it."""


class LogMissingError(LogCorruptError):
    """A folder holds checkpoints but no job log, so nothing says which job they belong to or which are complete."""

    code = "MISSING_IDENTITY"


class ConnectorError(PenstockError):
    """A system outside of Penstock, such as a broker or a database, could not serve a request."""


class ConnectorUnavailableError(ConnectorError):
    """A broker or database does not answer in time; the attempt ends and recovery follows."""

    retryable = True


class ConnectorRefusedError(ConnectorError):
    """A broker or database refuses a request and would refuse it again, for example because a topic does not exist."""


class RecordsLostError(ConnectorError):
    """Records that a source had to read are gone, for example by the retention of a topic; going on would skip them."""


class FencedError(PenstockError):
    """A newer attempt owns the job; this one commits nothing, deletes nothing and ends."""

    exit_code = 4


class StateLostError(PenstockError):
    """The owner does not hold the parent version of the epoch; the attempt ends and recovery follows."""

    retryable = True


class StaleAttemptError(PenstockError):
    """A message of an older attempt reached a process that serves a newer one."""


class SupersededTaskError(PenstockError):
    """A newer task attempt has taken over this subtask's epoch."""


class TaskManagerLostError(PenstockError):
    """A TaskManager process died or stopped answering; the attempt ends and recovery follows."""

    retryable = True


class SinkTransactionLostError(PenstockError):
    """A sink transaction is neither pending nor known to be committed: its rows are lost."""


class RpcError(PenstockError):
    """A message between JobManager, TaskManager and Spark task could not be exchanged."""

    retryable = True


class ConnectionLostError(RpcError):
    """The peer disconnected within a message or within an epoch's rows."""


class RequestRefusedError(PenstockError):
    """A job's control server does not serve a request. Carries the HTTP status, a code and the reason."""

    def __init__(self, status: int, code: str, message: str, retry_after_s: int | None = None) -> None:
        super().__init__(status, code, message, retry_after_s)
        self.code = code

    @property
    def retry_after_s(self) -> int | None:
        """After how many seconds to try again; None if that would not help."""
        found: int | None = self.args[3]
        return found

    @property
    def status(self) -> int:
        """The HTTP status of the response."""
        return int(self.args[0])

    def __str__(self) -> str:
        return str(self.args[2])


class JobError(PenstockError):
    """The parent of errors about a whole job."""


class JobFailedError(JobError):
    """The job ended as FAILED."""


class OutputIncompleteError(JobError):
    """A batch job has committed part of its output and could not commit the rest: it is not run again."""


class SourceFileLostError(JobError):
    """A file that a source had listed was deleted before it was read; Spark alone would skip it silently."""


class JobNotFoundError(JobError):
    """No job with that id, prefix or name."""

    exit_code = 3


class JobConflictError(JobError):
    """The job is running, or several jobs match."""

    exit_code = 4


class WrongJobError(JobConflictError):
    """A job's folder holds the checkpoints of another job."""

    code = "WRONG_JOB"


class QueryRetryError(JobError):
    """The job starts, recovers, is being rescaled or is busy: the same query may succeed later."""

    retryable = True

    def __init__(self, message: str, retry_after_s: int = 1, code: str = "") -> None:
        super().__init__(message, retry_after_s, code)
        self.code = code

    @property
    def retry_after_s(self) -> int:
        """After how many seconds to ask again."""
        return int(self.args[1])

    def __str__(self) -> str:
        return str(self.args[0])


class NotReachableError(JobError):
    """The control server of a job does not answer, or does not accept the token."""

    exit_code = 6


class WaitInterruptedError(JobError):
    """The user interrupted a command that was waiting for a job; the job continues."""

    exit_code = 130
