"""From a file with https listeners to answers on real sockets."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from mm2.config.settings import NodeSettings
from mm2.rest.cluster_view import ClusterView
from mm2.rest.listeners import Listener
from mm2.rest.peers import PeerError, PeerRequest, Peers
from mm2.rest.public import public_app
from mm2.rest.server import close_listeners, open_listeners
from tests.contract.certificates import caller_context, https_file, node_context
from tests.contract.nodes import PLAIN, rest_nodes
from tests.contract.samples import node
from tests.contract.test_status_command import mm2
from tests.lab.listeners import Authority

REFRESH = PeerRequest(method="POST", path=("mm2", "commands"), body=b'{"command":"refresh"}')


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@asynccontextmanager
async def serving(settings: NodeSettings) -> AsyncIterator[str]:
    """The URL of a node with these settings."""
    listeners = [Listener.parse(url) for url in settings.rest.listeners or ()]
    async with Peers(PLAIN) as peers:
        app = public_app(node, ClusterView(lambda _source, _target: None, peers), settings.listening)
        servers = await open_listeners(app, listeners, settings.listening.tls)
        try:
            yield servers[0].url
        finally:
            await close_listeners(servers)


async def status(url: str, authority: Authority, name: str | None = None) -> int:
    async with httpx.AsyncClient(trust_env=False, verify=caller_context(authority, name)) as client:
        return (await client.get(f"{url}/health/live")).status_code


async def test_a_node_on_https(authority: Authority, tmp_path: Path) -> None:
    async with serving(https_file(authority, tmp_path)) as url:
        assert url.startswith("https://")
        assert await status(url, authority) == 200
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await status(url, Authority())
        async with httpx.AsyncClient(trust_env=False) as client:
            with pytest.raises(httpx.RemoteProtocolError):
                await client.get(url.replace("https", "http"))


@asynccontextmanager
async def caller(settings: NodeSettings, authority: Authority) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a node with these settings."""
    async with serving(settings) as url:
        context = caller_context(authority)
        async with httpx.AsyncClient(base_url=url, trust_env=False, verify=context) as client:
            yield client


@pytest.mark.parametrize("asked", ["none", "requested", "required"])
async def test_certificates_of_callers(authority: Authority, tmp_path: Path, asked: str) -> None:
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
        async with httpx.AsyncClient(trust_env=False, verify=stranger) as client:
            if asked == "none":
                assert (await client.get(f"{url}/health/live")).status_code == 200
            else:
                with pytest.raises(httpx.HTTPError):
                    await client.get(f"{url}/health/live")


async def test_without_a_trust_store_the_system_says_who_is_trusted(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = https_file(authority, tmp_path, {"listeners.https.ssl.client.auth": "required"}, trust=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "truststore.pem"))
    async with serving(settings) as url:
        assert await status(url, authority, "ops") == 200
        with pytest.raises(httpx.HTTPError):
            await status(url, authority)


