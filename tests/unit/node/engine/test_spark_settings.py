"""The Spark settings for each kind of master, which the file can override."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from mm2.node.engine.spark_settings import INHERITED, engine_environment, host_of, spark_settings

TEMP = Path("/tmp/mm2-node-1")
MB = 2**20


def told(lanes: int = 4, **user: str) -> dict[str, str]:
    keys = {key.replace("_", "."): value for key, value in user.items()}
    return spark_settings(keys, lanes=lanes, temp_dir=TEMP, lane_buffer_bytes=64 * MB, own_host="node-1")


def test_without_a_master_lanes_are_threads_of_the_engine_on_loopback() -> None:
    settings = told(3)
    assert settings["spark.master"] == "local[3]"
    assert (settings["spark.driver.host"], settings["spark.driver.bindAddress"]) == ("127.0.0.1", "127.0.0.1")
    assert "spark.executor.cores" not in settings


def test_a_cluster_gives_each_lane_an_executor() -> None:
    settings = told(spark_master="spark://spark:7077")
    assert settings["spark.cores.max"] == settings["spark.executor.instances"] == "4"
    assert settings["spark.executor.cores"] == "1"
    assert settings["spark.executor.memoryOverhead"] == f"{256 + 128 + 2 * 64}m"
    assert settings["spark.driver.host"] == "node-1"
    assert "spark.driver.bindAddress" not in settings


def for_queries(user: Mapping[str, str]) -> dict[str, str]:
    """The settings of the engine for queries of a node in local mode."""
    return spark_settings(user, lanes=0, sql_lanes=4, temp_dir=TEMP, lane_buffer_bytes=64 * MB)


def test_sql_lanes_need_slots_and_memory_and_the_optimizing_compiler() -> None:
    settings = for_queries({})
    assert settings["spark.master"] == "local[4]"
    assert settings["spark.driver.memory"] == "1g"
    assert "TieredStopAtLevel" not in settings["spark.driver.defaultJavaOptions"]
    assert settings["spark.sql.warehouse.dir"] == f"{TEMP}/warehouse"
    plain = told(2)
    assert plain["spark.driver.memory"] == "512m"
    assert "TieredStopAtLevel=1" in plain["spark.driver.defaultJavaOptions"]
    assert not any(key.startswith("spark.sql.") for key in plain)


def test_two_engines_share_no_port() -> None:
    names = ("spark.ui.port", "spark.driver.port", "spark.blockManager.port", "spark.driver.blockManager.port")
    user = {**dict.fromkeys(names, "7000"), "spark.driver.memory": "2g"}
    assert for_queries(user).items() >= {**dict.fromkeys(names, "7001"), "spark.driver.memory": "2g"}.items()
    for any_port in ("0", "many"):
        assert for_queries({"spark.ui.port": any_port})["spark.ui.port"] == any_port
    assert for_queries({})["spark.ui.port"] == "4041"
    assert "spark.ui.port" not in told(2)
    assert (
        spark_settings({**user, "spark.master": "yarn"}, lanes=2, sql_lanes=4, temp_dir=TEMP, lane_buffer_bytes=MB)[
            "spark.driver.port"
        ]
        == "7000"
    )


def test_sql_lanes_on_a_cluster() -> None:
    settings = spark_settings({"spark.master": "yarn"}, lanes=2, sql_lanes=4, temp_dir=TEMP, lane_buffer_bytes=64 * MB)
    assert settings["spark.cores.max"] == settings["spark.executor.instances"] == "6"
    assert settings["spark.executor.memory"] == "1g"
    assert settings["spark.executor.memoryOverhead"] == f"{256 + 384 + 2 * 64}m"
    assert "TieredStopAtLevel" not in settings["spark.executor.defaultJavaOptions"]


def test_larger_executors_are_fewer_and_have_room_for_their_lanes() -> None:
    settings = told(5, spark_master="yarn", spark_executor_cores="2")
    assert (settings["spark.executor.cores"], settings["spark.executor.instances"]) == ("2", "3")
    assert settings["spark.executor.memoryOverhead"] == f"{256 + 2 * 128 + 2 * 2 * 64}m"


@pytest.mark.parametrize("master", ["local[4,4]", "local[*,4]", "local[4]", "yarn", "spark://spark:7077"])
def test_spark_does_not_retry_a_lane(master: str) -> None:
    """Its token was used. The engine orders a new run as soon as the job has failed."""
    settings = told(spark_master=master, spark_task_maxFailures="4")
    if master.startswith("local"):
        assert settings["spark.master"] == master.replace(",4", "")
    else:
        assert settings["spark.task.maxFailures"] == "1"


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local[4]", {"spark.authenticate": "true"}),
        ("yarn", {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}),
        ("k8s://https://k8s", {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}),
        ("spark://spark:7077", {}),  # needs a secret, which the file must have
    ],
)
def test_connections_of_spark_are_authenticated(master: str, expected: dict[str, str]) -> None:
    settings = told(spark_master=master)
    assert {key: settings[key] for key in settings if "authenticate" in key or "crypto" in key} == expected
    assert settings["spark.ui.killEnabled"] == "false"


def test_another_kind_of_encryption() -> None:
    settings = told(spark_master="yarn", spark_ssl_rpc_enabled="true")
    assert settings["spark.authenticate"] == "true"
    assert "spark.network.crypto.enabled" not in settings


def test_the_engine_inherits_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the environment it has what is on the list, and what the file adds."""
    for name in ("DB_PASSWORD", "MM2_REST_ADMIN_TOKEN", "KAFKA_OPTS", "ACME_SECRET", "ACME_PROFILE"):
        monkeypatch.setenv(name, "sesame")
    for name in ("JAVA_HOME", "KRB5_CONFIG", "LC_ALL", "PYTHONPATH", "HADOOP_CONF_DIR"):
        monkeypatch.setenv(name, "/place")
    environment = engine_environment(told(), TEMP)
    assert "sesame" not in environment.values()
    assert environment["JAVA_HOME"] == environment["KRB5_CONFIG"] == environment["LC_ALL"] == "/place"
    assert environment["PYTHONPATH"] == environment["HADOOP_CONF_DIR"] == "/place"
    for inherited in (("ACME_PROFILE", "ACME_SECRET"), ("ACME_*",)):
        more = engine_environment(told(), TEMP, inherited)
        assert more.keys() - environment.keys() == {"ACME_PROFILE", "ACME_SECRET"}


