"""Options of the login module for Kerberos: where the client's keys and tickets are.

The rules are those of com.sun.security.auth.module.Krb5LoginModule, and of IBM's module of that name.
"""

from __future__ import annotations

import getpass
from dataclasses import dataclass

from mm2.config.security.jaas import LoginModule
from mm2.config.security.kerberos.krb5_files import default_keytab, default_ticket_cache

SUN = "com.sun.security.auth.module.Krb5LoginModule"
IBM = "com.ibm.security.auth.module.Krb5LoginModule"
MODULES = (SUN, IBM)


class OptionsError(ValueError):
    """Java rejects these options. The message is a rule; ``fix`` is what to do."""

    def __init__(self, rule: str, fix: str) -> None:
        super().__init__(rule)
        self.fix = fix


@dataclass(frozen=True, slots=True, kw_only=True)
class Krb5Options:
    """``principal``: possibly without a realm; None: that of the ticket cache. ``keytab`` and ``ticket_cache``: paths;
    None: not used. ``own_cache``: the path is in the login module."""

    principal: str | None
    keytab: str | None
    ticket_cache: str | None
    own_cache: bool = False


def read_options(module: LoginModule, krb5_conf: str | None) -> Krb5Options:
    """Return the options of a login module. Raises OptionsError."""
    return _ibm(module.options, krb5_conf) if module.name == IBM else _sun(module.options, krb5_conf)


def _sun(options: dict[str, str], krb5_conf: str | None) -> Krb5Options:
    def enabled(name: str) -> bool:
        return options.get(name, "").lower() == "true"

    keytab, cache = enabled("useKeyTab"), enabled("useTicketCache")
    for option, switch in (("keyTab", "useKeyTab"), ("ticketCache", "useTicketCache")):
        if option in options and not enabled(switch):
            raise OptionsError(f"has {option}, which is not used without {switch}=true", f"add {switch}=true")
    if enabled("renewTGT") and not cache:
        raise OptionsError("has renewTGT=true, which requires useTicketCache=true", "remove renewTGT=true")
    if enabled("storeKey") and enabled("doNotPrompt") and not keytab:
        raise OptionsError("has storeKey=true, which requires useKeyTab=true", "remove storeKey=true")
    _require(keytab or cache)
    principal = options.get("principal")
    if keytab and not cache and not principal:
        principal = None if enabled("doNotPrompt") else _user()
        if principal is None:
            raise _without_principal()
    return Krb5Options(
        principal=principal or None,
        keytab=_path(options.get("keyTab") or _default_keytab("keyTab", krb5_conf)) if keytab else None,
        ticket_cache=_path(options.get("ticketCache") or default_ticket_cache()) if cache else None,
        own_cache="ticketCache" in options,
    )


def _ibm(options: dict[str, str], krb5_conf: str | None) -> Krb5Options:
    keytab, cache = options.get("useKeytab"), options.get("useCcache")
    if keytab is None and options.get("useDefaultKeytab", "").lower() == "true":
        keytab = _default_keytab("useKeytab", krb5_conf)
    own_cache = cache is not None
    if cache is None and options.get("useDefaultCcache", "").lower() == "true":
        cache = default_ticket_cache()
    _require(bool(keytab or cache))
    principal = options.get("principal")
    if not cache and not principal:
        raise _without_principal()
    return Krb5Options(
        principal=principal or None,
        keytab=_path(keytab) if keytab else None,
        ticket_cache=_path(cache) if cache else None,
        own_cache=own_cache,
    )


def _require(has_source: bool) -> None:
    if not has_source:
        raise OptionsError(
            "names neither a keytab nor a ticket cache: Java would ask for a password",
            'add useKeyTab=true keyTab="FILE" principal="NAME@REALM"',
        )


def _without_principal() -> OptionsError:
    return OptionsError("must have the option principal", 'add principal="NAME@REALM"')


def _user() -> str | None:
    """Return the answer of Kafka's DefaultLoginCallbackHandler to a login module without principal: the user of this
    process; None: its ID has no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # before Python 3.13, and since
        return None


def _default_keytab(option: str, krb5_conf: str | None) -> str:
    keytab = default_keytab(krb5_conf)
    if keytab is None:
        rule = f"must have the option {option}: krb5.conf has no default_keytab_name, and this user no home directory"
        raise OptionsError(rule, f'add {option}="FILE"')
    return keytab


def _path(text: str) -> str:
    """Return the path of a file without its type or scheme: ``FILE:``, ``file://``."""
    bare = text[9:] if text[:9].upper() == "ANY:FILE:" else text[5:] if text[:5].upper() == "FILE:" else text
    return "/" + bare.lstrip("/") if bare.startswith("//") else bare
