"""What programs take from their environment: where Java is, where a daemon writes, and a secret for commands."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

BEARER_VARIABLE = "MM2_REST_ADMIN_TOKEN"
"""Never on the command line, which everybody on the machine may read."""


class Environment(BaseSettings):
    """The variables Kafka's own scripts know, by their names there, and one of ours. An empty one counts as not set.

    ``java_home``: the Java that Spark runs on, else ``java`` on the PATH. ``log_dir``: the directory of a daemon's
    output, else the current one. ``rest_admin_token``: what a node named by its URL asks for before it takes a command.
    """

    model_config = SettingsConfigDict(env_ignore_empty=True, extra="ignore", frozen=True)

    java_home: Path | None = Field(default=None, validation_alias="JAVA_HOME")
    log_dir: Path | None = Field(default=None, validation_alias="LOG_DIR")
    rest_admin_token: str | None = Field(default=None, validation_alias=BEARER_VARIABLE, repr=False)
