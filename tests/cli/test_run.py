"""`penstock run`: flags, the program's environment, and what its errors look like."""

import json
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

from penstock import compat
from penstock.cli.main import main
from penstock.control.registry import JobRecord
from penstock.control.standby.active_driver import ActiveDriver
from penstock.control.submission import StartingJob, Submission, current_submission, resume_command, to_arguments
from penstock.control.terminal import MODE
from penstock.storage.local import LocalStorage
from tests.checkpoint.logs import claimed_log
from tests.records import A_ID, job_record


def program(folder: Path, text: str) -> str:
    path = folder / "job.py"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return str(path)


def print_submission() -> None:
    """Print the flags; called by the programs of these tests."""
    submission = current_submission()
    assert submission is not None
    print({name: value for name, value in vars(submission).items() if name not in ("job_file", "report", "announce")})


def print_start() -> None:
    """Print which job starts from what, and that it starts; called by a program whose driver is then lost."""
    submission = current_submission()
    assert submission is not None and submission.starting is not None
    print(submission.job_id, submission.savepoint_path, submission.claim_mode, submission.allow_non_restored)
    folder = submission.job_file.parent / "checkpoints"
    submission.starting(StartingJob(A_ID, "job", str(folder), str(folder / A_ID)))


def report_job(status: str, failure: str | None = None) -> None:
    """What the JobManager does for a program whose job ends at once."""
    submission = current_submission()
    assert submission is not None and submission.report is not None
    records: list[JobRecord] = [job_record(), job_record(status=status, failure=failure)]
    for record in records:
        submission.report(record)


def test_every_flag_reaches_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = program(tmp_path, "from tests.cli.test_run import print_submission; print_submission()")
    flags = ["-p", "3", "--name", "n", "--resume", "--allow-fallback", "--require-exactly-once", "--spark-log", "warn"]
    assert main(["run", *flags, "-Da.b=1", "-D", "c = x=y", "-Da.b=2", job]) == 0
    assert eval(capsys.readouterr().out) == {
        "parallelism": 3,
        "savepoint_path": None,
        "allow_non_restored": False,
        "claim_mode": None,
        "detached": False,
        "name": "n",
        "resume": True,
        "resume_only": False,
        "allow_fallback": True,
        "require_exactly_once": True,
        "spark_log": "WARN",
        "pyflink": False,
        "ha": None,
        "job_id": None,
        "restarts": False,
        "reopens": True,
        "starting": None,
        "overrides": {"a.b": "2", "c": "x=y"},
        "arguments": (),
        "suspends": True,
    }
    assert current_submission() is None


def test_a_program_of_pyflink_imports_penstock(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = program(tmp_path, "from pyflink.common import Types; print(Types.__module__)")
    try:
        assert main(["run", "--pyflink", job]) == 0
    finally:
        compat.uninstall()
    assert capsys.readouterr().out == "penstock.model.types\n"
    assert main(["run", job]) == 1


def test_what_follows_the_file_belongs_to_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = program(tmp_path, "import sys; print(sys.argv[1:], __name__)")
    assert main(["run", job, "-p", "x", "--json", "--", "--help"]) == 0
    assert capsys.readouterr().out == "['-p', 'x', '--json', '--', '--help'] __main__\n"


def test_the_program_imports_from_its_own_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "beside_the_job.py").write_text("VALUE = 42", encoding="utf-8")
    assert main(["run", program(tmp_path, "import beside_the_job; print(beside_the_job.VALUE)")]) == 0
    assert capsys.readouterr().out == "42\n"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["-s", "path", "--resume"], "-s and --resume are mutually exclusive"),
        (["-n"], "needs -s PATH"),
        (["-cm", "no_claim"], "needs -s PATH"),
        (["-cm", "clam"], "did you mean claim"),
        (["-p", "0"], "at least 1"),
        (["-p", "many"], "valid integer"),
        (["-Dkey"], "-Dkey=value"),
        (["-D=value"], "-Dkey=value"),
        (["--spark-log", "loud"], "not one of ALL"),
        (["--paralelism", "2"], "--parallelism"),
    ],
)
def test_wrong_flags_are_usage_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    assert main(["run", *flags, program(tmp_path, "print('ran')")]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert message in shown.err and "Traceback" not in shown.err


def test_a_missing_file_has_exit_code_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "absent.py"]) == 3
    assert capsys.readouterr().err == "error: no job file 'absent.py'; give the path of a Python file\n"


def test_a_missing_savepoint_is_known_before_the_program_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job, absent = program(tmp_path, "print('ran')"), str(tmp_path / "absent")
    assert main(["run", "-s", absent, job]) == 3
    assert main(["run", "-d", "-s", absent, job]) == 3
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count(f"Cannot find checkpoint or savepoint file/directory '{absent}'") == 2


