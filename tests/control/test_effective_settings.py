"""Which settings win, and where each of them is said to come from."""

from pathlib import Path

import pytest

from penstock.control import effective_settings
from penstock.control.effective_settings import load_settings, settings_files, user_file, visible_value
from penstock.errors import ConfigurationError
from penstock.model.configuration import Configuration

KEYS = ("parallelism.default", "pipeline.max-parallelism", "pipeline.name", "rest.port", "rest.address")


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """The working folder, the user's and the machine's, each empty."""
    places = {name: tmp_path / name for name in ("working", "user", "machine", "chosen")}
    for place in places.values():
        place.mkdir()
    monkeypatch.chdir(places["working"])
    monkeypatch.delenv("PENSTOCK_CONF_DIR", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(places["user"]))
    monkeypatch.setattr(effective_settings, "MACHINE_FOLDER", places["machine"])
    return places


def write(folder: Path, **settings: str) -> Path:
    folder.mkdir(exist_ok=True)
    lines = [f"{KEYS[int(number[1:])]}: {value}" for number, value in settings.items()]
    (folder / "penstock.yaml").write_text("\n".join(lines), encoding="utf-8")
    return folder / "penstock.yaml"


def test_the_program_wins_over_d_and_d_over_the_files_in_their_order(folders: dict[str, Path]) -> None:
    write(folders["working"], k0="3", k1="3", k2="working")
    user = write(folders["user"] / "penstock", k0="4", k1="4", k2="user", k3="4")
    machine = write(folders["machine"], k0="5", k1="5", k2="machine", k3="5", k4="machine")
    program = Configuration.from_dict({KEYS[0]: "1"})
    found = load_settings(program, {KEYS[0]: "2", KEYS[1]: "2"})
    assert found.configuration.to_dict() == dict(zip(KEYS, ("1", "2", "working", "4", "machine"), strict=True))
    assert found.origins == {
        KEYS[0]: "the program",
        KEYS[1]: "-D",
        KEYS[2]: "./penstock.yaml, line 3",
        KEYS[3]: f"{user}, line 4",
        KEYS[4]: f"{machine}, line 5",
    }


def test_without_files_there_are_only_the_program_and_d(folders: dict[str, Path]) -> None:
    assert settings_files() == []
    assert load_settings(Configuration(), {}).configuration.to_dict() == {}


def test_the_named_folder_takes_the_place_of_the_users(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folders["user"] / "penstock", k0="4", k2="user")
    write(folders["machine"], k3="5")
    write(folders["chosen"], k0="6")
    monkeypatch.setenv("PENSTOCK_CONF_DIR", str(folders["chosen"]))
    assert load_settings(Configuration(), {}).configuration.to_dict() == {KEYS[3]: "5", KEYS[0]: "6"}


def test_a_named_folder_without_a_file_is_an_error(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_CONF_DIR", str(folders["chosen"]))
    with pytest.raises(ConfigurationError, match="PENSTOCK_CONF_DIR is '.*chosen', but there is no penstock.yaml in"):
        settings_files()


def test_the_users_folder_is_in_the_home_folder_unless_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_CONF_DIR", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/ada")
    assert user_file() == Path("/home/ada/.config/penstock/penstock.yaml")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/configuration")
    assert user_file() == Path("/configuration/penstock/penstock.yaml")


def test_an_unknown_key_in_a_file_is_an_error_with_file_and_line(folders: dict[str, Path]) -> None:
    file = folders["machine"] / "penstock.yaml"
    file.write_text("parallelism:\n  default: 2\n  defualt: 3\n", encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        load_settings(Configuration(), {})
    assert str(caught.value) == (
        f"no configuration key 'parallelism.defualt' (from {file}, line 3); did you mean 'parallelism.default'?"
    )


def test_a_wrong_value_is_an_error_even_where_another_wins(folders: dict[str, Path]) -> None:
    write(folders["working"], k0="many")
    with pytest.raises(ConfigurationError, match="default .from ./penstock.yaml, line 1.: 'many' is not a number"):
        load_settings(Configuration.from_dict({KEYS[0]: "1"}), {})


def test_an_old_name_in_the_program_wins_over_the_new_one_on_the_command_line(folders: dict[str, Path]) -> None:
    program = Configuration.from_dict({"state.checkpoints.dir": "program"})
    found = load_settings(program, {"execution.checkpointing.dir": "flag"})
    assert found.configuration.to_dict() == {"execution.checkpointing.dir": "program"}
    assert found.origins == {"execution.checkpointing.dir": "the program"}


def test_the_origin_of_a_setting_under_an_old_name_is_its_line(folders: dict[str, Path]) -> None:
    (folders["working"] / "penstock.yaml").write_text("rest.port: 0\nstate.backend: jobmanager\n", encoding="utf-8")
    found = load_settings(Configuration(), {})
    assert found.origins["state.backend.type"] == "./penstock.yaml, line 2"
    assert found.origins["execution.checkpointing.storage"] == "./penstock.yaml, line 2"


def test_keys_of_a_registered_backend_are_accepted_where_it_is_chosen(folders: dict[str, Path]) -> None:
    program = Configuration.from_dict({"state.backend.type": "sqlite"})
    found = load_settings(program, {"state.backend.sqlite.path": "/x"})
    assert found.configuration.to_dict()["state.backend.sqlite.path"] == "/x"
    with pytest.raises(ConfigurationError, match="no configuration key 'state.backend.sqlite.path'"):
        load_settings(Configuration(), {"state.backend.sqlite.path": "/x"})


@pytest.mark.parametrize("kind", ["hashmap", "rocksdb"])
def test_a_misspelt_key_of_our_own_backends_is_an_error(kind: str, folders: dict[str, Path]) -> None:
    program = Configuration.from_dict({"state.backend.type": kind})
    with pytest.raises(ConfigurationError, match=f"no configuration key 'state.backend.{kind}.locladir'"):
        load_settings(program, {f"state.backend.{kind}.locladir": "/x"})


@pytest.mark.parametrize(
    "key",
    [
        *("spark.hadoop.fs.azure.account.key.a", "spark.ssl.keyPassword", "my.passphrase", "db.pwd", "DB_PASS"),
        *("kafka.sasl.jaas.config", "rest.basic-auth", "metrics.http-headers", "service-key", "connection.string"),
        *("ssl.private_key", "spark.io.encryption.key", "proxy.auth-params", "user.passwd"),
    ],
)
def test_security_s15_values_under_these_keys_are_not_shown(key: str) -> None:
    assert visible_value(key, "hunter2") == "******"


@pytest.mark.parametrize("key", ["rest.port", "penstock.rest.ssl.key", "compass.heading", "primary.key.column"])
def test_values_under_other_keys_are_shown(key: str) -> None:
    assert visible_value(key, "plain") == "plain"
