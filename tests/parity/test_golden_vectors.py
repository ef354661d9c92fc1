"""The golden files in tests/golden equal the output of Kafka's classes: the programs that wrote them run again."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.lab import jars, jvm
from tests.lab.commands import ROOT

GOLDEN = ROOT / "tests" / "golden"
PROGRAMS = sorted((GOLDEN / "java").glob("*Vectors.java"))
BEGINNING = f"java-{jars.KAFKA_4}"
# from a running MirrorMaker, which test_internal_records.py, test_ignored_keys.py and test_aliases.py run again
RECORDED = {f"{BEGINNING}-{name}.json" for name in ("internal-topics", "ignored-keys", "aliases")}
WITHIN = 120.0  # seconds for a compiler or a JVM; takes five on an idle machine
ENVIRONMENT = {"MM2_GOLDEN_HOST": "a.example.com", "MM2_GOLDEN_TASKS": "6"}  # variables that example files use

pytestmark = [pytest.mark.needs("javac"), pytest.mark.long]  # changes only with a new version of Kafka


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the output of all programs."""
    classes, written = tmp_path_factory.mktemp("classes"), tmp_path_factory.mktemp("answers")
    kafka = jars.class_path(jars.KAFKA_4)
    compile_all = [jvm.javac(), "-nowarn", "-encoding", "utf-8", "-cp", kafka, "-d", str(classes), *map(str, PROGRAMS)]
    subprocess.run(compile_all, check=True, timeout=WITHIN, capture_output=True)
    java = [jvm.java(), *jvm.QUICK_START, *jvm.log_options("error"), "-cp", os.pathsep.join((str(classes), kafka))]
    for program in PROGRAMS:
        main = f"org.apache.kafka.connect.mirror.{program.stem}"
        subprocess.run(
            [*java, main, str(written), BEGINNING],
            check=True,
            timeout=WITHIN,
            capture_output=True,
            cwd=GOLDEN / "config",
            env=os.environ | ENVIRONMENT,
        )
    return written


def test_every_golden_file_has_a_program(answers: Path) -> None:
    assert {path.name for path in answers.iterdir()} | RECORDED == {path.name for path in GOLDEN.glob("java-*.json")}


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.glob("java-*.json") if path.name not in RECORDED))
def test_golden_file_equals_java_output(answers: Path, name: str) -> None:
    assert (answers / name).read_text("utf-8") == (GOLDEN / name).read_text("utf-8")
