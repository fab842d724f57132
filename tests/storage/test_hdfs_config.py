"""Which NameNodes an address means, by Hadoop's configuration files."""

from pathlib import Path

import pytest

from penstock.errors import ConfigurationError
from penstock.storage.hdfs_config import ACTIVE_ONLY, find_namenodes

HA = {
    "dfs.nameservices": "prod, other",
    "dfs.ha.namenodes.prod": "nn1, nn2",
    "dfs.namenode.rpc-address.prod.nn1": "one:8020",
    "dfs.namenode.rpc-address.prod.nn2": "two:9000",
    "dfs.namenode.rpc-address.other": "three:9001",
}


def configured(folder: Path, settings: dict[str, str]) -> dict[str, str]:
    lines = "".join(
        f"<property><name>{name}</name><value> {value} </value></property>" for name, value in settings.items()
    )
    (folder / "hdfs-site.xml").write_text(f"<?xml version='1.0'?><configuration>{lines}</configuration>")
    return {"HADOOP_CONF_DIR": str(folder)}


def test_a_nameservice_means_its_name_nodes(tmp_path: Path) -> None:
    found = find_namenodes("prod", configured(tmp_path, HA))
    assert found.url == "hdfs://prod" and found.hosts == ("one:8020", "two:9000")
    assert found.settings(0)["dfs.ha.namenodes.prod"] == "nn1,nn2"
    assert found.settings(3)["dfs.ha.namenodes.prod"] == "nn2,nn1"
    assert found.settings(0)["dfs.namenode.rpc-address.prod.nn2"] == "two:9000"


def test_reads_go_to_the_active_name_node_whatever_is_configured(tmp_path: Path) -> None:
    """A listing from an observer may lack an entry of the job log that another driver has written."""
    name = "dfs.client.failover.proxy.provider.prod"
    observers = {name: "org.apache.hadoop.hdfs.server.namenode.ha.ObserverReadProxyProvider"}
    assert find_namenodes("prod", configured(tmp_path, HA | observers)).settings(0)[name] == ACTIVE_ONLY


def test_a_nameservice_of_one_name_node_means_its_address(tmp_path: Path) -> None:
    assert find_namenodes("other", configured(tmp_path, HA)).url == "hdfs://three:9001"


def test_a_host_is_a_host_whatever_is_configured(tmp_path: Path) -> None:
    environment = configured(tmp_path, HA)
    assert find_namenodes("prod:8020", environment).names == ()
    assert find_namenodes("elsewhere", environment).url == "hdfs://elsewhere:8020"


def test_the_files_may_be_in_hadoop_home(tmp_path: Path) -> None:
    (tmp_path / "etc/hadoop").mkdir(parents=True)
    configured(tmp_path / "etc/hadoop", HA)
    assert find_namenodes("prod", {"HADOOP_HOME": str(tmp_path)}).names == ("nn1", "nn2")


def test_a_name_node_without_an_address_is_reported(tmp_path: Path) -> None:
    broken = {name: value for name, value in HA.items() if not name.endswith("nn2")}
    with pytest.raises(ConfigurationError, match="'nn2' without an address; set dfs.namenode.rpc-address.prod.nn2"):
        find_namenodes("prod", configured(tmp_path, broken))


def test_a_broken_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "core-site.xml").write_text("<configuration>")
    with pytest.raises(ConfigurationError, match="cannot read .*core-site.xml"):
        find_namenodes("prod", {"HADOOP_CONF_DIR": str(tmp_path)})
