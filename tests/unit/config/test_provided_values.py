"""What a config provider returns is shown nowhere, whatever the key."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from mm2.cli.file.explain import explain_file
from mm2.config.grammar.properties import Entry
from mm2.config.reload.change_lines import changed_lines
from mm2.config.reload.comparison import compare
from mm2.config.reload.fingerprint import terms
from tests.unit.config.files import CLUSTERS, loaded, settings
from tests.unit.config.readings import read

PROVIDER = (
    "config.providers = env\n"
    "config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
)
SECRET = "open-sesame"


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MM2_TEST_SECRET", SECRET)


@pytest.mark.parametrize(
    "line",
    [
        "tasks.max = ${env:MM2_TEST_SECRET}",
        "A.rack = ${env:MM2_TEST_SECRET}",
        "A.bootstrap.servers = a:1,${env:MM2_TEST_SECRET}",
        "A.sasl.mechanism = ${env:MM2_TEST_SECRET}\nA.security.protocol = SASL_SSL",
        "A.security.protocol = SSL\nA.ssl.cipher.suites = ${env:MM2_TEST_SECRET}",
        "A.security.protocol = SSL\nA.ssl.truststore.location = /${env:MM2_TEST_SECRET}",
        "A->B.topics = [${env:MM2_TEST_SECRET}",
        "replication.policy.class = ${env:MM2_TEST_SECRET}",
        "mm2.election = ${env:MM2_TEST_SECRET}",
        "spark.master = ${env:MM2_TEST_SECRET}",
    ],
)
def test_errors_and_warnings(tmp_path: Path, line: str) -> None:
    result = loaded(tmp_path, f"{PROVIDER}{line}\n")
    assert result.problems
    assert SECRET not in "\n".join(map(str, result.problems))
    assert any("${env:MM2_TEST_SECRET}" in problem.headline for problem in result.problems)


@pytest.mark.parametrize("key", ["A.sasl.jass.config", "A.ssl.key.pasword", "A.ssl.keystore.kye"])
def test_a_misspelt_secret_is_hidden(tmp_path: Path, key: str) -> None:
    (problem,) = loaded(tmp_path, f"{key} = {SECRET}\n").problems
    assert problem.fix.startswith("did you mean A.s")
    assert problem.value == "[hidden]"


LINES = (
    PROVIDER
    + "A.client.id = ${env:MM2_TEST_SECRET}\ntopics.exclude = x.${env:MM2_TEST_SECRET}\n"
    + "spark.x = a-${env:MM2_TEST_SECRET}\n"
)


def test_explanations(tmp_path: Path) -> None:
    file, out = tmp_path / "mm2.properties", StringIO()
    file.write_text(CLUSTERS + LINES)
    assert explain_file(file, None, (), out) == 0
    assert SECRET not in out.getvalue()
    assert "x.${env:MM2_TEST_SECRET}" in out.getvalue()


def test_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = read(tmp_path, LINES)
    monkeypatch.setenv("MM2_TEST_SECRET", "simsim")
    lines = "\n".join(changed_lines(compare(before, read(tmp_path, LINES))))
    assert SECRET not in lines
    assert "simsim" not in lines
    assert "topics.exclude = x.${env:MM2_TEST_SECRET} (its config provider returns another value)" in lines


def test_published_settings(tmp_path: Path) -> None:
    """Those that nodes compare are in the topic mm2-configs."""
    reading = read(tmp_path, LINES)
    found = terms(reading, reading.settings.flows[0])
    assert SECRET not in str(found)
    assert found["topics.exclude"] == "x.${env:MM2_TEST_SECRET}"


def test_spark_settings_that_nobody_may_see(tmp_path: Path) -> None:
    found = settings(tmp_path, LINES + "spark.hadoop.fs.azure.account.key.store = x\nspark.y = z\n")
    assert found.spark["spark.x"] == f"a-{SECRET}"
    assert found.hidden_spark == {"spark.x", "spark.hadoop.fs.azure.account.key.store"}


def test_representation() -> None:
    entry = Entry(file="f", line=7, key="a", raw="${env:X}", value=SECRET)
    assert repr(entry) == "Entry(f:7 a = ${env:X})"


def test_short_texts_are_not_replaced_in_messages() -> None:
    """They protect nothing, and a message can contain them by chance."""
    entry = Entry(file="f", line=7, key="a", raw="${env:X}", value="1", provided=(("${env:X}", "1"),))
    assert entry.masked("must be at least 1") == "must be at least 1"
