"""Error messages for GSSAPI and Kerberos: from the codes of MIT's library to a likely cause and the key to check."""

from __future__ import annotations

from mm2.kafka.sasl.login import LoginFailed

SERVICE = "sasl.kerberos.service.name"

_BASE = -1765328384  # ERROR_TABLE_BASE_krb5: protocol errors have this plus their number in RFC 4120
_BITS = 1 << 32

_OF_TICKET = {
    _BASE + 1: "{principal} has expired in the KDC's database",
    _BASE + 6: "the KDC does not know the principal {principal}: check its name and realm",
    _BASE + 14: "the KDC supports none of the encryption types of {principal}: create the keytab again",
    _BASE + 18: "{principal} is locked in the KDC's database",
    _BASE + 23: "the password of {principal} has expired: change it, and create the keytab again",
    _BASE + 24: "the KDC rejects the key of {principal}: has its password changed? Create the keytab again",
    _BASE + 31: "the KDC rejects the key of {principal}: has its password changed? Create the keytab again",
    _BASE + 32: "the ticket of {principal} has expired: run kinit",
    _BASE + 37: "the clocks of this host and the KDC differ too much: synchronize them",
    -1765328236: "the clocks of this host and the KDC differ too much: synchronize them",  # KRB5_KDCREP_SKEW
    -1765328237: "the KDC rejects the key of {principal}: create the keytab again",  # KRB5_KDCREP_MODIFIED
    -1765328230: "no KDC of the realm is known: check krb5.conf (of {principal})",  # KRB5_REALM_UNKNOWN
    -1765328228: "no KDC answers for {principal}: is it running and reachable? Check krb5.conf",  # KRB5_KDC_UNREACH
    -1765328174: "the KDC rejects the key of {principal}: has its password changed? Create the keytab again",
    -1765328164: "no KDC of the realm can be resolved: check krb5.conf (of {principal})",  # KRB5_REALM_CANT_RESOLVE
    -1765328189: "there is neither a key nor a ticket of {principal}",  # KRB5_FCC_NOFILE
    -1765328203: "the keytab contains no key of {principal}",  # KRB5_KT_NOTFOUND
}
_OF_SERVICE = {
    **_OF_TICKET,
    _BASE + 7: "the KDC does not know the broker's principal {service}: check its name, and the broker's host name",
}
_EXPIRED = 11  # GSS_S_CREDENTIALS_EXPIRED >> 16

_LASTING = frozenset({_BASE + 1, _BASE + 6, _BASE + 18, _BASE + 23, _BASE + 24, _BASE + 31, -1765328174})
"""Errors that trying again with the same key does not mend, and which may lock the principal."""


class KerberosError(LoginFailed):
    """``is_lasting``: only another key, or a change in the KDC, helps."""

    def __init__(self, reason: str, key: str = "sasl.jaas.config", *, is_lasting: bool = False) -> None:
        super().__init__(reason, key)
        self.is_lasting = is_lasting


def of_ticket(major: int, minor: int, text: str, principal: str) -> KerberosError:
    """Return the error for a ticket of ``principal`` that cannot be obtained or used. ``major``, ``minor``: the status
    codes of GSSAPI (RFC 2744). ``text``: what the library says."""
    code = _signed(minor)
    words = _OF_TICKET[_BASE + 32] if _is_expired(major) else _OF_TICKET.get(code)
    if words is None:
        return KerberosError(f"no ticket for {principal}: {text}")
    return KerberosError(words.format(principal=principal), is_lasting=code in _LASTING)


def expired(principal: str) -> KerberosError:
    """Return the error for a ticket that has expired."""
    return KerberosError(_OF_TICKET[_BASE + 32].format(principal=principal))


def of_service(major: int, minor: int, text: str, principal: str, service: str) -> KerberosError:
    """Return the error for a ticket for ``service``, or an exchange with it. Other arguments: as for `of_ticket`."""
    code = _signed(minor)
    words = _OF_TICKET[_BASE + 32] if _is_expired(major) else _OF_SERVICE.get(code)
    if words is None:
        return KerberosError(f"no ticket of {principal} for {service}: {text}")
    return KerberosError(
        words.format(principal=principal, service=service), SERVICE if code == _BASE + 7 else "sasl.jaas.config"
    )


def _signed(minor: int) -> int:
    return minor - _BITS if minor >= _BITS // 2 else minor


def _is_expired(major: int) -> bool:
    return major >> 16 & 0xFF == _EXPIRED