def test_a_syntax_error_shows_path_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = program(tmp_path, "x = 1\ndef broken(:\n")
    assert main(["run", job]) == 2
    shown = capsys.readouterr().err
    assert f'File "{job}", line 2' in shown and "def broken(:" in shown and "Traceback" not in shown


def test_an_import_error_shows_the_users_frames_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "beside_and_broken.py").write_text("import a_module_that_is_not_there", encoding="utf-8")
    assert main(["run", program(tmp_path, "import beside_and_broken")]) == 1
    shown = capsys.readouterr().err
    assert [line.split('"')[1].rsplit("/", 1)[1] for line in shown.splitlines() if line.startswith("  File")] == [
        "job.py",
        "beside_and_broken.py",
    ]
    assert shown.endswith("ModuleNotFoundError: No module named 'a_module_that_is_not_there'\n")


def test_a_cause_is_shown_without_our_frames_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = program(
        tmp_path,
        """
        from penstock.control.registry import Registry
        from pathlib import Path
        try:
            Registry(Path("absent")).read("x")
        except Exception as error:
            raise ValueError("mine") from error
        """,
    )
    assert main(["run", job]) == 1
    shown = capsys.readouterr().err
    assert "no job 'x'" in shown and "ValueError: mine" in shown and "registry.py" not in shown


def test_a_usage_error_is_one_message_with_its_place_in_the_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = program(tmp_path, "from penstock.errors import ConfigurationError\n\nraise ConfigurationError('no key k')")
    assert main(["run", job]) == 2
    assert capsys.readouterr().err == f"error: no key k\n  at {job}:3\n"


def test_a_mistake_in_a_function_is_shown_with_the_line_of_its_operator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = program(
        tmp_path,
        """
        import threading
        from penstock.datastream import StreamExecutionEnvironment
        env = StreamExecutionEnvironment.get_execution_environment()
        lock = threading.Lock()
        numbers = env.from_collection([1])
        numbers.map(lambda a, b: a)
        """,
    )
    assert main(["run", job]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith(f"error: the lambda at {job}:7 takes (a, b), but map() calls it with one argument, (value)")
    assert shown.endswith(f"\n  at {job}:7\n")
    Path(job).write_text(
        Path(job).read_text().replace("lambda a, b: a)", "lambda a: (a, lock)).print()\nenv.get_execution_plan()")
    )
    assert main(["run", job]) == 2
    shown = capsys.readouterr().err
    assert "'lock'" in shown and shown.endswith(f"\n  created at {job}:7: numbers.map(lambda a: (a, lock)).print()\n")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("JobFailedError('x')", 1),
        ("JobNotFoundError('x')", 3),
        ("JobConflictError('x')", 4),
        ("FencedError('x')", 4),
        ("LogCorruptError('x')", 5),
    ],
)
def test_each_kind_of_error_has_its_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], error: str, code: int
) -> None:
    assert main(["run", program(tmp_path, f"from penstock.errors import *\nraise {error}")]) == code
    assert capsys.readouterr().err == "error: x\n"


def test_the_users_own_traceback_comes_first_when_a_function_raised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = program(
        tmp_path,
        """
        from penstock.errors import UserFunctionError
        raise UserFunctionError("totals", "row 7", "Traceback: user's\\nValueError: bad\\n")
        """,
    )
    assert main(["run", job]) == 1
    expected = "error: Traceback: user's\nValueError: bad\n\nin operator 'totals', row 7\n"
    assert capsys.readouterr().err == expected


def test_debug_adds_the_whole_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = program(tmp_path, "from penstock.errors import JobError\nraise JobError('x')")
    assert main(["run", "--debug", job]) == 1
    assert "runpy" in capsys.readouterr().err


def test_json_errors_are_documents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = program(tmp_path, "from penstock.errors import JobConflictError\nraise JobConflictError('twice')")
    assert main(["run", "--json", job]) == 4
    assert json.loads(capsys.readouterr().out) == {"errors": ["twice"], "code": 4}


@pytest.mark.parametrize(("request_text", "code"), [("", 0), ("0", 0), ("7", 7), ("'why'", 1)])
def test_the_programs_own_exit_code_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], request_text: str, code: int
) -> None:
    assert main(["run", program(tmp_path, f"import sys; sys.exit({request_text})")]) == code
    assert capsys.readouterr().err == ("why\n" if request_text == "'why'" else "")


