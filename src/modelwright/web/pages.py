"""The plain-http pages of `modelwright up`: a front page that says where things are, health, and metrics."""

from __future__ import annotations

import html

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from modelwright import __version__

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Modelwright</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 3rem auto; padding: 0 1rem; color: #1b1f24 }}
h1 {{ font-size: 1.6rem; margin-bottom: 0 }} p.version {{ color: #57606a; margin-top: 0 }}
dt {{ font-weight: 600; margin-top: 1rem }} dd {{ margin: 0 }}
code, pre {{ font: 14px/1.5 ui-monospace, monospace; background: #f3f4f6; border-radius: 4px }}
code {{ padding: 1px 4px }} pre {{ padding: .75rem; overflow-x: auto }}
@media (prefers-color-scheme: dark) {{
  body {{ background: #0d1117; color: #e6edf3 }} code, pre {{ background: #1c2230 }} p.version {{ color: #9aa4af }} }}
</style></head><body>
<h1>Modelwright</h1><p class="version">{version}, the embedded control plane</p>
<dl>
<dt>Resources</dt><dd>over the Kubernetes API at <code>{api}</code>:
<pre>export KUBECONFIG={kubeconfig}
kubectl get modelwright --all-namespaces</pre></dd>
<dt>Images</dt><dd>in the registry at <code>{registry}</code>: pulling needs no login.</dd>
<dt>Health and metrics</dt><dd><code>/healthz</code>, <code>/metrics</code> (Prometheus)</dd>
</dl></body></html>
"""


class Places(msgspec.Struct, frozen=True):
    """What the front page names."""

    api: str
    kubeconfig: str
    registry: str


def routes(places: Places, metrics: CollectorRegistry) -> list[Route]:
    """The routes of the pages."""
    values = {name: html.escape(value) for name, value in msgspec.structs.asdict(places).items()}
    page = PAGE.format(version=html.escape(__version__), **values)

    async def front(_: Request) -> Response:
        return HTMLResponse(page, headers=HEADERS)

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok\n", headers=HEADERS)

    async def scrape(_: Request) -> Response:
        return Response(generate_latest(metrics), headers={**HEADERS, "Content-Type": CONTENT_TYPE_LATEST})

    return [Route("/", front), Route("/healthz", healthz), Route("/metrics", scrape)]
