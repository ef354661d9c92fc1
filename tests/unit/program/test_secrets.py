from __future__ import annotations

from pathlib import Path

import pytest

from mm2.config.load import load
from mm2.program.node_program import secrets_of


def test_secrets_of_spark_are_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MM2_OPTIONS", "-Dkey=provided-sesame")
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
        "config.providers = env\n"
        "config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
        "mm2.rest.admin.token = admin-sesame-0123\nmm2.rest.admin = true\nlisteners = http://127.0.0.1:0\n"
        "spark.authenticate.secret = spark-sesame\n"
        "spark.driver.extraJavaOptions = ${env:MM2_OPTIONS}\n"
        "spark.app.name = mirror\n"
    )
    settings = load(file).settings
    assert settings is not None
    assert secrets_of(settings) == {"admin-sesame-0123", "spark-sesame", "-Dkey=provided-sesame"}
