"""System properties that Kafka's scripts would give to Java: the ``-Dname=value`` of the environment variable
KAFKA_OPTS (bin/kafka-run-class.sh)."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

JAAS_FILE = "java.security.auth.login.config"
KRB5_CONF = "java.security.krb5.conf"
USER_HOME = "user.home"


def system_properties() -> dict[str, str]:
    """Return the properties of KAFKA_OPTS, the last value of each. Words can be quoted as in a shell."""
    text = os.environ.get("KAFKA_OPTS", "")
    try:
        words = shlex.split(text)
    except ValueError:  # quotes are not paired
        words = text.split()
    given = (word.removeprefix("-D").partition("=") for word in words if word.startswith("-D"))
    return {name: value for name, _, value in given}


def user_home() -> str | None:
    """Return the property user.home, by default the home directory of this user; None: there is none, for example
    because a container runs with a user ID that has no entry in /etc/passwd, and without HOME."""
    try:
        return system_properties().get(USER_HOME) or str(Path.home())
    except RuntimeError:
        return None


def file_of(name: str) -> Path | None:
    """Return the file that a property names; None if it is not set. A second = replaces Java's default instead of
    adding to it, of which we have none."""
    text = system_properties().get(name, "").removeprefix("=").removeprefix("file:")
    return Path(text) if text else None
