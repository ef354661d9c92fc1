"""The files that logins are read from besides the properties file: the JAAS file, keytabs, ticket caches, krb5.conf."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from mm2.config.grammar.values import Value
from mm2.config.security import jaas
from mm2.config.security.jaas_file import jaas_file, read_jaas_file
from mm2.config.security.kerberos.krb5_files import Krb5ConfError, all_files, read_krb5_conf
from mm2.config.security.kerberos.krb5_module import MODULES, OptionsError, read_options

_PROTOCOL, _JAAS = "security.protocol", "sasl.jaas.config"


def login_files(properties: Mapping[str, Value]) -> frozenset[Path]:
    """Return the files of all clients with ``properties``, those of the whole file, including missing ones."""
    if not any(name.endswith(_PROTOCOL) and "SASL" in value.text.upper() for name, value in properties.items()):
        return frozenset()
    file = jaas_file()
    kerberos = [module for module in _modules(properties, file) if module.name in MODULES]
    found = set(_of_modules(kerberos))
    if kerberos:
        found |= all_files()
    return frozenset(found if file is None else found | {file})


def _modules(properties: Mapping[str, Value], file: Path | None) -> Iterator[jaas.LoginModule]:
    for name, value in properties.items():
        if name.endswith(_JAAS) and value.entry is not None and not value.entry.broken:
            try:
                yield jaas.parse(value.text)
            except jaas.JaasError:
                continue  # an error of the file
    if file is not None:
        try:
            yield from read_jaas_file(file)
        except jaas.JaasError:
            return  # the same


def _of_modules(modules: Iterable[jaas.LoginModule]) -> Iterator[Path]:
    for module in modules:
        try:
            options = read_options(module, _krb5_conf())
        except OptionsError:
            continue
        yield from (Path(path) for path in (options.keytab, options.ticket_cache) if path is not None)


def _krb5_conf() -> str | None:
    try:
        return read_krb5_conf()
    except Krb5ConfError:
        return None
