"""The systemd unit: shutdown, and restrictions that do not affect Spark."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from mm2.cli.mirror1_table import MIRROR1_COMMAND
from mm2.config.keys.worker_keys import WorkerSettings
from mm2.mirror1.process import END_WITHIN_S as MIRROR_ENDS_S
from mm2.node.engine.engine_process import END_WITHIN_S
from mm2.program.node_program import MISTAKE
from tests.lab.tools import command
from tests.unit.deploy.shipped import CONTAINER, SYSTEMD, seconds

UNIT = SYSTEMD / "mm2.service"
MIRROR_UNIT = SYSTEMD / "kafka-mirror-maker.service"
DRAIN_S = WorkerSettings.model_fields["task_shutdown_graceful_timeout_ms"].default / 1000


def settings(path: Path) -> dict[str, list[str]]:
    """Return the settings of a unit file by name, each with all its values: a name can occur more than once."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in path.read_text("utf-8").splitlines():
        if line and line[0] not in "#;[":
            name, _, value = line.partition("=")
            found[name].append(value)
    return found


def test_both_units_restrict_the_same() -> None:
    own = ("Description", "EnvironmentFile", "ExecReload", "ExecStart", "TimeoutStopSec")
    first, second = (
        {name: value for name, value in settings(path).items() if not name.startswith((*own, "    --"))}
        for path in (UNIT, MIRROR_UNIT)
    )
    assert first == second


def test_the_unit_of_mirror_maker_1_covers_its_end() -> None:
    unit = settings(MIRROR_UNIT)
    assert seconds(unit["TimeoutStopSec"][0]) >= MIRROR_ENDS_S + 2 * END_WITHIN_S
    text = MIRROR_UNIT.read_text("utf-8")
    command_line = text[text.index("ExecStart=") :].partition("\nWorkingDirectory")[0].replace("\\\n", " ")
    program, *words = shlex.split(command_line.removeprefix("ExecStart="))
    assert program == "/opt/mm2/bin/kafka-mirror-maker"
    options = {name for parameter in MIRROR1_COMMAND.parameters for name in parameter.names}
    assert {word for word in words if word.startswith("--")} <= options


def test_stop_timeout_covers_the_drain() -> None:
    unit = settings(UNIT)
    assert unit["KillMode"] == ["mixed"]
    assert unit["KillSignal"] == ["SIGTERM"]
    assert seconds(unit["TimeoutStopSec"][0]) >= DRAIN_S + 2 * END_WITHIN_S


def test_configuration_errors_are_not_retried() -> None:
    unit = settings(UNIT)
    assert unit["Restart"] == ["on-failure"]
    assert unit["RestartPreventExitStatus"] == [str(MISTAKE)]


def test_restrictions_do_not_affect_spark() -> None:
    unit = settings(UNIT)
    for name in ("NoNewPrivileges", "PrivateTmp", "ProtectHome", "RestrictNamespaces", "LockPersonality"):
        assert unit[name] == ["yes"]
    assert unit["ProtectSystem"] == ["strict"]
    assert unit["CapabilityBoundingSet"] == [""]
    assert "MemoryDenyWriteExecute" not in unit  # the JVM compiles in memory
    assert "NoExecPaths" not in unit  # and unpacks native libraries in /tmp
    assert "ProcSubset" not in unit  # and reads /proc/meminfo and cgroups
    assert unit["SystemCallFilter"] == ["@system-service", "~@privileged"]
    assert {"AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK"} == set(unit["RestrictAddressFamilies"][0].split())


def test_environment_file_syntax() -> None:
    assert settings(UNIT)["EnvironmentFile"] == ["-/etc/mm2/mm2.env"]
    lines = [line for line in (SYSTEMD / "mm2.env").read_text("utf-8").splitlines() if line]
    assigned = [line.removeprefix("#") for line in lines if not line.startswith(("# ", "#  "))]
    assert [line.partition("=")[0] for line in assigned] == ["JAVA_HOME", "A_PASSWORD", "LANG"]


def test_user_is_created() -> None:
    (created,) = [
        line for line in (SYSTEMD / "mm2.sysusers").read_text("utf-8").splitlines() if not line.startswith("#")
    ]
    unit = settings(UNIT)
    assert unit["User"] == unit["Group"] == [created.split()[1]]


def test_unit_and_container_run_the_same_command() -> None:
    containerfile = (CONTAINER / "Containerfile").read_text("utf-8")
    assert settings(UNIT)["ExecStart"] == ["/opt/mm2/bin/mm2 run /etc/mm2/mm2.properties"]
    assert 'CMD ["run", "/etc/mm2/mm2.properties"]' in containerfile


@pytest.mark.needs("systemd-analyze")
def test_systemd_analyze_verify(tmp_path: Path) -> None:
    here = tmp_path / UNIT.name  # of an installed node: systemd checks that the command exists
    here.write_text(UNIT.read_text("utf-8").replace("/opt/mm2/bin/mm2", str(Path(sys.executable).with_name("mm2"))))
    verify = [command("systemd-analyze"), "verify", "--man=no", str(here)]
    completed = subprocess.run(verify, capture_output=True, text=True, check=False, timeout=60)
    complaints = [line for line in (completed.stdout + completed.stderr).splitlines() if UNIT.name in line]
    assert complaints == []