async def test_cipher_suites(authority: Authority, tmp_path: Path) -> None:
    """By Java's names; without one of TLS 1.3 that version is not spoken either."""
    older = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    modern = "TLS_AES_256_GCM_SHA384, TLS_AES_128_GCM_SHA256, TLS_CHACHA20_POLY1305_SHA256"
    for suites, version in ((older, "TLSv1.2"), (modern, "TLSv1.3"), (f"{older}, {modern}", "TLSv1.3")):
        settings = https_file(authority, tmp_path, {"listeners.https.ssl.cipher.suites": suites})
        async with caller(settings, authority) as client:
            answer = await client.get("/health/live")
            tls = answer.extensions["network_stream"].get_extra_info("ssl_object")
            assert tls.version() == version
            assert version == "TLSv1.3" or tls.cipher()[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"


async def test_an_idle_caller_does_not_hold_up_the_end(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with httpx.AsyncClient(trust_env=False, verify=caller_context(authority)) as client:
        async with serving(https_file(authority, tmp_path)) as url:
            assert (await client.get(f"{url}/health/live")).status_code == 200
            began = time.monotonic()
        assert time.monotonic() - began < 3  # else it is cut off after 5 s
    assert [record for record in caplog.records if record.name == "mm2.rest"] == []


async def test_versions_of_tls(authority: Authority, tmp_path: Path) -> None:
    settings = https_file(authority, tmp_path, {"listeners.https.ssl.enabled.protocols": "TLSv1.2"})
    async with serving(settings) as url:
        async with httpx.AsyncClient(trust_env=False, verify=caller_context(authority)) as client:
            answer = await client.get(f"{url}/health/live")
        assert answer.extensions["network_stream"].get_extra_info("ssl_object").version() == "TLSv1.2"


async def test_the_commands_of_a_file_trust_and_show_what_it_says(authority: Authority, tmp_path: Path) -> None:
    settings = https_file(authority, tmp_path, {"listeners.https.ssl.client.auth": "required"})
    async with serving(settings) as url:
        port = url.rpartition(":")[2]
        settings.path.write_text(settings.path.read_text().replace("127.0.0.1\\:0", f"127.0.0.1\\:{port}"))
        code, out, err = await mm2("status", str(settings.path))
        assert (code, err) == (0, "")
        assert "A->B  RUNNING" in out
        code, _, err = await mm2("status", url)
        assert code == 1
        assert "its certificate is not trusted. Point SSL_CERT_FILE at" in err
        trust = {"SSL_CERT_FILE": str(tmp_path / "truststore.pem")}
        code, _, err = await mm2("status", url, environment=trust)
        assert code == 1
        assert "it hung up. Does it want a certificate (ssl.client.auth)?" in err
        code, _, err = await mm2("status", url.replace("https", "http"))
        assert code == 1
        assert "it hung up. Is it an https listener?" in err


async def test_a_certificate_for_another_host(authority: Authority, tmp_path: Path) -> None:
    async with serving(https_file(authority, tmp_path, {"listeners": "https://0.0.0.0:0"})) as url:
        trust = {"SSL_CERT_FILE": str(tmp_path / "truststore.pem")}
        code, _, err = await mm2("status", url.replace("0.0.0.0", "127.0.0.2"), environment=trust)
        assert code == 1
        assert "its certificate is for another host" in err


async def test_nodes_call_each_other_with_the_certificate_of_their_listener(
    authority: Authority, tmp_path: Path
) -> None:
    settings = https_file(authority, tmp_path, {"listeners.https.ssl.client.auth": "required"})
    tls, context = settings.listening.tls, node_context(settings)
    async with rest_nodes(["leader", "follower"], tls=tls, context=context) as (leader, follower):
        leader.stand(leads=True)
        follower.stand(leader=leader)
        assert follower.standing.leader_url is not None
        assert follower.standing.leader_url.startswith("https://")
        answer = await leader.peers.ask(follower.server.url, leader.standing, REFRESH)
        assert b'"node":"leader"' in answer
        async with Peers() as stranger:
            with pytest.raises(PeerError, match=r"its certificate is not trusted: look at ssl\.truststore") as refused:
                await stranger.ask(leader.server.url, leader.standing, REFRESH)
        assert refused.value.retriable


async def test_headers_of_every_answer(authority: Authority, tmp_path: Path) -> None:
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


async def test_pages_of_other_origins(authority: Authority, tmp_path: Path) -> None:
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


async def test_without_the_keys_browsers_keep_answers_to_pages_of_our_own(authority: Authority, tmp_path: Path) -> None:
    async with caller(https_file(authority, tmp_path), authority) as client:
        answer = await client.get("/flows", headers={"Origin": "https://ops.example.org"})
        assert "Access-Control-Allow-Origin" not in answer.headers
        preflight = {"Origin": "https://ops.example.org", "Access-Control-Request-Method": "GET"}
        assert (await client.options("/flows", headers=preflight)).status_code == 405
