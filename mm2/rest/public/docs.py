"""GET /docs: the OpenAPI description as one plain HTML page.

The page has no scripts and loads nothing from other hosts: FastAPI's own pages load scripts from a CDN, and a bundled
copy would be a megabyte of JavaScript to keep patched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from mm2.rest.endpoint import Endpoint, RestContext

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
h2,h3{margin:1.6rem 0 .3rem} code,.path{font-family:ui-monospace,monospace} .path{font-weight:600}
table{border-collapse:collapse;width:100%} th,td{text-align:left;vertical-align:top;padding:.25rem .8rem .25rem 0}
tr{border-bottom:1px solid #ddd} p{margin:.3rem 0}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}a{color:#8bf}tr{border-color:#444}}
"""


def docs_page(openapi: Mapping[str, Any]) -> str:
    """Return an HTML document for an OpenAPI 3 description."""
    info = openapi["info"]
    title = f"{info['title']} {info['version']}"
    body = "\n".join(
        (
            f"<h1>{escape(title)}</h1>",
            f"<p>{escape(info.get('description', ''))}</p>",
            '<p>For programs: <a href="openapi.json">openapi.json</a></p>',
            "<h2>Operations</h2>",
            *_operations(openapi["paths"]),
            "<h2>Responses</h2>",
            *_schemas(openapi.get("components", {}).get("schemas", {})),
        )
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )


def _operations(paths: Mapping[str, Any]) -> Iterator[str]:
    for path, operations in paths.items():
        for method, operation in operations.items():
            link = escape(path) if "{" in path else f'<a href="{escape(path.lstrip("/"))}">{escape(path)}</a>'
            yield f'<h3><span class="path">{escape(method.upper())} {link}</span></h3>'
            yield f"<p>{escape(operation.get('summary', ''))}</p><p>{escape(operation.get('description', ''))}</p>"
            yield "<table><tr><th>status</th><th>response</th><th></th></tr>"
            for code, response in operation["responses"].items():
                yield (
                    f"<tr><td>{escape(code)}</td><td>{_content(response.get('content', {}))}</td>"
                    f"<td>{escape(response.get('description', ''))}</td></tr>"
                )
            yield "</table>"


def _content(content: Mapping[str, Any]) -> str:
    return "<br>".join(_type(body.get("schema", {})) or escape(kind) for kind, body in content.items())


def _schemas(schemas: Mapping[str, Any]) -> Iterator[str]:
    for name, schema in schemas.items():
        yield f'<h3 id="{escape(name)}"><code>{escape(name)}</code></h3><p>{escape(schema.get("description", ""))}</p>'
        if "enum" in schema:
            yield f"<p>{', '.join(f'<code>{escape(str(value))}</code>' for value in schema['enum'])}</p>"
            continue
        yield "<table><tr><th>field</th><th>type</th><th></th></tr>"
        for field, kind in schema.get("properties", {}).items():
            description = escape(kind.get("description", ""))
            yield f"<tr><td><code>{escape(field)}</code></td><td>{_type(kind)}</td><td>{description}</td></tr>"
        yield "</table>"


def _type(schema: Mapping[str, Any]) -> str:
    """Return a schema in short form: ``FlowStatus[]``, ``string or null``."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rsplit("/", 1)[-1])
        return f'<a href="#{name}"><code>{name}</code></a>'
    if "anyOf" in schema:
        return " or ".join(_type(choice) for choice in schema["anyOf"])
    if schema.get("type") == "array":
        return f"{_type(schema.get('items', {}))}[]"
    return f"<code>{escape(schema['type'])}</code>" if "type" in schema else ""


def _router(_: RestContext) -> APIRouter:
    router = APIRouter()

    @router.get("/docs", summary="This page", response_class=HTMLResponse)
    async def docs(request: Request) -> HTMLResponse:
        """Operations and their responses, in a readable form."""
        return HTMLResponse(docs_page(request.app.openapi()))

    @router.get("/", include_in_schema=False)
    async def root() -> RedirectResponse:
        return RedirectResponse("docs")

    return router


ENDPOINT = Endpoint(router=_router, needs_no_token=True)
