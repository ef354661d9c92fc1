"""Tickets in memory, obtained with the keys of a keytab or taken from a ticket cache."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import time
import weakref
from base64 import b64decode
from typing import Any

import gssapi

from mm2.core.settings.kerberos import KerberosLogin
from mm2.kafka.sasl import credential_files
from mm2.kafka.sasl.kerberos.gss_errors import KerberosError, expired, of_ticket
from mm2.kafka.sasl.kerberos.process_krb5_conf import PrivateFile

_NO_KEYS = "MEMORY:mm2-no-keys"
"""A keytab without keys: otherwise the library would use its default one when a ticket has expired."""

_numbers = itertools.count(1)


class Credentials:
    """A ticket-granting ticket in a cache of its own, which no other client of the process uses, and the tickets for
    services that are obtained with it. ``end``: when it expires, on the monotonic clock, in seconds."""

    def __init__(self, cache: str, principal: str) -> None:
        weakref.finalize(self, _destroy, cache)
        self.gss: Any = gssapi.Credentials(
            name=_name(principal), usage="initiate", store={"ccache": cache, "client_keytab": _NO_KEYS}
        )
        self.lifetime = float(self.gss.lifetime or 0)
        self.end = time.monotonic() + self.lifetime


def from_keytab(login: KerberosLogin) -> Credentials:
    """Return a new ticket from the KDC. Blocks for as long as the library waits for it. Raises KerberosError."""
    cache = _new_cache()
    with _errors(login.principal), PrivateFile(_keytab(login)) as keytab:
        store = {"ccache": cache, "client_keytab": f"FILE:{keytab.path}"}
        wanted = gssapi.Credentials(name=_name(login.principal), usage="initiate", store=store)
        wanted.inquire()  # obtains the ticket
        return Credentials(cache, login.principal)


def from_ticket_cache(content: bytes, principal: str) -> Credentials:
    """Return the ticket of a ticket cache. Raises KerberosError if it has expired, or is about to."""
    cache = _new_cache()
    with _errors(principal), PrivateFile(content) as file:
        store = {"ccache": f"FILE:{file.path}", "client_keytab": _NO_KEYS}
        found = gssapi.Credentials(name=_name(principal), usage="initiate", store=store)
        found.store(store={"ccache": cache}, usage="initiate", overwrite=True)
        credentials = Credentials(cache, principal)
    if credentials.lifetime < 1:
        raise expired(principal)
    return credentials


def text_of(error: gssapi.exceptions.GSSError) -> str:
    """Return what the library says, in one line."""
    words = error.get_all_statuses(error.min_code, False) or error.get_all_statuses(error.maj_code, True)
    return "; ".join(str(word.decode() if isinstance(word, bytes) else word) for word in words)


def _keytab(login: KerberosLogin) -> bytes:
    """Return the content of the keytab. Raises OSError."""
    if login.keytab_file is not None:
        return credential_files.read(login.keytab_file)
    assert login.keytab is not None, "the login has no keytab"
    return b64decode(login.keytab)


def _name(principal: str) -> Any:
    return gssapi.Name(principal, gssapi.NameType.kerberos_principal)


@contextlib.contextmanager
def _errors(principal: str) -> Any:
    try:
        yield
    except gssapi.exceptions.GSSError as error:
        raise of_ticket(error.maj_code, error.min_code, text_of(error), principal) from error
    except OSError as error:
        raise KerberosError(f"no ticket for {principal}: {error}") from error


def _new_cache() -> str:
    return f"MEMORY:mm2-{next(_numbers)}"


def _destroy(cache: str) -> None:
    """Free a cache in memory, which GSSAPI cannot: it would stay until the process ends."""
    with contextlib.suppress(OSError):  # another implementation of Kerberos: the cache stays
        library = ctypes.CDLL("libkrb5.so.3")
        context, handle = ctypes.c_void_p(), ctypes.c_void_p()
        if library.krb5_init_context(ctypes.byref(context)) == 0:
            if library.krb5_cc_resolve(context, cache.encode(), ctypes.byref(handle)) == 0:
                library.krb5_cc_destroy(context, handle)
            library.krb5_free_context(context)
