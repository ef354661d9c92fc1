"""Logins with Kerberos: sasl.mechanism GSSAPI. Keytabs, ticket caches and krb5.conf are read here, so that lanes
receive their contents."""

from __future__ import annotations

import os
import stat
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from mm2.config.grammar.problems import to_copy
from mm2.config.keys import declaration
from mm2.config.security.jaas import LoginModule
from mm2.config.security.kerberos.keys import KerberosKeys
from mm2.config.security.kerberos.krb5_files import Krb5ConfError, read_krb5_conf
from mm2.config.security.kerberos.krb5_module import IBM, MODULES, SUN, Krb5Options, OptionsError, read_options
from mm2.config.security.property_names import sibling
from mm2.config.security.sasl_properties import JAAS, SaslProperties
from mm2.core.kerberos.krb5_conf import libdefault
from mm2.core.kerberos.ticket_cache import Reader, TicketCache, read_ticket_cache
from mm2.core.settings.kerberos import KerberosLogin, TicketRenewal
from mm2.core.wire.formats import FormatError

_MAGIC = b"\x05\x02"


def principals(content: bytes) -> tuple[str, ...]:
    """Return the names of the principals of a keytab, such as ``mm2/host@REALM``, each once. Raises FormatError."""
    if not content.startswith(_MAGIC):
        raise FormatError("is not a keytab")
    return tuple(dict.fromkeys(_entries(Reader(content, len(_MAGIC)))))


def _entries(reader: Reader) -> Iterator[str]:
    while not reader.at_end:
        size = reader.number(4, signed=True)
        entry = Reader(reader.take(abs(size)))
        if size > 0:
            components = entry.number(2)
            realm = entry.text(2)
            yield "/".join(entry.text(2) for _ in range(components)) + f"@{realm}"


_EXAMPLE = f'{SUN} required useKeyTab=true storeKey=true keyTab="FILE" principal="NAME@REALM";'
_INSTALL = "pip install --require-hashes -r requirements-kerberos.lock"
_SERVICE = "sasl.kerberos.service.name"
_FILE_TYPES = ("KCM:", "KEYRING:", "DIR:", "API:", "MEMORY:", "MSLSA:")


class _Refused(Exception):
    """An error has been added to the problems."""


def read_kerberos_login(sasl: SaslProperties) -> KerberosLogin | None:
    """Return the principal of the login module with its keys and tickets; None after an error."""
    keys = declaration.read(KerberosKeys, sasl.properties, sasl.problems)
    module = sasl.login_module(MODULES, _EXAMPLE, "FILE and NAME@REALM")
    if module is None:
        return None
    try:
        return _Reader(sasl, keys, module).login()
    except _Refused:
        return None


