"""HTTP with one registry: TLS, authentication, retries, redirects, and errors that say what to do."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import urljoin, urlsplit

import msgspec

from modelwright import __version__
from modelwright.oci import answers, credentials, direct, media
from modelwright.oci.answers import Answer
from modelwright.oci.auth import Authenticator, bare_host
from modelwright.oci.credentials import Credentials
from modelwright.oci.reference import is_loopback
from modelwright.oci.retry import Retry
from modelwright.ports.errors import Forbidden, Mismatch, ModelwrightError, Unavailable
from modelwright.ports.images import Progress

if TYPE_CHECKING:
    import httpx2

Body = Callable[[], Iterator[bytes]]
"""Makes the body of a request anew for each attempt."""

_CERTIFICATE_FOLDERS = (
    Path("/etc/docker/certs.d"),
    Path("/etc/containers/certs.d"),
    Path("~/.config/containers/certs.d"),
)
_MAX_REDIRECTS = 5


class Options(msgspec.Struct, frozen=True):
    """How to speak with a registry.

    `plain_http`: True asks for http; None, the default, takes http only on this machine, where nothing speaks https.
    `ca_file`: a private CA (PEM), trusted besides the system's and those in `certs.d/HOST/`.
    `credentials`: instead of those in docker's config.json. `token_hosts`: token services of other owners to trust.
    Times are in seconds; `attempts` counts the first one too.
    """

    plain_http: bool | None = None
    ca_file: Path | None = None
    credentials: Credentials | None = None
    token_hosts: tuple[str, ...] = ()
    attempts: int = 5
    first_pause: float = 0.5
    connect_timeout: float = 10.0
    transfer_timeout: float = 60.0
    commit_timeout: float = 600.0


class Call(msgspec.Struct, frozen=True):
    """One request: `url` is absolute or a path below `/v2/`; `scope` is what a token must allow."""

    method: str
    url: str
    scope: str
    what: str
    headers: dict[str, str] = {}
    body: Body | None = None
    patient: bool = False


class Session:
    """Connections to one registry host, to be closed; safe to use from several threads."""

    def __init__(
        self, host: str, options: Options | None = None, *, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self.host = host
        self.options = options or Options()
        self.retry = Retry(self.options.attempts, self.options.first_pause, pause=pause)
        self._api_host = "registry-1.docker.io" if host in {"docker.io", "index.docker.io"} else host
        self._lock = threading.Lock()
        self._made: httpx2.Client | None = None
        self._direct = direct.Connections(self._api_host, self.options.connect_timeout)
        try:
            self.base = f"{self._scheme()}://{self._api_host}"
            self._short = self.plain and is_loopback(self._api_host)
            if not self._short or self.options.ca_file:
                self._made = self._make_client()  # a wrong CA file is said at once
        except BaseException:
            self.close()
            raise
        self._auth = Authenticator(
            self._api_host,
            self._credentials,
            self._fetch_token,
            plain=self.plain,
            token_hosts=self.options.token_hosts,
        )

    @property
    def plain(self) -> bool:
        """Whether it is http without TLS."""
        return self.base.startswith("http://")

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._direct.close()
        if self._made is not None:
            self._made.close()

    def ask(self, call: Call, *accepted: int) -> Answer:
        """The answer, tried again while that may help. Raises for a status that is not among those accepted."""
        return self.retry.run(lambda: self.ask_once(call, *accepted))

    def ask_once(self, call: Call, *accepted: int) -> Answer:
        """The answer of a single attempt (authentication aside)."""
        if self._short:
            answer = self._ask_directly(call)
        else:
            with self.opened(call) as response:
                answer = _read(response, call.what)
        if answer.status not in accepted:
            raise self.refused(answer, call)
        return answer

    def send(self, call: Call, stream: BinaryIO, progress: Progress) -> Answer | None:
        """As `ask_once` with the rest of a stream as body, but faster; None where a plain connection does not do.

        That is so for TLS, for other machines (proxies), and when the registry wants a fresh login.
        """
        if not self._short:
            return None
        sent = self._auth.header(call.scope)
        answer = self._direct.send(
            call.method,
            self._absolute(call.url),
            self._headers(call, sent),
            stream,
            progress,
            idle=self.options.transfer_timeout,
            patience=self.options.commit_timeout,
        )
        return None if self._renewed(answer, call.scope, sent) else answer

    def refused(self, answer: Answer, call: Call) -> ModelwrightError:
        """The error of an answer that is not wanted."""
        error = answers.refusal(answer, call.what, self.host)
        error.message = self._auth.redact(error.message)
        error.args = (error.message,)
        return error

    @contextmanager
    def opened(self, call: Call) -> Iterator[httpx2.Response]:
        """The response with its body unread, authenticated, not redirected. Raises what silence means."""
        import httpx2

        try:
            response = self._authenticated(call)
            try:
                yield response
            finally:
                response.close()
        except (httpx2.HTTPError, httpx2.StreamError, ssl.SSLError, ConnectionError) as error:
            raise answers.silence(error, self.host) from error

    @contextmanager
    def followed(self, call: Call) -> Iterator[httpx2.Response]:
        """As `opened`, through redirects, which only downloads of blobs do; other hosts get no credential."""
        with self.opened(call) as response:
            if not response.is_redirect:
                yield response
                return
            target = self._redirect(str(response.url), response)
        with self._followed_elsewhere(call, target, _MAX_REDIRECTS - 1) as response:
            yield response

    def locate(self, location: str) -> str:
        """The absolute URL of an upload's Location, which must be on this registry."""
        url = urljoin(f"{self.base}/", location)
        parts = urlsplit(url)
        if not location or parts.hostname != bare_host(self._api_host) or parts.scheme not in {"http", "https"}:
            raise Mismatch(
                f"{self.host} sends the upload to {parts.hostname or 'nowhere'}: content goes to no other host",
                reason="UploadLocationRefused",
            )
        return f"{self.base}{parts.path}" + (f"?{parts.query}" if parts.query else "")

    def _ask_directly(self, call: Call) -> Answer:
        patience = self.options.commit_timeout if call.patient else self.options.transfer_timeout
        for _ in range(3):
            sent = self._auth.header(call.scope)
            headers, body = self._headers(call, sent), call.body() if call.body else None
            answer = self._direct.ask(call.method, self._absolute(call.url), headers, body, patience=patience)
            if not self._renewed(answer, call.scope, sent):
                break
        return answer

    def _renewed(self, answer: Answer, scope: str, sent: str | None) -> bool:
        """Whether it makes sense to ask again, with another login."""
        return answer.status == 401 and self._auth.challenged(answer.header("www-authenticate"), scope, sent)

    def _authenticated(self, call: Call) -> httpx2.Response:
        sent = self._auth.header(call.scope)
        response = self._send(call, self._absolute(call.url), sent)
        for _ in range(2):
            header = response.headers.get("www-authenticate", "")
            if response.status_code != 401 or not self._renew(response, header, call.scope, sent):
                break
            sent = self._auth.header(call.scope)
            response = self._send(call, self._absolute(call.url), sent)
        return response

    def _renew(self, response: httpx2.Response, header: str, scope: str, sent: str | None) -> bool:
        try:
            renewed = self._auth.challenged(header, scope, sent)
        except BaseException:
            response.close()
            raise
        if renewed:
            response.close()
        return renewed

    def _send(self, call: Call, url: str, authorization: str | None) -> httpx2.Response:
        headers = self._headers(call, authorization)
        timeout = self._timeout(self.options.commit_timeout if call.patient else self.options.transfer_timeout)
        body = call.body() if call.body else None
        request = self._client.build_request(call.method, url, headers=headers, content=body, timeout=timeout)
        return self._client.send(request, stream=True)

    @staticmethod
    def _headers(call: Call, authorization: str | None) -> dict[str, str]:
        login = {"Authorization": authorization} if authorization else {}
        return {"User-Agent": f"modelwright/{__version__}", "Accept-Encoding": "identity", **call.headers, **login}

    @contextmanager
    def _followed_elsewhere(self, call: Call, url: str, left: int) -> Iterator[httpx2.Response]:
        own = urlsplit(url)[:2] == urlsplit(self.base)[:2]
        with self._opened_elsewhere(call, url, own=own) as response:
            if not response.is_redirect:
                yield response
                return
            target = self._redirect(url, response)
        if left <= 0:
            raise Unavailable(f"{self.host} redirects {call.what} without end", reason="RegistryBroke")
        with self._followed_elsewhere(call, target, left - 1) as response:
            yield response

    @contextmanager
    def _opened_elsewhere(self, call: Call, url: str, *, own: bool) -> Iterator[httpx2.Response]:
        import httpx2

        try:
            response = self._send(call, url, self._auth.header(call.scope) if own else None)
            try:
                yield response
            finally:
                response.close()
        except (httpx2.HTTPError, httpx2.StreamError, ssl.SSLError, ConnectionError) as error:
            raise answers.silence(error, urlsplit(url).netloc) from error

    def _redirect(self, url: str, response: httpx2.Response) -> str:
        target = urljoin(url, response.headers.get("location", ""))
        parts = urlsplit(target)
        if not parts.hostname or parts.scheme not in {"https", "http"} or (parts.scheme == "http" and not self.plain):
            raise Forbidden(
                f"{self.host} redirects to {parts.scheme}://{parts.hostname}, which is not https: it is not followed",
                reason="RedirectRefused",
            )
        return target

    def _absolute(self, url: str) -> str:
        return url if "://" in url else f"{self.base}/v2/{url}"

    def _credentials(self) -> Credentials | None:
        return self.options.credentials or credentials.find(self.host)

    def _fetch_token(self, url: str, headers: Mapping[str, str], form: Mapping[str, str] | None) -> tuple[int, bytes]:
        import httpx2

        def attempt() -> tuple[int, bytes]:
            method = "POST" if form else "GET"
            try:
                with self._client.stream(
                    method, url, headers=dict(headers), data=dict(form) if form else None
                ) as response:
                    answer = _read(response, "a token")
            except (httpx2.HTTPError, httpx2.InvalidURL, ssl.SSLError) as error:
                if isinstance(error, httpx2.InvalidURL):
                    raise Forbidden(
                        f"{self.host} names a token service of no valid URL", reason="TokenRealmRefused"
                    ) from None
                raise answers.silence(error, urlsplit(url).netloc) from error
            if answer.status == 429 or answer.status >= 500:
                where = urlsplit(url).netloc
                raise Unavailable(
                    f"{where}, the token service of {self.host}, answers status {answer.status}: try again later",
                    reason="RegistryUnavailable",
                    after=answers.retry_after(answer.headers),
                )
            return answer.status, answer.body

        return self.retry.run(attempt)

    @property
    def _client(self) -> httpx2.Client:
        with self._lock:
            if self._made is None:
                self._made = self._make_client()
            return self._made

    def _make_client(self) -> httpx2.Client:
        import httpx2

        return httpx2.Client(
            verify=_tls(self._api_host, self.options.ca_file),
            trust_env=not is_loopback(self._api_host),
            timeout=self._timeout(self.options.transfer_timeout),
            limits=httpx2.Limits(max_connections=32, max_keepalive_connections=8),
            follow_redirects=False,
        )

    def _timeout(self, read: float) -> httpx2.Timeout:
        import httpx2

        return httpx2.Timeout(self.options.transfer_timeout, connect=self.options.connect_timeout, read=read)

    def _scheme(self) -> str:
        if self.options.plain_http is not None or not is_loopback(self._api_host):
            return "http" if self.options.plain_http else "https"
        return "https" if self._answers_https() else "http"

    def _answers_https(self) -> bool:
        """On this machine only: ask by http, without credentials; a TLS server breaks off or answers 400."""
        url = f"http://{self._api_host}/v2/"
        try:
            answer = self._direct.ask("GET", url, {}, None, patience=self.options.connect_timeout)
        except Mismatch:
            return False
        except Unavailable as error:
            return error.reason == "RegistryBroke"
        return answer.status == 400


def _tls(host: str, ca_file: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    folders = [folder.expanduser() / host for folder in _CERTIFICATE_FOLDERS]
    found = [file for folder in folders if folder.is_dir() for file in sorted(folder.glob("*.crt"))]
    for file in [*([ca_file] if ca_file else []), *found]:
        try:
            context.load_verify_locations(cafile=file)
        except (OSError, ssl.SSLError) as error:
            raise Forbidden(f"{file} is no readable CA certificate (PEM): {error}", reason="CAFileInvalid") from error
    return context


def _read(response: httpx2.Response, what: str) -> Answer:
    body = bytearray()
    for chunk in response.iter_raw():
        body += chunk
        if len(body) > media.MAX_MANIFEST_BYTES:
            raise Mismatch(f"the answer to {what} is over {media.MAX_MANIFEST_BYTES} bytes", reason="ManifestTooLarge")
    return Answer(response.status_code, {key.lower(): value for key, value in response.headers.items()}, bytes(body))
