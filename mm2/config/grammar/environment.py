"""Environment variables: the Java home, the log directory of a daemon, and the token for commands."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

BEARER_VARIABLE = "MM2_REST_ADMIN_TOKEN"
"""Not an option of the command line, which every user of the machine can read."""


class Environment(BaseSettings):
    """Variables of Kafka's own scripts, and one of ours. An empty variable counts as not set.

    ``java_home``: the Java that Spark runs on; default: ``java`` on the PATH. ``log_dir``: the directory of a daemon's
    output; default: the current directory. ``rest_admin_token``: the token for commands to a node given by its URL.
    """

    model_config = SettingsConfigDict(env_ignore_empty=True, extra="ignore", frozen=True)

    java_home: Path | None = Field(default=None, validation_alias="JAVA_HOME")
    log_dir: Path | None = Field(default=None, validation_alias="LOG_DIR")
    rest_admin_token: str | None = Field(default=None, validation_alias=BEARER_VARIABLE, repr=False)
