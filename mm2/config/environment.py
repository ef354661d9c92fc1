"""What a node takes from its environment instead of its file: where Java is, and where a daemon writes."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Environment(BaseSettings):
    """The variables Kafka's own scripts know, by their names there. An empty one counts as not set.

    ``java_home``: the Java that Spark runs on, else ``java`` on the PATH. ``log_dir``: the directory of a daemon's
    output, else the current one.
    """

    model_config = SettingsConfigDict(env_ignore_empty=True, extra="ignore", frozen=True)

    java_home: Path | None = Field(default=None, validation_alias="JAVA_HOME")
    log_dir: Path | None = Field(default=None, validation_alias="LOG_DIR")
