from __future__ import annotations

import re

from mm2.config.load import PUBLIC_PATHS
from tests.contract.conftest import Serve
from tests.contract.samples import node


async def test_docs_list_every_operation_and_field(serve: Serve) -> None:
    client = await serve(node())
    page = (await client.get("/docs")).text
    description = (await client.get("/openapi.json")).json()
    asked_for = {
        f"/flows/{{source}}/{{target}}/{what}"
        for what in ("groups", "losses", "queries", "partitions/{topic}/{partition}")
    }  # the example has no flow
    probes = {"/health", "/health/live", "/health/ready"}
    posted = "/flows/{source}/{target}/translate"
    assert f"POST {posted}<" in page
    assert set(description["paths"]) == {*probes, "/flows", "/node", "/metrics", "/docs", posted, *asked_for}
    for path in description["paths"].keys() - {posted}:
        assert (f"GET {path}<" if path in asked_for else f">{path}</a>") in page
    for name, schema in description["components"]["schemas"].items():
        assert f'id="{name}"' in page
        for field in schema.get("properties", {}):
            assert f"<code>{field}</code>" in page


async def test_docs_load_no_external_resources(serve: Serve) -> None:
    page = (await (await serve(node())).get("/docs")).text
    assert "<script" not in page
    assert re.findall(r'(?:src|href)="(?:https?:)?//', page) == []


async def test_root_redirects_to_the_docs(serve: Serve) -> None:
    answer = await (await serve(node())).get("/", follow_redirects=True)
    assert (answer.status_code, answer.url.path) == (200, "/docs")


async def test_every_public_path_is_a_reserved_alias(serve: Serve) -> None:
    paths = (await (await serve(node())).get("/openapi.json")).json()["paths"]
    assert {path.split("/")[1] for path in paths} | {"openapi.json"} == set(PUBLIC_PATHS)
