"""System properties that Kafka's scripts would give to Java: the ``-Dname=value`` of the environment variable
KAFKA_OPTS (bin/kafka-run-class.sh)."""

from __future__ import annotations

import os
from pathlib import Path

JAAS_FILE = "java.security.auth.login.config"
KRB5_CONF = "java.security.krb5.conf"


def system_properties() -> dict[str, str]:
    """Return the properties of KAFKA_OPTS, the last value of each, and user.home."""
    words = os.environ.get("KAFKA_OPTS", "").split()
    given = (word.removeprefix("-D").partition("=") for word in words if word.startswith("-D"))
    return {"user.home": str(Path.home()), **{name: value for name, _, value in given}}


def file_of(name: str) -> Path | None:
    """Return the file that a property names; None if it is not set. A second = replaces Java's default instead of
    adding to it, of which we have none."""
    text = system_properties().get(name, "").removeprefix("=").removeprefix("file:")
    return Path(text) if text else None