def test_the_guide_lists_what_the_engine_inherits() -> None:
    guide = Path("docs/how-to/security.md").read_text()
    table = guide.partition("### What Spark gets")[2].partition("|---|")[2].partition("\n\n")[0]
    names = [name for row in table.splitlines() for name in re.findall("`([^`]+)`", row.rpartition(" | ")[0])]
    assert sorted(names) == sorted(INHERITED)


def test_a_master_of_this_machine_stays_on_loopback() -> None:
    settings = told(spark_master="spark://127.0.0.1:7077")
    assert settings["spark.cores.max"] == "4"
    assert (settings["spark.driver.host"], settings["spark.driver.bindAddress"]) == ("127.0.0.1", "127.0.0.1")


def test_the_file_overrides_defaults() -> None:
    settings = told(spark_master="yarn", spark_driver_host="outside", spark_executor_memory="2g", spark_home="/spark")
    assert settings["spark.driver.host"] == "outside"
    assert settings["spark.executor.memory"] == "2g"
    assert engine_environment(settings, TEMP)["SPARK_HOME"] == "/spark"


def test_lanes_run_with_the_python_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/lying/around")
    monkeypatch.setenv("PYSPARK_PYTHON", "/lying/around/python")
    own = engine_environment(told(), TEMP)
    assert (own["PYSPARK_PYTHON"], own["PYSPARK_DRIVER_PYTHON"]) == (sys.executable, sys.executable)
    assert "SPARK_HOME" not in own
    shipped = engine_environment(told(spark_pyspark_python="./environment/bin/python"), TEMP)
    assert shipped["PYSPARK_PYTHON"] == "./environment/bin/python"
    assert shipped["PYSPARK_DRIVER_PYTHON"] == sys.executable


def test_sparks_pages_are_on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    assert engine_environment(told(spark_master="yarn"), TEMP)["SPARK_LOCAL_IP"] == "127.0.0.1"
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.7")
    assert engine_environment(told(), TEMP)["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert engine_environment(told(spark_master="yarn"), TEMP)["SPARK_LOCAL_IP"] == "10.0.0.7"


def test_the_host_name_in_a_url() -> None:
    assert host_of("https://node-1.example.org:8443") == "node-1.example.org"
    assert host_of("https://[fd00::2]:8443") == "fd00::2"


def test_the_engine_imports_nothing_from_the_working_directory(tmp_path: Path) -> None:
    """Also not if the node was started in a directory that others can write to. PYTHONPATH is searched as before."""
    writable, own = tmp_path / "writable", tmp_path / "own"
    for directory in (writable, own):
        directory.mkdir()
        (directory / "acme_place.py").write_text(f"print({directory.name!r})")
    (writable / "json.py").write_text("print('imported')")
    environment = {**engine_environment(told(), TEMP), "PYTHONPATH": str(own)}
    for arguments in (("-m", "acme_place"), ("-c", "import json, acme_place")):
        ended = subprocess.run(
            [sys.executable, *arguments], env=environment, cwd=writable, capture_output=True, text=True, check=True
        )
        assert ended.stdout == "own\n"


def test_lanes_on_this_machine_are_forked_with_their_modules() -> None:
    daemon = told(2)["spark.python.daemon.module"]
    imports = f"import sys, {daemon}, flows.lane.lane_runner, flows.spark.lane_task; print('pyarrow' in sys.modules)"
    threads = "import os; print(len(os.listdir('/proc/self/task')))"
    answer = subprocess.run((sys.executable, "-c", f"{imports}; {threads}"), capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["False", "1"], "threads would not survive the fork"
    assert "spark.python.daemon.module" not in told(2, spark_master="yarn"), "its Python may be unpacked later"
