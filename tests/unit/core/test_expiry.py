"""What is said about certificates that end soon."""

from __future__ import annotations

import pytest

from mm2.core.expiry import (
    DAY_S,
    SOON_S,
    URGENT_S,
    Certificate,
    CertificateKind,
    CertificateStatus,
    expiry_warning,
    first_of_each_kind,
)

END = 1_798_761_600.0  # 2027-01-01
OWN, TRUSTED, BROKER, LISTENER = (
    CertificateKind.OWN,
    CertificateKind.TRUSTED,
    CertificateKind.BROKER,
    CertificateKind.LISTENER,
)


def status(kind: CertificateKind = BROKER, *, end: float = END, cluster: str = "A") -> CertificateStatus:
    return CertificateStatus(
        kind=kind, cluster=cluster, certificate=Certificate(expires_at=end, subject="CN=x"), broker="broker b:9093"
    )


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (
            OWN,
            "the client certificate for cluster A (CN=x) expires in 20 days, on 2027-01-01 00:00 UTC; replace it in"
            " A.ssl.keystore.location",
        ),
        (
            TRUSTED,
            "the trusted certificate CN=x, with which broker b:9093 of cluster A is verified, expires in 20 days, on"
            " 2027-01-01 00:00 UTC; add its successor to A.ssl.truststore.location",
        ),
        (
            BROKER,
            "the certificate of broker b:9093 of cluster A (CN=x) expires in 20 days, on 2027-01-01 00:00 UTC; renew it"
            " on the broker",
        ),
        (
            LISTENER,
            "the certificate of the node's listeners (CN=x) expires in 20 days, on 2027-01-01 00:00 UTC; replace it in"
            " listeners.https.ssl.keystore.location",
        ),
    ],
)
def test_each_kind_says_what_to_replace(kind: CertificateKind, text: str) -> None:
    warning = expiry_warning(status(kind), END - 20 * DAY_S - 1)
    assert warning is not None
    assert (warning.text, warning.cluster, warning.is_urgent) == (text, "A", False)


@pytest.mark.parametrize(
    ("left", "when", "is_urgent"),
    [
        (SOON_S, "expires in 30 days, on", False),
        (URGENT_S + 1, "expires in 7 days, on", False),
        (URGENT_S, "expires in 7 days, on", True),
        (2 * DAY_S - 1, "expires in 47 hours, on", True),
        (60, "expires in less than 2 hours, on", True),
        (0, "expired on", True),
        (-DAY_S, "expired on", True),
    ],
)
def test_it_is_more_urgent_the_nearer_the_end(left: float, when: str, is_urgent: bool) -> None:
    warning = expiry_warning(status(), END - left)
    assert warning is not None
    assert f"(CN=x) {when} 2027-01-01" in warning.text
    assert warning.is_urgent is is_urgent


def test_nothing_is_said_earlier() -> None:
    assert expiry_warning(status(), END - SOON_S - 1) is None


def test_the_first_of_each_cluster_and_kind() -> None:
    later = [status(end=END + 1), status(OWN, end=END + 1), status(end=END + 5, cluster="B")]
    first = [status(OWN), status(end=END - 1)]
    found = first_of_each_kind([*later, *first])
    assert [(one.cluster, one.kind, one.certificate.expires_at) for one in found] == [
        ("A", "broker", END - 1),
        ("A", "own", END),
        ("B", "broker", END + 5),
    ]
    assert first_of_each_kind([]) == ()
