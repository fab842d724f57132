"""The settings of the sweep of expired state."""

import pytest

from penstock.control.effective_settings import load_settings
from penstock.errors import ConfigurationError
from penstock.jobmanager.settings.job_settings import JobSettings
from penstock.model.configuration import Configuration
from penstock.state.ttl.rules import SweepSettings

ENTRIES, INTERVAL = "penstock.state.ttl.sweep-entries", "penstock.state.ttl.sweep-interval"


def sweep_of(**settings: str) -> SweepSettings:
    given = {ENTRIES: settings["entries"]} if "entries" in settings else {}
    given |= {INTERVAL: settings["interval"]} if "interval" in settings else {}
    return JobSettings.of("job", load_settings(Configuration(), given, []).configuration).backend.ttl_sweep


def test_the_defaults_are_those_of_the_docs() -> None:
    assert sweep_of() == SweepSettings(entries=50_000, interval_ms=5_000)


def test_budget_and_interval_are_configured() -> None:
    assert sweep_of(entries="100", interval="250 ms") == SweepSettings(100, 250)
    assert sweep_of(entries="0").entries == 0


@pytest.mark.parametrize("settings", [{"entries": "-1"}, {"interval": "0"}, {"interval": "0 s"}])
def test_a_sweep_that_could_not_run_is_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="give a positive interval, and entries = 0 to switch the sweep off"):
        sweep_of(**settings)


def test_a_setting_of_another_form_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="sweep-interval"):
        sweep_of(interval="soon")
