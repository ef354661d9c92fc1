"""Random files: every problem is reported in the standard form, no exception is raised, and secrets stay hidden."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from mm2.cli.file.check import check_file
from mm2.cli.file.explain import explain_file
from mm2.config.clients import client_keys
from mm2.config.clients.ignored_client_keys import MISSED, POINTLESS, ClientKind
from mm2.config.keys import connector_keys, declaration, election_keys, node_keys, worker_keys
from mm2.config.security import security_keys

SECRET = "sesame-open"

MODELS: tuple[type[declaration.KeyModel], ...] = (
    *connector_keys.CONNECTORS,
    worker_keys.WorkerSettings,
    *security_keys.MODELS,
    client_keys.ConsumerKeys,
    client_keys.ProducerKeys,
    node_keys.FileSettings,
    node_keys.RestSettings,
    node_keys.OwnSettings,
    *election_keys.election_models(),
    node_keys.OwnFlowSettings,
)
NAMES = sorted(declaration.names(*MODELS) | {name for kind in ClientKind for name in (*POINTLESS[kind], *MISSED[kind])})
PLACES = ["", "A.", "B.", "A->B.", "B->A.", "A->A.", "A->C.", "A.consumer.", "B.producer.", "B.admin."]
PLACES += [
    "A->B.source.consumer.",
    "A->B.producer.override.",
    "A->B.producer.",
    "offset.storage.",
    "spark.",
    "consumer.",
]
WORDS = [
    "true",
    "false",
    "yes",
    "",
    " ",
    "0",
    "1",
    "-1",
    "9" * 40,
    "1.5",
    "all",
    "none",
    "source",
    "kafka",
    "zookeeper",
]
WORDS += [
    "SSL",
    "SASL_SSL",
    "SASL_PLAINTEXT",
    "PLAIN",
    "SCRAM-SHA-512",
    "GSSAPI",
    "PEM",
    "JKS",
    "https",
    "http://:80",
    "http://[",
]
WORDS += [
    "a:9092",
    "zstd",
    "${env:HOME}",
    "${env:NO_SUCH}",
    "${p:x}",
    "[a-z",
    "(" * 200,
    ".*,[a&&b]",
    r"\\Q",
    "a{9999}",
]
WORDS += [f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{SECRET}";']
WORDS += [r"\ud800", r"\u0000", r"\u12", "\\", "x\\", "é", "a,,b", "/no/such", "/", "."]

key_lines = st.builds(
    "{}{}={}".format,
    st.sampled_from(PLACES),
    st.sampled_from(NAMES),
    st.one_of(st.sampled_from(WORDS), st.text(st.characters(max_codepoint=255), max_size=12)),
)
secret_lines = st.builds(
    "{}{}={}".format,
    st.sampled_from(PLACES),
    st.sampled_from(["sasl.jaas.config", "ssl.key.password", "ssl.truststore.password", "ssl.keystore.key"]),
    st.just(SECRET),
)
any_lines = st.text(st.characters(max_codepoint=255), max_size=40).filter(lambda line: SECRET not in line)
START = ["clusters=A,B", "A.bootstrap.servers=a:1", "B.bootstrap.servers=b:1", "A->B.enabled=true"]
START += [
    "config.providers=env",
    "config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider",
]
files = st.builds(
    lambda start, lines: "\n".join([*start, *lines]),
    st.sampled_from([START, START[:3], START[:1], []]),
    st.lists(st.one_of(key_lines, secret_lines, any_lines), max_size=12),
)
STANDARD_FORM = re.compile(
    r"f\.properties(:\d+)?: (error|warning): [^\n]+|    fix: [^\n]+|         [^\n]+|ok: [^\n]+"
    r"|f\.properties: \d+ errors?, \d+ warnings?"
)


@given(content=files, clusters=st.sampled_from([(), ("B",), ("A", "x"), ("A,B",)]))
def test_every_file_gets_a_report(content: str, clusters: tuple[str, ...]) -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory, "f.properties")
        path.write_bytes(content.encode("iso-8859-1"))
        checked, explained = StringIO(), StringIO()
        code = check_file(path, clusters, checked)
        assert explain_file(path, None, clusters, explained) == code
    answer = checked.getvalue().replace(str(path), "f.properties")
    lines = answer.splitlines()
    assert lines
    assert all(STANDARD_FORM.fullmatch(line) for line in lines)
    has_errors = any(re.match(r"f\.properties(:\d+)?: error: ", line) for line in lines)
    assert code == (2 if has_errors else 0)
    assert lines[-1].startswith("f.properties: " if has_errors else "ok: ")
    assert SECRET not in answer + explained.getvalue()
    (answer + explained.getvalue()).encode("utf-8")
