"""https listeners configured by a file, tested on real sockets."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore
from cryptography.x509 import load_pem_x509_certificate

from mm2.config.settings import NodeSettings
from mm2.rest.app import rest_app
from mm2.rest.internal.peers import PeerError, PeerRequest, Peers
from mm2.rest.server.listeners import Listener, ListenerError
from mm2.rest.server.server import RestServer, close_listeners, open_listeners
from mm2.rest.server.tls import RenewableContext
from tests.contract.certificates import caller_context, https_file, node_context
from tests.contract.nodes import PLAIN, TOKEN, rest_context, rest_nodes
from tests.contract.test_status_command import mm2
from tests.lab.commands import run
from tests.lab.listeners import Authority
from tests.lab.waiting import require_within

REFRESH = PeerRequest(method="POST", path=("mm2", "commands"), body=b'{"command":"refresh"}', token=TOKEN)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@asynccontextmanager
async def serving(settings: NodeSettings) -> AsyncIterator[str]:
    """Serve a node with these settings and return its URL."""
    listeners = [Listener.parse(url) for url in settings.rest.listeners or ()]
    async with Peers(PLAIN) as peers:
        app = rest_app(rest_context(peers), settings.listening)
        servers = await open_listeners(app, listeners, settings.listening.tls)
        try:
            yield servers[0].url
        finally:
            await close_listeners(servers)


async def status(url: str, authority: Authority, name: str | None = None) -> int:
    async with httpx.AsyncClient(timeout=30, trust_env=False, verify=caller_context(authority, name)) as client:
        return (await client.get(f"{url}/health/live")).status_code


async def test_https_listener(authority: Authority, tmp_path: Path) -> None:
    async with serving(https_file(authority, tmp_path)) as url:
        assert url.startswith("https://")
        assert await status(url, authority) == 200
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await status(url, Authority())
        async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
            with pytest.raises(httpx.RemoteProtocolError):
                await client.get(url.replace("https", "http"))


@asynccontextmanager
async def caller(settings: NodeSettings, authority: Authority) -> AsyncIterator[httpx.AsyncClient]:
    """Return an HTTP client of a node with these settings."""
    async with serving(settings) as url:
        context = caller_context(authority)
        async with httpx.AsyncClient(timeout=30, base_url=url, trust_env=False, verify=context) as client:
            yield client


@pytest.mark.parametrize("asked", ["none", "requested", "required"])
async def test_client_authentication(authority: Authority, tmp_path: Path, asked: str) -> None:
    settings = https_file(authority, tmp_path, {"listeners.https.ssl.client.auth": asked})
    async with serving(settings) as url:
        assert await status(url, authority, "ops") == 200
        if asked == "required":
            with pytest.raises(httpx.HTTPError):
                await status(url, authority)
        else:
            assert await status(url, authority) == 200
        stranger = caller_context(authority)
        Authority().configure(stranger, "ops")
        async with httpx.AsyncClient(timeout=30, trust_env=False, verify=stranger) as client:
            if asked == "none":
                assert (await client.get(f"{url}/health/live")).status_code == 200
            else:
                with pytest.raises(httpx.HTTPError):
                    await client.get(f"{url}/health/live")


async def test_javas_trust_store_is_the_default(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca = PKCS12Certificate(load_pem_x509_certificate(authority.ca_pem.encode()), b"ca")
    (tmp_path / "lib" / "security").mkdir(parents=True)
    (tmp_path / "lib" / "security" / "cacerts").write_bytes(
        serialize_java_truststore([ca], BestAvailableEncryption(b"changeit"))
    )
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    settings = https_file(authority, tmp_path, {"listeners.https.ssl.client.auth": "required"}, trust=False)
    async with serving(settings) as url:
        assert await status(url, authority, "ops") == 200
        with pytest.raises(httpx.HTTPError):
            await status(url, authority)


async def test_renewed_certificates_and_trust_apply_to_new_connections(authority: Authority, tmp_path: Path) -> None:
    """Without a restart, and in both directions: of the listener, and of calls to other nodes."""
    second = Authority()
    required = {"listeners.https.ssl.client.auth": "required"}
    before = https_file(authority, tmp_path, required).listening.tls
    after = https_file(second, tmp_path, required).listening.tls
    assert before is not None
    assert after is not None
    server = RestServer(rest_app(rest_context(Peers(PLAIN))), "127.0.0.1", tls=before)
    await server.start()
    try:
        assert await status(server.url, authority, "ops") == 200
        context = RenewableContext(caller_context(authority, "ops"))
        async with httpx.AsyncClient(timeout=30, trust_env=False, verify=context) as client:
            assert (await client.get(f"{server.url}/health/live")).status_code == 200
            server.renew(after)
            assert (await client.get(f"{server.url}/health/live")).status_code == 200, "an open connection continues"
        async with httpx.AsyncClient(timeout=30, trust_env=False, verify=context) as client:
            with pytest.raises(httpx.HTTPError):
                await client.get(f"{server.url}/health/live")
            context.renew(caller_context(second, "ops"))
            assert (await client.get(f"{server.url}/health/live")).status_code == 200
        with pytest.raises(ListenerError):
            server.renew(replace(after, tls=replace(after.tls, key_pem=before.tls.key_pem)))
        assert await status(server.url, second, "ops") == 200, "the former certificate is kept"
    finally:
        await server.stop()


async def test_cipher_suites(authority: Authority, tmp_path: Path) -> None:
    """Cipher suites have Java's names; TLS 1.3 is disabled if none of its suites is listed."""
    older = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    modern = "TLS_AES_256_GCM_SHA384, TLS_AES_128_GCM_SHA256, TLS_CHACHA20_POLY1305_SHA256"
    for suites, version in ((older, "TLSv1.2"), (modern, "TLSv1.3"), (f"{older}, {modern}", "TLSv1.3")):
        settings = https_file(authority, tmp_path, {"listeners.https.ssl.cipher.suites": suites})
        async with caller(settings, authority) as client:
            answer = await client.get("/health/live")
            tls = answer.extensions["network_stream"].get_extra_info("ssl_object")
            assert tls.version() == version
            assert version == "TLSv1.3" or tls.cipher()[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"


async def test_idle_connection_does_not_delay_shutdown(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with httpx.AsyncClient(timeout=30, trust_env=False, verify=caller_context(authority)) as client:
        async with serving(https_file(authority, tmp_path)) as url:
            assert (await client.get(f"{url}/health/live")).status_code == 200
            began = time.monotonic()
        took = time.monotonic() - began
        require_within(took, 3, "the idle connection is closed")  # it would be closed after 5 s anyway
    assert [record for record in caplog.records if record.name == "mm2.rest"] == []


async def test_versions_of_tls(authority: Authority, tmp_path: Path) -> None:
    settings = https_file(authority, tmp_path, {"listeners.https.ssl.enabled.protocols": "TLSv1.2"})
    async with serving(settings) as url:
        async with httpx.AsyncClient(timeout=30, trust_env=False, verify=caller_context(authority)) as client:
            answer = await client.get(f"{url}/health/live")
        assert answer.extensions["network_stream"].get_extra_info("ssl_object").version() == "TLSv1.2"


async def test_commands_use_the_trust_and_key_store_of_the_file(authority: Authority, tmp_path: Path) -> None:
    settings = https_file(authority, tmp_path, {"listeners.https.ssl.client.auth": "required"})
    async with serving(settings) as url:
        port = url.rpartition(":")[2]
        settings.path.write_text(settings.path.read_text().replace("127.0.0.1\\:0", f"127.0.0.1\\:{port}"))
        code, out, err = await mm2("status", str(settings.path))
        assert (code, err) == (0, "")
        assert "A->B  RUNNING" in out
        code, _, err = await mm2("status", url)
        assert code == 1
        assert "its certificate is not trusted. Set SSL_CERT_FILE to" in err
        trust = {"SSL_CERT_FILE": str(tmp_path / "truststore.pem")}
        code, _, err = await mm2("status", url, environment=trust)
        assert code == 1
        assert "connection closed. If the node requires a certificate (ssl.client.auth)" in err
        code, _, err = await mm2("status", url.replace("https", "http"))
        assert code == 1
        assert "connection closed. Is it an https listener?" in err


async def test_certificate_for_another_host_is_rejected(authority: Authority, tmp_path: Path) -> None:
    async with serving(https_file(authority, tmp_path, {"listeners": "https://0.0.0.0:0"})) as url:
        trust = {"SSL_CERT_FILE": str(tmp_path / "truststore.pem")}
        code, _, err = await mm2("status", url.replace("0.0.0.0", "127.0.0.2"), environment=trust)
        assert code == 1
        assert "its certificate is for another host name" in err


async def test_nodes_use_the_listener_certificate_for_internal_requests(authority: Authority, tmp_path: Path) -> None:
    settings = https_file(authority, tmp_path, {"listeners.https.ssl.client.auth": "required"})
    tls, context = settings.listening.tls, node_context(settings)
    async with rest_nodes(["leader", "follower"], tls=tls, context=context) as (leader, follower):
        leader.stand(leads=True)
        follower.stand(leader=leader)
        assert follower.leader_context.leader_url is not None
        assert follower.leader_context.leader_url.startswith("https://")
        answer = await leader.peers.ask(follower.server.url, leader.leader_context, REFRESH)
        assert b'"node":"leader"' in answer
        async with Peers() as stranger:
            with pytest.raises(PeerError, match=r"its certificate is not trusted: check ssl\.truststore") as caught:
                await stranger.ask(leader.server.url, leader.leader_context, REFRESH)
        assert caught.value.retriable


async def test_configured_response_headers(authority: Authority, tmp_path: Path) -> None:
    rules = 'set X-Frame-Options: DENY, "add Cache-Control: no-cache, no-store", set Content-Type: text/x, add X-A: 1,'
    rules += "add X-A: 2, set X-B: 1, set X-B: 2, setDate Expires: 86400000"
    settings = https_file(authority, tmp_path, {"response.http.headers.config": rules})
    async with caller(settings, authority) as client:
        for path, code in (("/health/live", 200), ("/nothing", 404)):
            answer = await client.get(path)
            assert answer.status_code == code
            assert answer.headers["X-Frame-Options"] == "DENY"
            assert answer.headers["Cache-Control"] == "no-cache, no-store"
            assert answer.headers["Content-Type"] == "application/json"
            assert answer.headers.get_list("X-A") == ["1", "2"]
            assert answer.headers.get_list("X-B") == ["2"]
            assert answer.headers["Expires"].endswith(" GMT")


async def test_cross_origin_requests(authority: Authority, tmp_path: Path) -> None:
    origins = {
        "access.control.allow.origin": r"https://[a-z]+\.example\.org",
        "access.control.allow.methods": "GET,PUT",
    }
    origin, stranger = "https://ops.example.org", "https://example.com"
    async with caller(https_file(authority, tmp_path, origins), authority) as client:
        answer = await client.get("/flows", headers={"Origin": origin})
        assert answer.headers["Access-Control-Allow-Origin"] == origin
        assert "Access-Control-Allow-Credentials" not in answer.headers
        assert "Origin" in answer.headers["Vary"]
        answer = await client.get("/flows", headers={"Origin": stranger})
        assert answer.status_code == 200
        assert "Access-Control-Allow-Origin" not in answer.headers

        async def preflight(origin: str, method: str) -> httpx.Response:
            headers = {"Origin": origin, "Access-Control-Request-Method": method}
            return await client.options("/flows", headers=headers)

        allowed = await preflight(origin, "PUT")
        assert allowed.status_code == 200
        assert allowed.headers["Access-Control-Allow-Methods"] == "GET, PUT"
        assert (await preflight(origin, "POST")).status_code == 400
        assert (await preflight(stranger, "GET")).status_code == 400


async def test_cross_origin_requests_are_not_allowed_by_default(authority: Authority, tmp_path: Path) -> None:
    async with caller(https_file(authority, tmp_path), authority) as client:
        answer = await client.get("/flows", headers={"Origin": "https://ops.example.org"})
        assert "Access-Control-Allow-Origin" not in answer.headers
        preflight = {"Origin": "https://ops.example.org", "Access-Control-Request-Method": "GET"}
        assert (await client.options("/flows", headers=preflight)).status_code == 405


def test_a_listener_without_its_key_store_is_worth_a_restart(tmp_path: Path) -> None:
    """Exit code 2 would keep process managers from restarting the node when the store is there."""
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = A, B\nA.bootstrap.servers = 127.0.0.1:1\nB.bootstrap.servers = 127.0.0.1:1\nA->B.enabled = true\n"
        "listeners = https://127.0.0.1:0\nssl.keystore.type = PEM\nssl.keystore.location = /none/me.pem\n"
    )
    outcome = run("mm2", "run", str(file))
    assert outcome.code == 1
    assert "ssl.keystore.location = /none/me.pem: cannot be read (No such file or directory)" in outcome.stderr
    assert "Traceback" not in outcome.stderr
