"""The files of credentials that clients read again."""

from __future__ import annotations

import os
from base64 import b64encode
from pathlib import Path

import pytest

from mm2.core.settings.kerberos import KerberosLogin
from mm2.core.settings.oauth import AssertionFile, ClientAssertionGrant, OAuthLogin, TokenEndpoint, TokenFile
from mm2.core.settings.sasl import SaslLogin
from tests.unit.config.mirror1.files import settings
from tests.unit.config.security.kerberos.key_files import MM2, place  # noqa: F401 a fixture
from tests.unit.config.security.oauth.lines import OAUTH, jwt

LOGIN = (
    "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
    f"sasl.jaas.config={OAUTH}.OAuthBearerLoginModule required;\n"
    f"sasl.login.callback.handler.class={OAUTH}.OAuthBearerLoginCallbackHandler\n"
)


def login(directory: Path, lines: str) -> SaslLogin | None:
    return settings(directory, lines).consumers[0].client.login


@pytest.mark.usefixtures("place")
def test_a_keytab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true"
    lines = (
        "security.protocol=SASL_PLAINTEXT\nsasl.kerberos.service.name=kafka\n"
        f'sasl.jaas.config={module} keyTab="mm2.keytab" principal="{MM2}";\n'
    )
    monkeypatch.chdir(tmp_path)  # lanes run elsewhere
    found = login(tmp_path, lines)
    assert isinstance(found, KerberosLogin)
    assert found.keytab_file == f"{tmp_path}/mm2.keytab"


def test_a_keytab_from_a_pipe(place: Path, tmp_path: Path) -> None:  # noqa: F811 the fixture
    content = (place / "mm2.keytab").read_bytes()
    reading, writing = os.pipe()
    with open(reading), open(writing, "wb") as pipe:
        pipe.write(content)
        pipe.close()
        found = login(
            tmp_path,
            "security.protocol=SASL_PLAINTEXT\nsasl.kerberos.service.name=kafka\n"
            "sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
            f'keyTab="/dev/fd/{reading}" principal="{MM2}";\n',
        )
    assert isinstance(found, KerberosLogin)
    assert (found.keytab, found.keytab_file) == (b64encode(content).decode(), None)
    assert found.files == ()
    assert found.secrets == (found.keytab,)


def test_a_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(jwt())
    found = login(tmp_path, f"{LOGIN}sasl.oauthbearer.token.endpoint.url=file:{tmp_path}/token\n")
    assert isinstance(found, OAuthLogin)
    assert found.source == TokenFile(file=f"{tmp_path}/token")


def test_an_assertion_from_a_pipe(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with open(reading), open(writing, "w") as file:
        file.write(jwt())
        file.close()
        found = login(
            tmp_path,
            f"{LOGIN}sasl.oauthbearer.token.endpoint.url=https://idp.example.com\n"
            f"sasl.oauthbearer.assertion.file=/dev/fd/{reading}\n",
        )
    assert isinstance(found, OAuthLogin)
    assert isinstance(found.source, TokenEndpoint)
    assert found.source.grant == ClientAssertionGrant(client_id=None, assertion=AssertionFile(jwt=jwt()))
    assert found.files == ()


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with open(reading), open(writing, "w") as file:
        file.write(jwt())
        file.close()
        found = login(tmp_path, f"{LOGIN}sasl.oauthbearer.token.endpoint.url=file:/dev/fd/{reading}\n")
    assert isinstance(found, OAuthLogin)
    assert found.source == TokenFile(jwt=jwt())


def test_an_assertion(tmp_path: Path) -> None:
    (tmp_path / "assertion").write_text(jwt())
    lines = (
        f"{LOGIN}sasl.oauthbearer.token.endpoint.url=https://idp.example.com\n"
        f"sasl.oauthbearer.assertion.file={tmp_path}/assertion\n"
    )
    found = login(tmp_path, lines)
    assert isinstance(found, OAuthLogin)
    assert isinstance(found.source, TokenEndpoint)
    assertion = AssertionFile(file=f"{tmp_path}/assertion")
    assert found.source.grant == ClientAssertionGrant(client_id=None, assertion=assertion)