@dataclass(frozen=True, slots=True)
class _Reader:
    sasl: SaslProperties
    keys: KerberosKeys
    module: LoginModule

    def login(self) -> KerberosLogin:
        service = self._service()
        krb5_conf = self._krb5_conf()
        try:
            options = read_options(self.module, krb5_conf)
        except OptionsError as error:
            raise self._refused(str(error), error.fix) from error
        wanted = None if options.principal is None else self._with_realm(options.principal, krb5_conf)
        cache = self._ticket_cache(options, wanted)
        principal = wanted or (cache.principal if cache is not None else None)
        if principal is None:
            raise self._refused("must have the option principal", 'add principal="NAME@REALM"')
        keytab = self._keytab(options.keytab, principal, is_needed=cache is None)
        keytab_file = self._reread(options.keytab, keytab)
        self._require_gssapi()
        return KerberosLogin(
            service_name=service,
            principal=principal,
            keytab=None if keytab is None or keytab_file is not None else b64encode(keytab).decode(),
            keytab_file=keytab_file,
            ticket_cache_file=self._reread(options.ticket_cache, None if cache is None else cache.content),
            krb5_conf=krb5_conf,
            renewal=TicketRenewal(
                window_factor=self.keys.window_factor,
                jitter=self.keys.jitter,
                min_seconds=self.keys.min_time_before_relogin / 1000,
                kinit=self.keys.kinit_cmd,
            ),
        )

    def _reread(self, path: str | None, content: bytes | None) -> str | None:
        """Return the file that is read again for each ticket; None without ``content``, or if it is no regular file."""
        return None if path is None or content is None else self.sasl.reread_file(path, content)

    def _refused(self, rule: str, fix: str, *, is_temporary: bool = False) -> _Refused:
        self.sasl.refuse_login(rule, fix, line=self.module.line, is_temporary=is_temporary)
        return _Refused()

    def _service(self) -> str:
        """Return the service's name (KerberosLogin.getServiceName)."""
        of_module, of_file = self.module.options.get("serviceName"), self.keys.service_name
        if of_module is not None and of_file is not None and of_module != of_file:
            self.sasl.properties[_SERVICE].refuse(
                self.sasl.problems,
                f"conflicts with serviceName={of_module} of the login module",
                "remove one of them; both must be the first part of the brokers' principals",
            )
            raise _Refused
        name = of_module or of_file
        if not name:
            near = JAAS if JAAS in self.sasl.properties else "security.protocol"
            key = sibling(self.sasl.properties[near], near, _SERVICE)
            rule = f"requires {key}, which is not set, or the option serviceName of the login module"
            self.sasl.properties[near].refuse(
                self.sasl.problems,
                rule,
                f"add the first part of the brokers' principals, kafka in most clusters:{to_copy(f'{key} = kafka')}",
            )
            raise _Refused
        return name

    def _krb5_conf(self) -> str | None:
        try:
            return read_krb5_conf()
        except Krb5ConfError as error:
            self.sasl.refuse_content(
                "security.protocol",
                str(error),
                "correct -Djava.security.krb5.conf in KAFKA_OPTS, or the environment variable KRB5_CONFIG, "
                "or let this user read the file",
            )
            raise _Refused from error

    def _with_realm(self, principal: str, krb5_conf: str | None) -> str:
        if "@" in principal:
            return principal
        realm = libdefault(krb5_conf or "", "default_realm")
        if realm is None:
            raise self._refused(
                f"has principal {principal} without a realm, and krb5.conf has no default_realm",
                f'write principal="{principal}@REALM"',
            )
        return f"{principal}@{realm}"

    def _keytab(self, path: str | None, principal: str, *, is_needed: bool) -> bytes | None:
        """Return the content of the keytab; None if there is none, and none ``is_needed`` because of a ticket."""
        if path is None:
            return None
        try:
            content = Path(path).read_bytes()
            found = principals(content)
        except (OSError, ValueError) as error:
            if not is_needed and isinstance(error, FileNotFoundError):
                return None
            reason = f"cannot be read ({error.strerror})" if isinstance(error, OSError) else str(error)
            raise self._refused(
                f"names the keytab {path}, which {reason}",
                "give the path of a keytab that this user can read",
                is_temporary=True,
            ) from error
        if principal not in found:
            contains = ", ".join(found) or "no principal"
            raise self._refused(
                f"names the keytab {path}, which contains no key of {principal} but {contains}",
                "correct the principal, or create the keytab for it",
                is_temporary=True,
            )
        return content

    def _ticket_cache(self, options: Krb5Options, principal: str | None) -> TicketCache | None:
        """Return the ticket cache; None if none is used, or if there is none but a keytab."""
        path = options.ticket_cache
        if path is None:
            return None
        option = "useCcache" if self.module.name == IBM else "useTicketCache=true"
        try:
            return _cache_of(path, principal)
        except (OSError, ValueError) as error:
            if options.keytab is not None:
                return None
            reason = f"cannot be read ({error.strerror})" if isinstance(error, OSError) else str(error)
            who = principal or "NAME@REALM"
            raise self._refused(
                f"has {option}, but ticket cache {path} {reason}",
                f"run kinit as the user of this program:{to_copy(f'kinit -c {_file(path)} {who}')}"
                + ("" if options.own_cache else f'\nand add ticketCache="{_file(path)}"'),
                is_temporary=True,
            ) from error

    def _require_gssapi(self) -> None:
        if find_spec("gssapi") is not None:
            return
        near = "sasl.mechanism" if "sasl.mechanism" in self.sasl.properties else "security.protocol"
        self.sasl.properties[near].refuse(
            self.sasl.problems,
            "GSSAPI requires the Python package gssapi, which is not installed",
            "it is built from source: install a C compiler and the headers of MIT Kerberos (on Debian: gcc and "
            f"libkrb5-dev), and run in the checkout of mm2:{to_copy(_INSTALL)}",
        )
        raise _Refused


def _file(path: str) -> str:
    return "FILE" if path.upper().startswith(_FILE_TYPES) else path


def _cache_of(path: str, principal: str | None) -> TicketCache:
    """Return the cache with the ticket of ``principal``. Raises OSError and ValueError, which continues the path."""
    if path.upper().startswith(_FILE_TYPES) or not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError("is not a file, which Java requires too")
    cache = read_ticket_cache(Path(path).read_bytes())
    if principal is not None and cache.principal != principal:
        raise ValueError(f"contains the ticket of {cache.principal}, not of {principal}")
    return cache
