"""The JAAS file of KAFKA_OPTS, for clients without sasl.jaas.config."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from mm2.config.security import jaas
from mm2.config.security.java_options import JAAS_FILE, KRB5_CONF, file_of
from mm2.config.security.sasl_properties import read_jaas_file
from mm2.core.settings.oauth import OAuthLogin
from mm2.core.settings.sasl import PasswordLogin
from tests.unit.config import files

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
LINES = "A.security.protocol = SASL_SSL\nA.sasl.mechanism = PLAIN\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "jaas.conf"
    monkeypatch.setenv("KAFKA_OPTS", f"-Xmx1g -Djava.security.auth.login.config={path} -Dwho=alice")
    return path


def test_section_kafka_client(tmp_path: Path, file: Path) -> None:
    file.write_text(
        f'// of the broker\nKafkaServer {{\n  {PLAIN} required\n  user_a="}}";\n}};\n'
        f'KafkaClient {{\n  {PLAIN} required\n  username="${{who}}${{/}}x" password="p";\n}};\n'
    )
    found = files.flow(tmp_path, LINES).clients.source_consumer.sasl
    assert isinstance(found, PasswordLogin)
    assert (found.username, found.password) == ("alice/x", "p")


def test_home_directory(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is needed only where it is used: a user ID without a name and without HOME has none."""
    written = f'KafkaClient {{\n  {PLAIN} required\n  username="${{user.home}}" password="p";\n}};\n'
    file.write_text(written)
    monkeypatch.setenv("HOME", "/home/alice")
    assert read_jaas_file(file)[0].options["username"] == "/home/alice"
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    with pytest.raises(jaas.JaasError, match=r"uses the system property user\.home, which KAFKA_OPTS does not set"):
        read_jaas_file(file)
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={file} -Duser.home=/home/bob")
    assert read_jaas_file(file)[0].options["username"] == "/home/bob"
    monkeypatch.delenv("KAFKA_OPTS")
    own = f'A.sasl.jaas.config = {PLAIN} required username="bob" password="p";\n'
    assert files.flow(tmp_path, LINES + own).clients.source_consumer.sasl is not None


def test_sasl_jaas_config_comes_first(tmp_path: Path, file: Path) -> None:
    own = f'A.sasl.jaas.config = {PLAIN} required username="bob" password="p";\n'
    found = files.flow(tmp_path, LINES + own).clients.source_consumer.sasl
    assert found is not None
    assert found.user == "bob"


@pytest.mark.parametrize(
    ("text", "line", "rule"),
    [
        ("Client { X required; };", 1, "must have a section KafkaClient"),
        ("", 1, "must have a section KafkaClient"),
        ("\nKafkaClient {\n X required", 2, "must have sections of the form NAME { LOGIN MODULE; };"),
        ("\n{", 2, "must have sections of the form NAME { LOGIN MODULE; };"),
        ("A {\n}\nKafkaClient {};", 2, "must have a semicolon after the } of a section"),
        ("\nKafkaClient {\n};", 2, "must contain a login module"),
        ("KafkaClient {\n X required\n a=b\n};", 3, "must end with a semicolon"),
        ("KafkaClient {\n X required\n a=/b;\n};", 3, "must have matching quotes, and quotes around options with"),
        ("KafkaClient {\n X required\n a b c;\n};", 3, "must have options of the form name=value"),
        ("KafkaClient {\n X required;\n Y required;\n};", 2, "must have the login module of sasl.mechanism = PLAIN"),
        (f"KafkaClient {{\n {PLAIN} required;\n Y required\n}};", 3, "must end with a semicolon"),
        ("KafkaClient {\n X;\n};", 2, "must start with a login module followed by required"),
        ('KafkaClient {\n X required\n a="${b}";\n};', 2, "uses the system property b, which KAFKA_OPTS does not set"),
        (f"\nKafkaClient {{\n {PLAIN} required;\n}};", 3, "must have the options username and password"),
        ("KafkaClient {\n X required;\n};", 2, "must have the login module of sasl.mechanism = PLAIN"),
    ],
)
def test_errors_name_the_file_and_the_line(tmp_path: Path, file: Path, text: str, line: int, rule: str) -> None:
    file.write_text(text)
    (problem,) = files.loaded(tmp_path, LINES).problems
    assert (problem.file, problem.line, problem.key) == (str(file), line, "A.security.protocol")
    assert problem.rule.startswith(rule)
    assert problem.fix.endswith(f'KafkaClient {{\n    {PLAIN} required username="USER" password="PASSWORD";\n  }};')


@pytest.mark.parametrize(("content", "reason"), [(None, "No such file or directory"), (b"\xff", "it is not text")])
def test_unreadable_file(tmp_path: Path, file: Path, content: bytes | None, reason: str) -> None:
    if content is not None:
        file.write_bytes(content)
    (problem,) = files.loaded(tmp_path, LINES).problems
    assert (problem.file, problem.rule) == (str(file), f"cannot be read ({reason})")


def test_an_empty_section_name() -> None:
    with pytest.raises(jaas.JaasError, match="must have sections"):
        jaas.parse_section("KafkaClient", "KafkaClient")


OAUTH = "org.apache.kafka.common.security.oauthbearer"
TOKENS = (
    "A.security.protocol = SASL_SSL\nA.sasl.mechanism = OAUTHBEARER\n"
    f"A.sasl.login.callback.handler.class = {OAUTH}.OAuthBearerLoginCallbackHandler\n"
    "A.sasl.oauthbearer.token.endpoint.url = https://id.example.com/token\n"
)


def test_a_login_module_of_oauth(tmp_path: Path, file: Path) -> None:
    options = 'clientId="mm2" clientSecret="sesame" extension_logicalCluster="lkc"'
    file.write_text(f"KafkaClient {{\n  {OAUTH}.OAuthBearerLoginModule required {options};\n}};\n")
    found = files.flow(tmp_path, TOKENS).clients.source_consumer.sasl
    assert isinstance(found, OAuthLogin)
    assert found.user == "mm2"
    assert found.extensions == (("logicalCluster", "lkc"),)


def test_wrong_options_of_oauth(tmp_path: Path, file: Path) -> None:
    options = 'clientId="mm2" clientSecret="sesame" extension_auth="x" ssl.truststore.location="/nowhere.jks"'
    file.write_text(f"KafkaClient {{\n  {OAUTH}.OAuthBearerLoginModule required {options};\n}};\n")
    rules = " ".join(problem.rule for problem in files.loaded(tmp_path, TOKENS).problems)
    assert "option extension_auth: " in rules
    assert "cannot be read" in rules


def test_login_modules_of_several_mechanisms(tmp_path: Path, file: Path) -> None:
    file.write_text(f'KafkaClient {{\n  X required;\n  {PLAIN} required username="alice" password="p";\n}};\n')
    found = files.flow(tmp_path, LINES).clients.source_consumer.sasl
    assert found is not None
    assert found.user == "alice"


def test_quoted_paths_in_the_options_of_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_OPTS", f'-Dx=y "-D{JAAS_FILE}={tmp_path}/my jaas" -D{KRB5_CONF}="/my krb5"')
    assert (file_of(JAAS_FILE), file_of(KRB5_CONF)) == (tmp_path / "my jaas", Path("/my krb5"))
    monkeypatch.setenv("KAFKA_OPTS", f"-Dx='y -D{JAAS_FILE}=/jaas")  # as Java, if quotes are not paired
    assert file_of(JAAS_FILE) == Path("/jaas")
