"""Registries with a user and password, and TLS by a private authority: for both builders, and what can be wrong."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster import builds
from tests.cluster.builds import JSON, User, local, version
from tests.cluster.operator import Operator
from tests.cluster.readonly_registry import ReadOnlyRegistry

BUILDERS = ("native", "kaniko")


class World:
    """All versions of this module: they are built at once, in one namespace that admits Kaniko."""

    def __init__(self, user: User, denying: ReadOnlyRegistry) -> None:
        self.user, self.registry, self.denying = user, user.cluster.private_registry, denying
        node = next(node for node in user.cluster.nodes if node.name == "cloud-0")
        self.files = Path(node.root, "private", user.namespace)
        builds.write_model(self.files, "private")
        ca = Path(self.registry.ca_file).read_bytes()
        good = config(self.registry.host, self.registry.user, self.registry.password)
        wrong = config(self.registry.host, self.registry.user, "wrong")
        user.create(
            secret("good", good, ca),
            secret("wrong", wrong, ca),
            secret("no-ca", good),
            secret("elsewhere", config("registry.example.com", "me", "secret"), ca),
            secret("denied", config(denying.host, "me", "secret"), denying.ca_file.read_bytes()),
        )
        user.create(*(self.version(builder, name) for builder in BUILDERS for name in (*SAID, "good", "denied")))

    def version(self, builder: str, push_secret: str) -> JSON:
        """A version that pushes with this secret, named after both."""
        host = self.denying.host if push_secret == "denied" else self.registry.host
        repository = f"{host}/{self.user.namespace}/{builder}-{push_secret}"
        storage = local("cloud-0", f"/private/{self.user.namespace}")
        spec = {"builder": builder, "pushSecret": push_secret, "imageRepo": repository}
        return version(f"{builder}-{push_secret}", storage, **spec)


SAID = {
    "wrong": ("RegistryUnauthorized", "the pushSecret wrong has credentials for"),
    "no-ca": ("RegistryCertificateInvalid", "ca.crt of the pushSecret no-ca"),
    "elsewhere": ("RegistryUnauthorized", "the pushSecret elsewhere has credentials for registry.example.com"),
    "missing": ("SecretNotFound", "kubectl create secret docker-registry missing"),
}
"""What is said of a push with this secret: the reason, and of the message."""


def config(host: str, user: str, password: str) -> JSON:
    auth = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"auths": {host: {"auth": auth}}}


def secret(name: str, docker: JSON, ca: bytes = b"") -> JSON:
    """As `kubectl create secret docker-registry` makes it, and the key with the authority."""
    data = {".dockerconfigjson": json.dumps(docker).encode(), **({"ca.crt": ca} if ca else {})}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": name},
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }


@pytest.fixture(scope="module")
def world(operator: Operator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    address = operator.cluster.private_registry.host.rpartition(":")[0]
    with (
        builds.user_of(operator.cluster, "baseline") as user,
        ReadOnlyRegistry(address, tmp_path_factory.mktemp("denying")) as denying,
    ):
        yield World(user, denying)


@pytest.mark.parametrize("builder", BUILDERS)
def test_a_secret_with_user_password_and_authority_is_all_that_a_push_needs(
    world: World, builder: str, tmp_path: Path
) -> None:
    name = f"{builder}-good"
    world.user.ready(name)
    image = world.user.version(name)["status"]["resolvedImage"]
    login = config(world.registry.host, world.registry.user, world.registry.password)
    (tmp_path / "config.json").write_text(json.dumps(login))
    files = builds.pulled(image, "--ca-file", world.registry.ca_file, DOCKER_CONFIG=str(tmp_path))
    assert files == builds.files(world.files)


@pytest.mark.parametrize("builder", BUILDERS)
@pytest.mark.parametrize("push_secret", SAID)
def test_what_is_wrong_with_a_push_is_said_at_once_with_what_to_do(
    world: World, builder: str, push_secret: str
) -> None:
    reason, words = SAID[push_secret]
    name = f"{builder}-{push_secret}"
    message = world.user.told(name, reason)
    assert words in message
    assert f"kubectl annotate mv/{name}" in message
    assert world.user.condition(name, "Stalled")["status"] == "True"
    assert world.user.version(name)["status"]["attempts"] == 1
    world.user.cleared(name)


@pytest.mark.parametrize("builder", BUILDERS)
def test_a_push_that_is_denied_is_said_at_once(world: World, builder: str) -> None:
    message = world.user.told(f"{builder}-denied", "RegistryDenied")
    assert world.denying.host in message
    assert world.user.condition(f"{builder}-denied", "Stalled")["status"] == "True"


def test_a_secret_that_was_missing_is_made_by_the_command_in_the_message(world: World) -> None:
    told = {builder: world.user.told(f"{builder}-missing", "SecretNotFound") for builder in BUILDERS}
    assert f"-n {world.user.namespace} --docker-server={world.registry.host}" in told["native"]
    _, _, command = told["native"].partition("kubectl create secret ")
    command = command.partition(";")[0].replace("USER", world.registry.user)
    command = command.replace("PASSWORD", world.registry.password)
    world.user.cluster.run("create", "secret", *command.split())
    ca = base64.b64encode(Path(world.registry.ca_file).read_bytes()).decode()
    world.user.kubectl("patch", "secret", "missing", "--type=merge", "-p", json.dumps({"data": {"ca.crt": ca}}))
    for builder in BUILDERS:
        world.user.try_again(f"{builder}-missing")
    world.user.ready(*(f"{builder}-missing" for builder in BUILDERS))


def test_no_password_is_in_anything_that_can_be_read(world: World, operator: Operator) -> None:
    world.user.ready("native-good", "kaniko-good")
    everything = world.user.kubectl("get", "mv,mo,jobs,pods,pvc,events", "-o", "json") + operator.logs()
    assert world.registry.password not in everything
    auth = base64.b64encode(f"{world.registry.user}:{world.registry.password}".encode()).decode()
    assert auth not in everything
