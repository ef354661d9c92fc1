"""A real standalone ZooKeeper server for tests, started in a second. Its jars are those of Kafka 3.9."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Self

from tests.lab import jars, jvm, scratch
from tests.lab.listeners import ServerPems
from tests.lab.ports import HOST, release_port, reserve_port
from tests.lab.processes import GRACE, LabProcess
from tests.lab.server import Server
from tests.lab.waiting import GaveUp, wait_until

READY = 60.0  # seconds: a start takes one on an idle machine
ANSWER = 1.0  # seconds for a response on the loopback address
TICK_MS = 500  # sessions last at least two ticks and expire at a tick

DEFAULTS = {
    "tickTime": str(TICK_MS),
    "maxSessionTimeout": "60000",
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "srvr",
    "maxClientCnxns": "0",
}
_SASL = {
    "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    "enforce.auth.enabled": "true",
    "enforce.auth.schemes": "sasl",
}


class ZooKeeperServer(Server):
    """A server with a port and data that stay the same across restarts; a context manager that stops it.

    With ``users`` (name to password) only they can connect, by SASL DIGEST-MD5. With ``tls`` it has a second port,
    `secure_address`, that requires client certificates of the same authority.
    """

    def __init__(
        self,
        name: str = "zookeeper",
        *,
        users: Mapping[str, str] | None = None,
        tls: ServerPems | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.directory = scratch.directory(name)
        self._users = dict(users or {})
        self._properties = dict(properties or {})
        self._port = reserve_port()
        self._tls = tls
        self._secure_port = reserve_port() if tls is not None else None
        self._process: LabProcess | None = None

    @property
    def address(self) -> str:
        return f"{HOST}:{self._port}"

    @property
    def secure_address(self) -> str:
        return f"{HOST}:{self._secure_port}"

    @property
    def process(self) -> LabProcess:
        """The running or last process. Raises RuntimeError before the first start."""
        if self._process is None:
            raise RuntimeError(f"{self.name} was never started")
        return self._process

    def start(self) -> Self:
        """Start it with its existing data and wait until it responds. Raises GaveUp with the end of its log."""
        settings = self.directory / "zoo.properties"
        known = {**DEFAULTS, **(_SASL if self._users else {}), **self._properties}
        known |= {
            "dataDir": str(self.directory / scratch.DATA),
            "clientPortAddress": HOST,
            "clientPort": str(self._port),
        }
        if self._tls is not None:
            known |= {
                "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
                "secureClientPort": str(self._secure_port),
                "secureClientPortAddress": HOST,
                "ssl.keyStore.location": str(self._tls.keystore),
                "ssl.trustStore.location": str(self._tls.truststore),
            }
        settings.write_text("".join(f"{key}={value}\n" for key, value in known.items()))
        self._process = LabProcess(
            self.name,
            (
                jvm.java(),
                "-Xmx128m",
                *jvm.QUICK_START,
                *jvm.log_options("warn"),
                *self._login(),
                *("-cp", jars.class_path(jars.KAFKA_3)),
                *("org.apache.zookeeper.server.ZooKeeperServerMain", str(settings)),
            ),
            self.directory / "zookeeper.log",
            cwd=self.directory,
        )
        wait_until(self._serves, READY, f"{self.name} serves on {self.address}")
        return self

    def stop(self, timeout: float = GRACE) -> None:
        self.process.stop(timeout)

    def close(self) -> None:
        """Stop it permanently and immediately, and release its port."""
        if self._process is not None:
            self._process.kill_group()
        release_port(self._port)
        if self._secure_port is not None:
            release_port(self._secure_port)

    def _login(self) -> tuple[str, ...]:
        if not self._users:
            return ()
        users = "\n".join(f'  user_{name}="{password}"' for name, password in self._users.items())
        file = self.directory / "jaas.conf"
        file.write_text(f"Server {{\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n{users};\n}};\n")
        return (f"-Djava.security.auth.login.config={file}",)

    def _serves(self) -> bool:
        if not self.process.running:
            raise GaveUp(f"{self.name} ended while starting\n{self.process.report()}")
        try:
            with socket.create_connection((HOST, self._port), ANSWER) as connection:
                connection.sendall(b"srvr")
                return connection.recv(64).startswith(b"Zookeeper version")
        except OSError:
            return False
