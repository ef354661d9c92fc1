"""Lanes in executors of a Spark cluster log in with OAUTHBEARER, and with a class of the user."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from tests.integration.security import two_clusters
from tests.lab import scratch
from tests.lab.identity_provider import IdentityProvider
from tests.lab.node import Node
from tests.lab.oauth import LISTENER, MODULE, oauth_client, oauth_cluster, oauth_login
from tests.lab.records import plain, write
from tests.lab.spark_cluster import SparkCluster
from tests.lab.token_file import TokenFile
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until

pytestmark = pytest.mark.timeout(300)  # two brokers, a Spark cluster and a node

SECRET = "sesame of the lanes"
RECORDS = 300
REPLACED_TOKEN_S = 10  # seconds of a token in the file: a lane gets a replaced one within five
RUNS = 120.0
COPIED = 60.0

PLUGIN = '''
from pathlib import Path

from mm2.core.plugins import LoginCallbackHandler, OAuthBearerToken


class FileTokens(LoginCallbackHandler):
    """A token in a file, which is read at each renewal."""

    def configure(self, properties, options):
        self.path = Path(options["path"])

    def token(self):
        value, expires_at = self.path.read_text().split()
        return OAuthBearerToken(value=value, expires_at_ms=int(expires_at) * 1000, principal_name="reader")
'''


@pytest.mark.long  # leases with secrets: test_secured_cluster.py; tokens: tests/integration/test_oauth_node.py
def test_lanes_obtain_tokens_themselves() -> None:
    """The target's tokens are valid for seconds, so lanes must renew them; the source's come from a user's class that
    executors import from --py-files. Another flow has the source's tokens from a file, which is replaced all the time:
    its lane gets them from the node, and does not restart."""
    directory = Path(scratch.directory("plugin"))
    (directory / "our_tokens.py").write_text(PLUGIN)
    with (
        IdentityProvider({"writer": SECRET}, lifetime=5) as provider,
        oauth_cluster("A", provider) as a,
        oauth_cluster("B", provider) as b,
        TokenFile(provider, "reader", lifetime=REPLACED_TOKEN_S, every=2.0) as token_file,
    ):
        token = provider.token("reader", lifetime=3_600)
        (directory / "token").write_text(f"{token} 4000000000")
        for topic in ("orders", "rotated"):
            a.create_topic(topic, 2)
            write(a.bootstrap, topic, plain(RECORDS, partitions=2), codec="lz4")
        of_file = {
            "bootstrap.servers": a.bootstrap_of(LISTENER.label),
            **oauth_login(),
            "sasl.oauthbearer.token.endpoint.url": f"file:{token_file.path}",
        }
        cluster = SparkCluster(workers=1).start()
        source = {
            "bootstrap.servers": a.bootstrap_of(LISTENER.label),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f'{MODULE} required path="{directory / "token"}";',
            "sasl.login.callback.handler.class": "our_tokens:FileTokens",
        }
        file = two_clusters(
            source,
            oauth_client(b, provider, "writer", SECRET),
            topics="orders",
            **{
                "clusters": "A, B, C",
                **{f"C.{key}": value for key, value in of_file.items()},
                "C->B.enabled": "true",
                "C->B.topics": "rotated",
                **cluster.application,
                "spark.submit.pyFiles": str(directory / "our_tokens.py"),
                "mm2.lanes": "1",
            },
        )
        with (
            contextlib.closing(cluster),
            Node(
                file,
                name="oauth-lanes",
                env={"PYTHONPATH": os.pathsep.join(filter(None, (str(directory), os.environ.get("PYTHONPATH"))))},
            ) as node,
        ):
            node.wait_running(RUNS)
            wait_until_copied((a.bootstrap, "orders"), (b.bootstrap, "A.orders"), COPIED)
            wait_until_copied((a.bootstrap, "rotated"), (b.bootstrap, "C.rotated"), COPIED)
            replaced = token_file.replaced
            wait_until(lambda: token_file.replaced > replaced + 6, COPIED, "all tokens are replaced")
            for topic, remote in (("orders", "A.orders"), ("rotated", "C.rotated")):
                write(a.bootstrap, topic, plain(RECORDS, partitions=2, first=RECORDS), codec="lz4")
                wait_until_copied((a.bootstrap, topic), (b.bootstrap, remote), COPIED)
            assert "restarting" not in node.process.output()
            logged = [log.read_text(errors="replace") for log in cluster.logs()]
            assert not [text for text in (*logged, node.process.output()) if SECRET in text or "eyJ" in text]
            assert node.stop() == 0
