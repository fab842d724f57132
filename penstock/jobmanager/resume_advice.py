"""What an interrupted program says about its job last: how it has ended, and how to resume it."""

from penstock.control.submission import resume_command
from penstock.jobmanager.settings.job_settings import JobSettings
from penstock.model.execution import JobStatus


class ResumeAdvice:
    """Made when the job is submitted: the program's submission ends before the job is suspended."""

    def __init__(self, name: str, settings: JobSettings) -> None:
        self._name = name
        self._settings = settings
        self.command = resume_command()
        self.command_after_rescale = resume_command(sets_parallelism=False)

    def text(self, status: JobStatus, checkpoint: int | None, *, is_rescaled: bool) -> str:
        """`checkpoint`: the newest completed one."""
        if not self._settings.is_resumable:
            is_kept = self._settings.takes_checkpoints
            what = "checkpoints in the JobManager's memory only" if is_kept else "no checkpoints"
            return f"job {self._name!r} has {what}: its state is gone with its process"
        if status is not JobStatus.SUSPENDED:
            return f"job {self._name!r} is {status.name}"
        where = f"at checkpoint {checkpoint}" if checkpoint is not None else "before its first checkpoint"
        command = self.command_after_rescale if is_rescaled else self.command
        return f"job {self._name!r} is suspended {where}; resume it with: {command}"
