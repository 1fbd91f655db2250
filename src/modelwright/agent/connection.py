"""One HTTP request for a download, to an address that was checked, with redirects followed one by one."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

import httpx2

from modelwright import __version__
from modelwright.agent import urls
from modelwright.agent.addresses import Resolver, allowed_addresses
from modelwright.agent.policy import Policy
from modelwright.agent.urls import Url
from modelwright.ports.errors import Forbidden, Invalid, ModelwrightError, NotFound, Unavailable

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_LATER = frozenset({408, 425, 429, 500, 502, 503, 504})


class Connector:
    """Opens connections by a policy; `authorization` goes to the origin of the first address only."""

    def __init__(self, policy: Policy, resolver: Resolver, authorization: str | None) -> None:
        self._policy = policy
        self._resolver = resolver
        self._authorization = authorization
        self._tls = ssl.create_default_context()
        if policy.ca_file is not None:
            try:
                self._tls.load_verify_locations(cafile=policy.ca_file)
            except OSError as error:
                raise Invalid(f"{policy.ca_file} is no file of certificates (PEM)", reason="CAFileInvalid") from error

    @contextmanager
    def get(self, url: Url, headers: dict[str, str]) -> Iterator[httpx2.Response]:
        """The answer to a GET, its body not read yet; status 200, 206 or 416.

        Raises Forbidden, NotFound, Invalid for what a retry does not mend, Unavailable for what it may.
        """
        authorization = _basic(url.user) or self._authorization
        start, hops = url, 0
        while True:
            sent = headers | ({"Authorization": authorization} if authorization and url.origin == start.origin else {})
            with self._ask(url, sent) as response:
                if response.status_code not in _REDIRECTS:
                    _refuse(url, response)
                    yield response
                    return
                hops += 1
                if hops > self._policy.max_redirects:
                    raise Forbidden(
                        f"{start} redirects more than {self._policy.max_redirects} times",
                        reason="DownloadRedirectForbidden",
                    )
                following = urls.redirected(url, response.headers.get("location", ""))
                authorization = authorization if following.origin == url.origin else None
                url = following

    @contextmanager
    def _ask(self, url: Url, headers: dict[str, str]) -> Iterator[httpx2.Response]:
        addresses = allowed_addresses(url, self._resolver, allow_private=self._policy.allow_private)
        times = httpx2.Timeout(self._policy.stall_timeout, connect=self._policy.connect_timeout)
        with _errors(url), httpx2.Client(verify=self._tls, trust_env=False, timeout=times) as client:
            response = self._first_answer(client, url, headers, addresses)
            try:
                yield response
            finally:
                response.close()

    def _first_answer(
        self, client: httpx2.Client, url: Url, headers: dict[str, str], addresses: list[str]
    ) -> httpx2.Response:
        for address in addresses[:-1]:
            try:
                return client.send(_request(client, url, headers, address), stream=True)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue
        return client.send(_request(client, url, headers, addresses[-1]), stream=True)


def _request(client: httpx2.Client, url: Url, headers: dict[str, str], address: str) -> httpx2.Request:
    host = f"[{address}]" if ":" in address else address
    common = {
        "Host": url.authority,
        "Accept": "*/*",
        "Accept-Encoding": "identity",
        "User-Agent": f"modelwright/{__version__}",
    }
    return client.build_request(
        "GET",
        f"{url.scheme}://{host}:{url.port}{url.target}",
        headers=common | headers,
        extensions={"sni_hostname": url.host},
    )


def _basic(user: str) -> str | None:
    if not user:
        return None
    name, _, password = user.partition(":")
    return "Basic " + base64.b64encode(f"{unquote(name)}:{unquote(password)}".encode()).decode()


def _refuse(url: Url, response: httpx2.Response) -> None:
    status = response.status_code
    if status in (200, 206, 416):
        return
    if status in (401, 403):
        raise Forbidden(
            f"{url} refuses the download with status {status}: name a downloadSecret that may read it",
            reason="DownloadForbidden",
        )
    if status in (404, 410):
        raise NotFound(f"{url} does not exist (status {status}): check the URL", reason="DownloadNotFound")
    if status in _LATER:
        after = response.headers.get("retry-after", "")
        raise Unavailable(
            f"{url} answers with status {status}: try again later",
            reason="DownloadUnavailable",
            after=float(after) if after.isascii() and after.isdigit() and len(after) < 5 else None,
        )
    raise Invalid(f"{url} answers with status {status}: check the URL", reason="DownloadRefused")


@contextmanager
def _errors(url: Url) -> Iterator[None]:
    """What the network says, as errors of ours; never with anything that the server sent."""
    try:
        yield
    except ModelwrightError:
        raise
    except httpx2.ConnectTimeout as error:
        raise Unavailable(f"{url} does not accept connections in time", reason="DownloadUnreachable") from error
    except httpx2.TimeoutException as error:
        raise Unavailable(f"{url} stopped sending: try again later", reason="DownloadStalled") from error
    except httpx2.ConnectError as error:
        raise _unreachable(url, error) from error
    except httpx2.HTTPError as error:
        raise Unavailable(f"{url} broke off: try again", reason="DownloadCut") from error
    except httpx2.InvalidURL as error:
        raise Invalid(f"{url} cannot be asked for", reason="DownloadURLInvalid") from error


def _unreachable(url: Url, error: BaseException) -> ModelwrightError:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return Forbidden(
                f"the certificate of {url.authority} is not trusted ({cause.verify_message}): name its CA",
                reason="DownloadCertificateInvalid",
            )
        if isinstance(cause, ssl.SSLError):
            return Forbidden(f"{url.authority} does not speak TLS as it should", reason="DownloadCertificateInvalid")
        cause = cause.__cause__ or cause.__context__
    return Unavailable(f"{url} cannot be reached: check the host, port and network", reason="DownloadUnreachable")
