"""krb5.conf of this process.

The C library reads the file that the environment variable KRB5_CONFIG names, so there is one for all logins: that of
the login that was used last. All logins of a node read the same file, so they differ only while a changed krb5.conf is
being applied.
"""

from __future__ import annotations

import os
import threading

from mm2.kafka.sasl.kerberos.private_files import PrivateFile

_FIRST = """\
[libdefaults]
  dns_canonicalize_hostname = false
  rdns = false
"""
"""Settings before those of the user, whom they override: a broker's principal contains its host name as Java
determines it (`mm2.kafka.sasl.kerberos.kerberos_tickets`)."""

_lock = threading.Lock()
_used: dict[str | None, PrivateFile] = {}


def use(krb5_conf: str | None) -> str:
    """Let the C library use this text, and return the path of the file. None: only the library's defaults.

    The variable is not changed in os.environ, from which the configuration is read. Files of earlier texts stay,
    because another thread may be reading them; they are small and few.
    """
    with _lock:
        file = _used.get(krb5_conf)
        if file is None:
            file = _used[krb5_conf] = PrivateFile(f"{_FIRST}{krb5_conf or ''}".encode())
        os.putenv("KRB5_CONFIG", file.path)
        return file.path
