"""A real MIT Kerberos KDC for tests: an unprivileged process with its own realm, database and krb5.conf."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from mm2.core.settings.client import SecurityProtocol
from tests.lab import class_data, scratch, tools
from tests.lab.jars import KAFKA_4
from tests.lab.listeners import Listener
from tests.lab.ports import HOST, port_answers, release_port, reserve_port
from tests.lab.processes import LabProcess
from tests.lab.server import Server
from tests.lab.waiting import GaveUp, wait_until

REALM = "MM2.TEST"
SERVICE = f"kafka/{socket.gethostbyaddr(HOST)[0]}"  # the principal of every broker of the lab: HOST by its name
FAKETIME = "/usr/$LIB/faketime/libfaketime.so.1"  # where Debian installs it; the dynamic linker replaces $LIB
LOGIN_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
READY = 30.0  # seconds: a start takes a tenth of one
COMMAND = 30.0  # seconds for a tool of Kerberos, which takes a tenth of one
MASTER_PASSWORD = "lab"  # of the database, which protects nothing


class Kdc(Server):
    """The KDC of `REALM`. A context manager that stops it.

    ``krb5_conf`` is the file for clients and brokers. Tickets live ``lifetime`` at most, and can be renewed until
    ``renewable`` (both as in kdc.conf: ``30s``, ``1h``).
    """

    def __init__(self, name: str = "kdc", *, lifetime: str = "1d", renewable: str = "7d") -> None:
        self.name = name
        self.directory = scratch.directory(name)
        self.krb5_conf = self.directory / "krb5.conf"
        self.port = reserve_port()
        self._data = self.directory / scratch.DATA
        self._data.mkdir()
        self._profile = self.directory / "kdc.conf"
        self._process: LabProcess | None = None
        self._profile.write_text(_kdc_conf(self._data, self.port, lifetime, renewable))
        self.krb5_conf.write_text(self.client_conf())

    def client_conf(self, **defaults: str) -> str:
        """Return the text of krb5.conf, with ``defaults`` among the libdefaults."""
        lines = "".join(f"  {key} = {value}\n" for key, value in defaults.items())
        return (
            f"[libdefaults]\n  default_realm = {REALM}\n  dns_lookup_kdc = false\n{lines}"
            f"[realms]\n  {REALM} = {{\n    kdc = {HOST}:{self.port}\n  }}\n"
        )

    @property
    def env(self) -> Mapping[str, str]:
        """The environment of the programs of Kerberos."""
        path = f"{os.environ.get('PATH', '')}:{tools.SBIN}"
        own = {"KRB5_CONFIG": str(self.krb5_conf), "KRB5_KDC_PROFILE": str(self._profile), "PATH": path}
        return {**os.environ, **own}

    @property
    def java_options(self) -> tuple[str, ...]:
        """Options of a JVM that uses this KDC."""
        return (f"-Djava.security.krb5.conf={self.krb5_conf}",)

    @property
    def process(self) -> LabProcess:
        """The running or last process. Raises RuntimeError before the first start."""
        if self._process is None:
            raise RuntimeError(f"{self.name} was never started")
        return self._process

    def start(self) -> Self:
        """Create the database and start the KDC."""
        self._run("kdb5_util", "create", "-s", "-W", "-r", REALM, "-P", MASTER_PASSWORD)
        self.resume()
        return self

    def resume(self, *, clock: str | None = None) -> None:
        """Start it with its existing database. ``clock``: the offset of its clock, as faketime takes it (``+600s``)."""
        # Without the command faketime, which would be the parent of the KDC and end without it.
        faked = {} if clock is None else {"LD_PRELOAD": FAKETIME, "FAKETIME": clock}
        command = (tools.command("krb5kdc"), "-n", "-r", REALM)
        log = self.directory / "kdc.log"
        self._process = LabProcess(self.name, command, log, cwd=self.directory, env={**self.env, **faked})
        wait_until(self._serves, READY, f"{self.name} serves on port {self.port}")

    def stop(self) -> None:
        """Stop it: it is unreachable until `resume`."""
        self.process.stop()
        self._remove_shared_memory()

    def close(self) -> None:
        """Stop it permanently and immediately, and release its port."""
        if self._process is not None:
            self._process.kill_group()
            self._remove_shared_memory()
        release_port(self.port)

    def add(self, *principals: str, options: str = "") -> None:
        """Create principals with random keys, unless they exist: a test that is repeated shares the KDC."""
        known = self._run("kadmin.local", "-r", REALM, input="listprincs").split()
        new = [principal for principal in principals if f"{principal}@{REALM}" not in known]
        self._admin(*(f"addprinc -randkey {options} {principal}" for principal in new))

    def delete(self, principal: str) -> None:
        """Remove a principal."""
        self._admin(f"delprinc -force {principal}")

    @cached_property
    def service_keytab(self) -> Path:
        """The keytab of all brokers."""
        self.add(SERVICE)
        return self.keytab(SERVICE)

    def keytab(self, *principals: str, file: Path | None = None) -> Path:
        """Return a keytab with new keys of ``principals``: earlier keytabs of them are no longer valid. An existing
        ``file`` is replaced by rename."""
        part = self.directory / f"{len(list(self.directory.iterdir()))}.keytab"
        self._admin(*(f"ktadd -q -k {part} {principal}" for principal in principals))
        if file is None:
            return part
        return part.rename(file)

    def kinit(self, keytab: Path, principal: str, cache: Path, *options: str) -> Path:
        """Put a ticket into the file ``cache``, which is replaced by rename, and return it."""
        part = cache.with_suffix(".new")
        self._run("kinit", "-c", str(part), "-k", "-t", str(keytab), *options, principal)
        return part.rename(cache)

    def broker(self, listener: str, **properties: str) -> dict[str, Any]:
        """Return arguments of a `KafkaCluster` whose ``listener`` has GSSAPI, with more server ``properties``."""
        prefix = f"listener.name.{listener.lower()}"
        module = (
            f"{LOGIN_MODULE} required useKeyTab=true storeKey=true isInitiator=false "
            f'keyTab="{self.service_keytab}" principal="{SERVICE}@{REALM}";'
        )
        own = {
            f"{prefix}.sasl.enabled.mechanisms": "GSSAPI",
            f"{prefix}.gssapi.sasl.jaas.config": module,
            f"{prefix}.sasl.kerberos.service.name": "kafka",
        }
        listeners = (Listener(protocol=SecurityProtocol(listener)),)
        java_options = (*class_data.options(KAFKA_4), *self.java_options)
        return {"listeners": listeners, "properties": {**own, **properties}, "java_options": java_options}

    def _admin(self, *queries: str) -> None:
        output = self._run("kadmin.local", "-r", REALM, input="\n".join(queries))
        if "while" in output:  # it exits with 0 after an error, such as "Principal does not exist while …"
            raise RuntimeError(f"kadmin.local: {output}")

    def _run(self, program: str, *arguments: str, input: str | None = None) -> str:
        path = shutil.which(program, path=self.env["PATH"])
        assert path is not None, tools.REASONS["krb5kdc"]
        done = subprocess.run(
            [path, *arguments],
            env=self.env,
            input=input,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{program} {' '.join(arguments)}: {done.stdout}")
        return done.stdout

    def _remove_shared_memory(self) -> None:
        """Remove what faketime leaves behind when its process ends by a signal."""
        for name in ("faketime_shm", "sem.faketime_sem"):
            Path(f"/dev/shm/{name}_{self.process.pid}").unlink(missing_ok=True)

    def _serves(self) -> bool:
        if not self.process.running:
            raise GaveUp(f"{self.name} ended while starting\n{self.process.report()}")
        return port_answers(self.port)


def _kdc_conf(data: Path, port: int, lifetime: str, renewable: str) -> str:
    return (
        f"[kdcdefaults]\n  kdc_listen = {HOST}:{port}\n  kdc_tcp_listen = {HOST}:{port}\n"
        f"[realms]\n  {REALM} = {{\n"
        f"    database_name = {data}/principal\n    key_stash_file = {data}/stash\n    acl_file = {data}/acl\n"
        f"    max_life = {lifetime}\n    max_renewable_life = {renewable}\n"
        "    supported_enctypes = aes256-cts-hmac-sha1-96:normal\n  }\n"
        f"[logging]\n  kdc = STDERR\n"
    )
