"""How the settings of Spark get to its JVM: in files, as Java reads them."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import javaproperties
import pytest

from tests.lab import jvm

SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.extraJavaOptions": """-Dacme.key=sesame "-Dacme.more=a b\\\\c" -Dacme.quoted='"'""",
    "spark.hadoop.some:name": " with space and \\ and = and ü",
    "spark.driver.memory": "512m",
}

PROGRAM = """
import json, os, sys
from pathlib import Path
from flows.spark import context

def launch_gateway():
    directory = Path(os.environ["PYSPARK_SUBMIT_ARGS"].split()[1]).parent
    modes = lambda file: (file.stat().st_mode, directory.stat().st_mode)
    files = {str(file): (file.read_text(), *modes(file)) for file in directory.iterdir()}
    print(json.dumps({"files": files, "environment": dict(os.environ)}))

context.launch_gateway = launch_gateway
context._launch(json.loads(sys.stdin.read()))
"""


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    """What there is while the JVM starts, which a stand-in does not."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(SETTINGS),
        env={**os.environ, "SPARK_SUBMIT_OPTS": "-Dof.environment=1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return dict(json.loads(ended.stdout))


def test_nobody_else_can_read_the_files_and_they_are_removed(seen: dict[str, Any]) -> None:
    assert len(seen["files"]) == 2
    for name, (_, mode, of_directory) in seen["files"].items():
        assert stat.S_IMODE(mode) == 0o600
        assert stat.S_IMODE(of_directory) == 0o700
        assert not Path(name).exists()


def test_the_command_line_of_spark_has_no_setting(seen: dict[str, Any]) -> None:
    arguments = seen["environment"]["PYSPARK_SUBMIT_ARGS"].split()
    assert (arguments[0], *arguments[2:]) == ("--properties-file", "--load-spark-defaults", "pyspark-shell")
    assert arguments[1] in seen["files"]
    assert "SPARK_SUBMIT_OPTS" not in seen["environment"], "Spark would add it to the command line"


def test_java_reads_what_the_file_has(seen: dict[str, Any]) -> None:
    (text,) = (text for name, (text, *_) in seen["files"].items() if name.endswith("spark.properties"))
    read = javaproperties.loads(text)
    options = read.pop("spark.driver.extraJavaOptions")
    assert read == {name: value for name, value in SETTINGS.items() if name != "spark.driver.extraJavaOptions"}
    assert options.startswith("@")
    assert options[1:] in seen["files"]


def test_java_reads_its_options(seen: dict[str, Any], tmp_path: Path) -> None:
    (text,) = (text for name, (text, *_) in seen["files"].items() if name.endswith("java.options"))
    file = tmp_path / "java.options"
    file.write_text(text)
    shown = subprocess.run(
        [jvm.java(), f"@{file}", "-XshowSettings:properties", "-version"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    lines = {line.strip() for line in shown.stderr.splitlines()}
    assert lines >= {"acme.key = sesame", "acme.more = a b\\c", 'acme.quoted = "', "of.environment = 1"}
