"""The plain-http pages of `modelwright up`: a front page that says where things are, health, and metrics."""

from __future__ import annotations

import html
import shlex
from pathlib import PurePath

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
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 3rem auto; padding: 0 1rem; color: #1b1f24 }}
h1 {{ font-size: 1.6rem; margin-bottom: 0 }} p.version {{ color: #57606a; margin-top: 0 }}
h2 {{ font-size: 1rem; margin: 1.75rem 0 .25rem }} p {{ margin: .25rem 0 }} a {{ color: #0550ae }}
code, pre {{ font: 14px/1.5 ui-monospace, monospace; background: #f3f4f6; border-radius: 4px }}
code {{ padding: 1px 4px }} pre {{ padding: .75rem; margin: .5rem 0; overflow-x: auto }}
@media (prefers-color-scheme: dark) {{
  body {{ background: #0d1117; color: #e6edf3 }} code, pre {{ background: #1c2230 }} p.version {{ color: #9aa4af }}
  a {{ color: #79c0ff }} }}
</style></head><body>
<h1>Modelwright</h1><p class="version">{version}, the embedded control plane</p>
<h2>Resources</h2><p>The Kubernetes API is at <code>{api}</code>. <code>modelwright</code>
and <code>kubectl</code> use the same kubeconfig:</p>
<pre>export KUBECONFIG={kubeconfig}
modelwright get modelwright -A
kubectl get modelwright -A</pre>
<h2>Images</h2><p>The registry is at <code>{registry}</code>. Pulling needs no login; pushing takes any user
name, with the token beside the kubeconfig as the password:</p>
<pre>modelwright image inspect {registry}/REPOSITORY:TAG
modelwright image build DIR {registry}/REPOSITORY:TAG \\
  --token-file {token}</pre>
<h2>Health and metrics</h2><p><a href="/healthz">/healthz</a>, <a href="/metrics">/metrics</a> (Prometheus)</p>
<h2>Something is wrong?</h2><pre>modelwright doctor
modelwright describe infm/NAME</pre>
</body></html>
"""


class Places(msgspec.Struct, frozen=True):
    """What the front page names."""

    api: str
    kubeconfig: str
    registry: str


def routes(places: Places, metrics: CollectorRegistry) -> list[Route]:
    """The routes of the pages."""
    kubeconfig = PurePath(places.kubeconfig)
    values = {
        "version": __version__,
        "api": places.api,
        "registry": places.registry,
        "kubeconfig": shlex.quote(str(kubeconfig)),
        "token": shlex.quote(str(kubeconfig.with_name("token"))),
    }
    page = PAGE.format(**{name: html.escape(value) for name, value in values.items()})

    async def front(_: Request) -> Response:
        return HTMLResponse(page, headers=HEADERS)

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok\n", headers=HEADERS)

    async def scrape(_: Request) -> Response:
        return Response(generate_latest(metrics), headers={**HEADERS, "Content-Type": CONTENT_TYPE_LATEST})

    return [Route("/", front), Route("/healthz", healthz), Route("/metrics", scrape)]
