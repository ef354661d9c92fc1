"""Files of credentials in the orders of lanes on a cluster."""

from __future__ import annotations

from dataclasses import replace

from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.kerberos import KerberosLogin
from mm2.core.settings.oauth import (
    AssertionFile,
    ClientAssertionGrant,
    OAuthLogin,
    SecretGrant,
    TokenEndpoint,
    TokenFile,
    TokenSource,
    UnsecuredToken,
)
from mm2.core.settings.sasl import PasswordLogin, SaslLogin, SaslMechanism
from tests.unit.node.engine.lane_boards import CLIENT, new_board, source_task_lease

KERBEROS = KerberosLogin(
    service_name="kafka", principal="mm2@A", keytab_file="/etc/keytab", ticket_cache_file="/tmp/cache"
)
CONTENTS = {"/etc/keytab": "a2V5cw==", "/tmp/cache": "dGlja2V0", "/run/token": "dG9rZW4=", "/run/other": "b3RoZXI="}
MASTER = "spark://host:7077"


def oauth(source: TokenSource) -> OAuthLogin:
    return OAuthLogin(source=source)


def used(login: SaslLogin, *, cluster: str | None = MASTER) -> set[str]:
    board = new_board(cluster=cluster)
    client = replace(CLIENT, security_protocol=SecurityProtocol.SASL_PLAINTEXT, sasl=login)
    board.put(replace(source_task_lease(0), source=client))
    before = board.lane_orders(0).version
    board.use_credentials(CONTENTS)
    orders = board.lane_orders(0)
    assert (orders.version > before) is (cluster is not None)
    board.use_credentials(dict(CONTENTS))
    assert board.lane_orders(0).version == orders.version, "the same contents are not sent again"
    return set(orders.credentials)


def test_a_lane_gets_the_files_of_its_clients() -> None:
    endpoint = TokenEndpoint(url="https://idp", grant=SecretGrant(client_id="mm2", client_secret="s"))
    assertion = ClientAssertionGrant(client_id=None, assertion=AssertionFile(file="/run/other"))
    assert used(KERBEROS) == {"/etc/keytab", "/tmp/cache"}
    assert used(oauth(TokenFile(file="/run/token"))) == {"/run/token"}
    assert used(oauth(TokenFile(jwt="of a pipe"))) == set()
    assert used(oauth(replace(endpoint, grant=assertion))) == {"/run/other"}
    assert used(oauth(endpoint)) == set()
    assert used(oauth(UnsecuredToken(claims="{}"))) == set()
    assert used(PasswordLogin(mechanism=SaslMechanism.PLAIN, username="a", password="b")) == set()


def test_lanes_on_the_machine_of_the_node_read_them() -> None:
    assert used(KERBEROS, cluster=None) == set()


def test_new_contents_do_not_change_leases() -> None:
    board = new_board(cluster=MASTER)
    board.put(source_task_lease(0))
    board.use_credentials(CONTENTS)
    before = board.lane_orders(0)
    board.use_credentials({**CONTENTS, "/run/token": "bmV3"})
    now = board.lane_orders(0)
    assert now.version > before.version
    assert now.source_tasks == before.source_tasks
