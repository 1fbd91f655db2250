"""A gateway before real model servers that ask for a token and speak TLS."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.contract.pki import Authority
from tests.integration.gateway.conftest import EASY, HARD, Client, Gateway, Server, Site, serve, wait_for
from tests.integration.mounted_secret import Secret, pair


@pytest.fixture
def secret(tmp_path: Path) -> Secret:
    return Secret(tmp_path / "secret")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    folder = tmp_path / "pki"
    folder.mkdir()
    return Authority(folder)


@pytest.fixture
def edge(site: Site, models: Path, secret: Secret, authority: Authority) -> Server:
    """A model that is known as node.example and takes the token `right`."""
    secret.hold(token=b"right", **pair(authority, "edge", "node.example"))
    guards = ("--token-file", str(secret / "token"), "--tls-folder", str(secret.folder))
    return site.start(*serve(models, "onnx-0", "127.0.0.1:0"), *guards)


@pytest.fixture
def mine(tmp_path: Path, authority: Authority) -> Secret:
    """What is mounted into the gateway."""
    found = Secret(tmp_path / "mine")
    found.hold(token=b"right\n", ca_crt=authority.ca_file.read_bytes())
    return found


def asking(site: Site, edge: Server, **more: str) -> Gateway:
    url = f"https://127.0.0.1:{edge.port}/v1/models/m"
    site.write({"name": "joint", "edge": {"url": url} | more, "cloud": {"url": ""}, "timeoutSeconds": 30})
    return site.gateway().ready()


def test_it_shows_its_token_and_trusts_the_authority_that_it_is_given(
    site: Site, edge: Server, mine: Secret, authority: Authority
) -> None:
    gateway = asking(site, edge, tokenFile=str(mine / "token"), caFile=str(mine / "ca.crt"))
    gateway.shows(lambda state: state.edge.state == "ready", "the edge model to be known")
    with Client(gateway.port) as client:
        assert client.predict(EASY, HARD).by == "edge"
    for text in (gateway.server.log.read_text(), site.config.read_text(), edge.log.read_text()):
        assert "right" not in text


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"tokenFile": ""}, "Forbidden"),
        ({"tokenFile": "/nowhere"}, "TokenNotUsable"),
        ({"caFile": ""}, "CertificateNotTrusted"),
        ({"caFile": "/nowhere"}, "CertificateNotUsable"),
        ({"serverName": "other.example"}, "CertificateNotTrusted"),
    ],
)
def test_what_does_not_fit_is_said_and_nothing_is_sent(
    site: Site, edge: Server, mine: Secret, authority: Authority, changed: dict[str, str], reason: str
) -> None:
    given = {"tokenFile": str(mine / "token"), "caFile": str(mine / "ca.crt")} | changed
    gateway = asking(site, edge, **given)
    state = gateway.shows(lambda state: state.edge.state == "failing", "the edge model to fail")
    assert state.edge.reason == reason
    with Client(gateway.port) as client:
        assert client.predict(EASY).status == 503
        text = client.ask("GET", "/metrics").body.decode()
    assert f'reason="{reason}"' in text
    right = asking(site, edge, tokenFile=str(mine / "token"), caFile=str(mine / "ca.crt"), serverName="node.example")
    right.shows(lambda state: state.edge.state == "ready", "the edge model to be known")


def test_a_certificate_may_be_trusted_itself_and_be_of_another_name(
    site: Site, edge: Server, mine: Secret, authority: Authority, secret: Secret
) -> None:
    """A folder with a TLS Secret: without ca.crt, its tls.crt is what the server shows."""
    certificate = (secret / "tls.crt").read_bytes()
    mine.hold(token=b"right", tls_crt=certificate)
    gateway = asking(site, edge, tokenFile=str(mine / "token"), caFile=str(mine.folder), serverName="node.example")
    gateway.shows(lambda state: state.edge.state == "ready", "the edge model to be known")
    with Client(gateway.port) as client:
        assert client.predict(EASY).by == "edge"


def test_the_servers_own_certificate_says_which_name_to_verify(
    site: Site, models: Path, mine: Secret, authority: Authority
) -> None:
    """A node is known by an address that is seldom in a certificate."""
    shown = Secret(site.folder / "shown")
    shown.hold(**pair(authority, "edge", "node.example"))
    server = site.start(*serve(models, "onnx-0", "127.0.0.2:0"), "--tls-folder", str(shown.folder))
    url = f"https://127.0.0.2:{server.port}/v1/models/m"

    def asked(ca_file: Path) -> Gateway:
        site.write({"name": "joint", "edge": {"url": url, "caFile": str(ca_file)}, "cloud": {"url": ""}})
        return site.gateway().ready()

    gateway = asked(mine / "ca.crt")
    state = gateway.shows(lambda state: state.edge.state == "failing", "the name to be refused")
    assert state.edge.reason == "CertificateNotTrusted"
    gateway = asked(shown.folder)
    gateway.shows(lambda state: state.edge.state == "ready", "the edge model to be known")
    mine.hold(tls_crt=pair(authority, "other", "other.example")["tls_crt"])
    gateway = asked(mine.folder)
    state = gateway.shows(lambda state: state.edge.state == "failing", "another's certificate to be refused")
    assert state.edge.reason == "CertificateNotTrusted"


def test_another_token_and_another_authority_are_taken_up_without_a_restart(
    site: Site, edge: Server, mine: Secret, authority: Authority, secret: Secret, tmp_path: Path
) -> None:
    gateway = asking(site, edge, tokenFile=str(mine / "token"), caFile=str(mine / "ca.crt"))
    folder = tmp_path / "other"
    folder.mkdir()
    other = Authority(folder)
    with Client(gateway.port) as client:
        wait_for(lambda: client.predict(EASY).status == 200, "the edge model to be known")
        secret.hold(token=b"next", **pair(other, "edge"))
        gateway.shows(lambda state: state.edge.reason == "Forbidden", "the old token to be refused")
        mine.hold(token=b"next", ca_crt=other.ca_file.read_bytes())
        gateway.shows(lambda state: state.edge.state == "ready", "the edge model to be back")
        wait_for(lambda: client.predict(EASY).status == 200, "answers")


def test_by_hand_they_are_options(site: Site, edge: Server, mine: Secret, authority: Authority) -> None:
    url = f"https://127.0.0.1:{edge.port}/v1/models/m"
    options = ["--edge", url, "--cloud", "http://127.0.0.1:1/v1/models/m", "--name", "joint", "--timeout", "30"]
    guards = ["--edge-token-file", str(mine / "token"), "--edge-ca-file", str(mine / "ca.crt")]
    gateway = site.start("modelwright.gateway", *options, *guards, "--edge-server-name", "node.example", "--port", "0")
    with Client(gateway.port) as client:
        wait_for(lambda: client.predict(EASY).status == 200, "the edge model to be known")


def test_its_state_is_printed_and_what_keeps_it_from_starting_is_reported(site: Site) -> None:
    import msgspec

    from modelwright.ports.job import Report

    site.configure(policy="nope")
    file = site.folder / "termination"
    gateway = site.gateway("--termination-file", str(file), "--report")
    assert gateway.server.popen.wait(30) == 1
    failure = msgspec.json.decode(file.read_bytes(), type=Report).failure
    assert failure is not None
    assert failure.reason == "ConfigInvalid"
    assert gateway.reports[-1] == gateway.state
    site.configure()
    gateway = site.gateway("--report").ready()
    wait_for(lambda: gateway.reports and gateway.reports[-1] == gateway.state, "its state on stdout")


def test_a_gateway_waits_for_its_configuration(site: Site, shared: object) -> None:
    gateway = site.gateway("--stay")
    gateway.shows(lambda state: state.phase == "loading", "the state file")
    site.write({"name": "joint", "policy": "nope"})
    assert gateway.shows(lambda state: state.reason, "the reason").reason == "ConfigInvalid"
    site.configure()
    gateway.ready()
    with Client(gateway.port) as client:
        assert client.ask("GET", "/v2/health/live").status == 200
        assert client.ask("GET", "/v2/health/ready").status == 503
