"""The public API is what the committed list says: a name or a parameter that changes is seen in a review."""

import sys

import pytest

from tests.loading import load_script

script = load_script("public_api")


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="later versions of Python print annotations differently")
def test_the_committed_list_is_current() -> None:
    assert script.LIST.read_text(encoding="utf-8").splitlines() == script.public_api().splitlines(), (
        "the public API has changed; if that is meant, run `python scripts/public_api.py --write`"
    )


@pytest.mark.parametrize(
    "line",
    [
        "penstock.common.Configuration: class(other: 'Configuration | None' = None) -> None",
        "Configuration.get_integer: function(self, key: str, default_value: int) -> int",
        "Configuration.from_dict: staticmethod(map: collections.abc.Mapping[str, typing.Any]) -> 'Configuration'",
        "CheckpointingMode.AT_LEAST_ONCE = 1",
        "StreamExecutionEnvironment.spark: property(self) -> Any",
        "RestartStrategyConfiguration.get_description: function(self) -> str",
    ],
)
def test_the_list_has_classes_methods_values_and_what_methods_return(line: str) -> None:
    assert line in script.public_api().splitlines()
