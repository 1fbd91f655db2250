"""A model that asks for a token, or speaks TLS, answers nobody else; and who asks for what cannot be had is told so."""

from __future__ import annotations

import ssl
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.cluster.operator import Operator
from tests.cluster.serving.conftest import Shelf
from tests.cluster.serving.team import Team, ask, number, secret, team_of
from tests.contract.pki import Authority

TOKEN = "tok-5ecret"
PREDICT = ":predict"


class World(msgspec.Struct, frozen=True):
    """The models of this module that are applied at once."""

    team: Team
    authority: Authority
    ca_file: Path


@pytest.fixture(scope="module")
def world(operator: Operator, shelf: Shelf, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    authority = Authority(tmp_path_factory.mktemp("tls"))
    cluster = operator.cluster
    with team_of(cluster) as team:
        team.create(secret("asked", token=TOKEN), tls_secret(authority, "shown", cluster.node("cloud-0").address))
        usual = {"manifest": shelf.manifest("v1"), "targetVersion": "v1", "nodeName": "cloud-0"}
        team.serve("token", **usual, auth={"tokenSecret": "asked"})
        team.serve("tls", **usual, tls={"secret": "shown"})
        team.serve("both", **usual, auth={"tokenSecret": "asked"}, tls={"secret": "shown"})
        team.serve("late", **usual, auth={"tokenSecret": "missing"})
        yield World(team, authority, authority.ca_file)


def tls_secret(authority: Authority, name: str, *hosts: str) -> dict[str, object]:
    certificate, key = authority.issue(name, hosts=hosts)
    return secret(name, "kubernetes.io/tls", tls_crt=certificate.read_text(), tls_key=key.read_text())


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_who_has_no_token_is_refused(world: World) -> None:
    world.team.ready("token")
    assert number(world.team.ask("token", headers=bearer(TOKEN))) == 1
    for headers in ({}, bearer("wrong"), bearer(""), {"Authorization": f"Basic {TOKEN}"}):
        refused = world.team.ask("token", headers=headers)
        assert refused.status == 401
        assert TOKEN.encode() not in refused.body
    v2 = world.team.url("token").replace("/v1/models/token", "/v2/models/token")
    assert ask(v2, body=None).status == 401
    assert ask(v2, body=None, headers=bearer(TOKEN)).status == 200


def test_tls_is_spoken_with_the_secrets_certificate_and_nothing_else(world: World) -> None:
    world.team.ready("tls")
    url = world.team.url("tls")
    assert url.startswith("https://")
    assert number(ask(url + PREDICT, ca_file=world.ca_file)) == 1
    with pytest.raises(urllib.error.URLError) as unknown:
        ask(url + PREDICT)
    assert isinstance(unknown.value.reason, ssl.SSLCertVerificationError)
    assert nobody_answers(url.replace("https://", "http://") + PREDICT)


def nobody_answers(url: str) -> bool:
    try:
        ask(url)
    except OSError:
        return True
    return False


def test_both_can_be_had(world: World) -> None:
    world.team.ready("both")
    url = world.team.url("both") + PREDICT
    assert number(ask(url, ca_file=world.ca_file, headers=bearer(TOKEN))) == 1
    assert ask(url, ca_file=world.ca_file).status == 401


def test_requests_go_on_while_a_token_and_tls_are_asked(world: World) -> None:
    world.team.ready("both")
    with world.team.traffic("both", token=TOKEN, ca_file=world.ca_file) as traffic:
        traffic.more()
        world.team.change("both", resources={"requests": {"memory": "70Mi"}})
        world.team.ready("both")
        traffic.more()
    assert traffic.report.failures == []


def test_nobody_is_let_in_while_the_secret_is_missing_and_it_can_be_made_later(world: World) -> None:
    message = world.team.said("late", "SecretNotFound")
    assert "missing" in message
    assert world.team.conditions("late")["Available"]["status"] == "False"
    world.team.create(secret("missing", token=TOKEN))
    world.team.ready("late")
    assert world.team.ask("late").status == 401
    assert number(world.team.ask("late", headers=bearer(TOKEN))) == 1


def test_an_image_cannot_be_asked_for_a_token(world: World) -> None:
    world.team.serve("image", image="registry.example/any:1", auth={"tokenSecret": "asked"})
    assert "served as it is" in world.team.said("image", "SecurityNotSupported")
    assert world.team.owned(world.team.uid("image")) == []