def test_a_session_of_the_program_that_finds_no_java_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    job = program(tmp_path, "raise RuntimeError('[JAVA_GATEWAY_EXITED] Java gateway process exited')")
    assert main(["run", job]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith(f"error: JAVA_HOME is '{tmp_path}', which has no bin/java") and len(shown.splitlines()) == 1


def test_an_interrupt_is_130(tmp_path: Path) -> None:
    assert main(["run", program(tmp_path, "raise KeyboardInterrupt")]) == 130


@pytest.mark.parametrize(("status", "code"), [("FINISHED", 0), ("FAILED", 1), ("CANCELED", 0)])
def test_the_last_line_says_how_the_job_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], status: str, code: int
) -> None:
    job = program(tmp_path, f"from tests.cli.test_run import report_job; report_job('{status}'); print('after')")
    assert main(["run", job]) == code
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"Job has been submitted with JobID {A_ID}", "after", f"Job {A_ID} {status}"]


def test_a_detached_run_is_started_with_the_same_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODE, "json", False)
    monkeypatch.setattr(MODE, "debug", False)
    submission = Submission(
        job_file=Path("job.py"),
        parallelism=2,
        detached=True,
        name="a b",
        resume=True,
        allow_fallback=True,
        spark_log="WARN",
        overrides={"k": "v=w"},
    )
    expected = ["-p", "2", "--name", "a b", "--spark-log", "WARN", "--resume", "--allow-fallback", "-Dk=v=w", "job.py"]
    assert to_arguments(submission) == expected
    assert to_arguments(Submission(job_file=Path("job.py"))) == ["job.py"]
    strict = Submission(
        Path("job.py"), resume=True, resume_only=True, require_exactly_once=True, arguments=("--rows", "7")
    )
    assert to_arguments(strict) == ["--resume-only", "--require-exactly-once", "job.py", "--rows", "7"]
    restored = Submission(Path("job.py"), savepoint_path="a b", allow_non_restored=True, claim_mode="claim")
    assert to_arguments(restored) == ["-s", "a b", "-cm", "claim", "-n", "job.py"]


WEAK = """
from penstock.datastream import CheckpointingMode, StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.enable_checkpointing(5000, CheckpointingMode.AT_LEAST_ONCE)
env.from_collection([1, 2]).map(str).print()
env.execute()
"""


def test_a_job_that_is_not_exact_is_refused_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.datastream.environment.make_session", lambda configuration: pytest.fail("it started"))
    job = program(tmp_path, WEAK)
    assert main(["run", "--require-exactly-once", "-p", "1", job]) == 2
    error = capsys.readouterr().err
    assert "--require-exactly-once: nothing was started, because the job delivers at least once" in error
    assert "checkpoints: in mode AT_LEAST_ONCE" in error and "choose CheckpointingMode.EXACTLY_ONCE" in error
    assert "sink 'Print to Std. Out': " in error and f"at {job}:7" in error


def test_an_interrupted_program_says_with_which_command_its_job_is_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "penstock").touch(mode=0o755)
    job = program(tmp_path, "from penstock.control.submission import resume_command; print(resume_command())")
    assert main(["run", "-p", "2", "--name", "a b", "--resume-only", "-Dk=v", job, "--rows", "7"]) == 0
    assert capsys.readouterr().out == f"penstock run -p 2 --name 'a b' --resume -Dk=v {job} --rows 7\n"
    main_module = ModuleType("__main__")
    main_module.__file__ = "totals.py"
    monkeypatch.setitem(sys.modules, "__main__", main_module)
    monkeypatch.setattr(sys, "argv", ["totals.py", "x"])
    (tmp_path / "penstock").unlink()
    assert resume_command() == f"{sys.executable} -m penstock run --resume totals.py x"


def test_security_s2_the_token_of_another_server_does_not_reach_the_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_TOKEN", "secret")
    job = program(tmp_path, "import os; print('PENSTOCK_TOKEN' in os.environ)")
    assert main(["run", job]) == 0
    assert capsys.readouterr().out == "False\n"


def test_u2_a_job_that_died_between_storing_its_program_and_its_claim_keeps_its_savepoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ActiveDriver, "close", lambda driver: driver._lease.close())  # as a kill leaves the folder
    job = program(tmp_path, "from tests.cli.test_run import print_start; print_start()")
    savepoint = next((Path(__file__).parents[1] / "golden" / "0.1.0" / "hashmap-canonical").glob("savepoint-*"))
    flags = ["run", "--ha", str(tmp_path / "ha"), "-Dpenstock.ha.timeout=500 ms"]
    assert main([*flags, "-s", str(savepoint), "-cm", "claim", "-n", job]) == 0
    assert capsys.readouterr().out == f"None {savepoint} claim True\n"
    for _ in range(2):
        assert main([*flags, "--resume", job]) == 0
        assert capsys.readouterr().out == f"{A_ID} {savepoint} claim True\n"
    claimed_log(LocalStorage(tmp_path / "checkpoints" / A_ID))
    assert main([*flags, "--resume", job]) == 0
    assert capsys.readouterr().out == f"{A_ID} None None False\n"
