"""`penstock doctor`."""

from penstock.cli.flags import DebugFlag, JsonFlag, SettingsFlag, parse_settings
from penstock.clock import SystemClock
from penstock.control.effective_settings import load_settings
from penstock.control.machine_checks import Finding, Machine, check_machine
from penstock.control.terminal import print_result
from penstock.model.configuration import Configuration

MARKS = {"ok": "ok     ", "warning": "warning", "error": "ERROR  "}


def doctor(*, settings: SettingsFlag = None, json: JsonFlag = False, debug: DebugFlag = False) -> int:
    """Check whether this machine can run jobs."""
    configuration = load_settings(Configuration(), parse_settings(settings)).configuration
    findings = list(check_machine(Machine(configuration, SystemClock())))
    print_result(findings_text(findings), findings)
    return int(any(finding.level == "error" for finding in findings))


def findings_text(findings: list[Finding]) -> str:
    """One line per finding, with the fix below it, and a summary."""
    lines: list[str] = []
    for finding in findings:
        lines.append(f"{MARKS[finding.level]}  {finding.check:<11}  {finding.text}")
        lines += [f"{'':22}fix: {finding.fix}"] if finding.fix else []
    errors = sum(finding.level == "error" for finding in findings)
    warnings = sum(finding.level == "warning" for finding in findings)
    if errors:
        summary = f"{errors} to mend before a job can run" + (f", {warnings} to look at" if warnings else "")
    else:
        summary = f"jobs can run; {warnings} to look at" if warnings else "jobs can run"
    return "\n".join([*lines, "", summary])
