"""What a model in the cloud can be served from: images as they are, ModelVersions, and downloads of every form."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.cluster.builds import JSON, local, version
from tests.cluster.operator import Operator
from tests.cluster.rig.cluster import Cluster
from tests.cluster.serving import images, models
from tests.cluster.serving.conftest import Shelf
from tests.cluster.serving.downloads import Downloads
from tests.cluster.serving.models import File
from tests.cluster.serving.team import Team, ask, manifest, secret, team_of
from tests.contract.pki import Authority
from tests.e2e.files import hostile_tar

FORMS = ("tar", "tar-gz", "zip", "single", "unchecked")
BIG_MEBIBYTES = 24
SECRETS = ("good-token", "bad-token", "5ecret")


class World(msgspec.Struct, frozen=True):
    """All models of this module: they are applied at once, and each test looks at its own."""

    team: Team
    shelf: Shelf
    private: Downloads
    big: File


@pytest.fixture(scope="module")
def world(operator: Operator, shelf: Shelf, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder, cluster = tmp_path_factory.mktemp("sources"), operator.cluster
    authority = Authority(folder)
    certificate = authority.issue("downloads", hosts=(cluster.state.names.gateway,))
    with team_of(cluster) as team, Downloads(cluster.state.names.gateway, certificate) as private:
        big = models.tar(models.onnx_model(folder / "big", 9, mebibytes=BIG_MEBIBYTES), folder / "big.tar")
        found = World(team, shelf, private, big)
        _versions(found)
        _downloads(found, folder)
        _refused(found, folder)
        _private_downloads(found, authority.ca_file)
        yield found


def _versions(world: World) -> None:
    """ModelVersions, in the open registry and in the private one, and what serves them."""
    team, registry = world.team, world.team.cluster.private_registry
    root = Path(team.cluster.node("cloud-0").root)
    for value in (3, 4):
        models.onnx_model(root / f"models/{team.namespace}/v{value}", value)
    team.create(login(team.cluster))
    private = {"imageRepo": f"{registry.host}/{team.namespace}/private", "pushSecret": "login"}
    team.create(
        version("mv-3", local("cloud-0", f"/models/{team.namespace}/v3")),
        version("mv-4", local("cloud-0", f"/models/{team.namespace}/v4"), **private),
    )
    team.serve("from-version", modelVersion="mv-3", replicas=2)
    team.serve("from-private", modelVersion="mv-4", pullSecret="login")
    ignored = {"manifest": world.shelf.manifest("v1"), "targetVersion": "v1", "modelVersion": "mv-3"}
    team.serve("as-it-is", image=images.web(team.cluster.registry), servingPort=8080, **ignored)


def login(cluster: Cluster) -> JSON:
    """The Secret for the private registry: who may use it, and its authority."""
    registry = cluster.private_registry
    auth = base64.b64encode(f"{registry.user}:{registry.password}".encode()).decode()
    config = json.dumps({"auths": {registry.host: {"auth": auth}}})
    made = secret("login", "kubernetes.io/dockerconfigjson", ca_crt=Path(registry.ca_file).read_text())
    made["stringData"][".dockerconfigjson"] = config
    return made


def _downloads(world: World, folder: Path) -> None:
    model = world.shelf.model("v2")
    forms = {
        "tar": models.tar(model, folder / "form.tar"),
        "tar-gz": models.tar_gz(model, folder / "form.tar.gz"),
        "zip": models.zipped(model, folder / "form.zip"),
        "single": models.file(model / "model.onnx"),
    }
    forms["unchecked"] = forms["tar"]
    for form, file in forms.items():
        url = world.shelf.downloads.give(file, f"{form}/{file.name}")
        checked = "" if form == "unchecked" else file.sha256
        world.team.serve(form, manifest=manifest(v2=(url, checked)), targetVersion="v2")


def _refused(world: World, folder: Path) -> None:
    """What is not what it should be, or stops to come."""
    give, good = world.shelf.downloads.give, world.shelf.files["v1"]
    hostile = models.file(hostile_tar(folder / "hostile.tar", "../../escaped"))
    broken = {
        "wrong-sum": manifest(v1=(give(good, "wrong-sum.tar"), "0" * 64)),
        "hostile": manifest(v1=(give(hostile), hostile.sha256)),
        "missing": manifest(v1=(f"http://{world.shelf.downloads.host}/missing.tar", "")),
        "lying": manifest(v1=(give(good, "lying.tar", claims=1000), good.sha256)),
        "stalling": manifest(v1=(give(good, "stalling.tar", stops_after=100), good.sha256)),
    }
    for name, wanted in broken.items():
        world.team.serve(name, manifest=wanted, targetVersion="v1")


def _private_downloads(world: World, ca_file: Path) -> None:
    """The same file for who has a token, or a password, of a server whose authority only the Secret names."""
    authority, give = ca_file.read_text(), world.private.give
    world.team.create(
        secret("with-token", token="good-token", ca_crt=authority),
        secret("with-password", username="me", password="5ecret", ca_crt=authority),
        secret("wrong-token", token="bad-token", ca_crt=authority),
        secret("no-authority", token="good-token"),
    )
    file = world.shelf.files["v5"]
    urls = {
        "with-token": give(file, "token.tar", token="good-token"),
        "with-password": give(file, "login.tar", login="me:5ecret"),
    }
    for name in ("with-token", "with-password", "wrong-token", "no-authority", "no-secret"):
        url = urls.get(name, urls["with-token"])
        world.team.serve(name, manifest=manifest(v5=(url, file.sha256)), targetVersion="v5", downloadSecret=name)


# Images -------------------------------------------------------------------------------------------------------------


def test_an_image_is_served_as_it_is_and_an_event_says_what_is_ignored(world: World) -> None:
    world.team.ready("as-it-is")
    url = world.team.url("as-it-is")
    assert "/v1/" not in url
    assert ask(url, body=None).body.strip() == images.WORDS
    told = world.team.event("as-it-is", "SourceIgnored")
    assert "manifest" in told
    assert "targetVersion" in told
    assert "servingVersion" not in world.team.status("as-it-is")


def test_a_model_version_is_served_by_its_digest(world: World) -> None:
    world.team.ready("from-version")
    image = world.team.version("mv-3")["status"]["resolvedImage"]
    for pod in world.team.pods("from-version"):
        assert image in json.dumps(pod["spec"])
    assert world.team.value("from-version") == 3
    assert world.team.status("from-version")["servingVersion"] == "mv-3"


def test_a_model_version_is_mounted_as_a_volume_where_a_pod_has_shown_that_this_works(world: World) -> None:
    """Without a copy: whoever is first may still be served by one, what comes later is not."""
    world.team.ready("from-version")
    world.team.serve("mounted", modelVersion="mv-3")
    world.team.ready("mounted")
    (pod,) = world.team.pods("mounted")
    image = world.team.version("mv-3")["status"]["resolvedImage"]
    assert [volume["image"]["reference"] for volume in pod["spec"]["volumes"] if "image" in volume] == [image]
    assert world.team.value("mounted") == 3


def test_a_private_registry_is_asked_with_the_pull_secret(world: World) -> None:
    world.team.ready("from-private")
    assert world.team.value("from-private") == 4


# Downloads ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_download_is_served(world: World, form: str) -> None:
    world.team.ready(form)
    assert world.team.value(form) == 2


def test_progress_of_a_download_is_said_while_it_lasts(world: World) -> None:
    url = world.shelf.downloads.give(world.big, rate=1 << 20)
    world.team.serve("slow", manifest=manifest(v9=(url, world.big.sha256)), targetVersion="v9")
    total = f"{world.big.size:,} bytes"
    said: list[str] = []

    def is_told() -> bool:
        message = world.team.conditions("slow").get("Reconciling", {}).get("message", "")
        if total in message and message not in said:
            said.append(message)
        return len(said) > 1 or world.team.is_ready("slow")

    world.team.wait(is_told, "its progress to be told", "slow")
    assert len(said) > 1
    world.shelf.downloads.behave("big.tar")
    world.team.ready("slow")
    assert world.team.value("slow") == 9


@pytest.mark.parametrize("name", ["with-token", "with-password"])
def test_a_download_secret_has_all_that_a_private_server_asks_for(world: World, name: str) -> None:
    world.team.ready(name)
    assert world.team.value(name) == 5


@pytest.mark.parametrize(
    ("name", "reason", "words"),
    [
        ("wrong-sum", "ChecksumMismatch", "0" * 64),
        ("hostile", "ArchiveEscapes", "escaped"),
        ("missing", "DownloadNotFound", "404"),
        ("lying", "DownloadCut", "trying again"),
        ("wrong-token", "DownloadForbidden", "downloadSecret"),
        ("no-authority", "DownloadCertificateInvalid", "CA"),
        ("no-secret", "SecretNotFound", "no-secret"),
    ],
)
def test_a_download_that_fails_says_why(world: World, name: str, reason: str, words: str) -> None:
    assert words in world.team.said(name, reason)
    assert world.team.conditions(name)["Available"]["status"] == "False"
    told = json.dumps([world.team.model(name), world.team.pods(name)])
    assert not [secret for secret in SECRETS if secret in told]


def test_a_download_that_stalls_goes_on_where_it_broke_off(world: World) -> None:
    world.team.wait(lambda: world.shelf.downloads.waiting("stalling.tar"), "the download to stall", "stalling")
    world.shelf.downloads.behave("stalling.tar", stops_after=1000)
    assert world.team.conditions("stalling")["Ready"]["status"] == "False"
    world.shelf.downloads.behave("stalling.tar")
    world.team.ready("stalling")
    assert world.team.value("stalling") == 1


def test_a_missing_secret_can_be_made_later(world: World) -> None:
    world.team.said("no-secret", "SecretNotFound")
    found = world.team.get("secret", "with-token")
    world.team.create({**secret("no-secret"), "data": found["data"]})
    world.team.ready("no-secret")
    assert world.team.value("no-secret") == 5


def test_what_is_corrected_is_served(world: World) -> None:
    world.team.said("wrong-sum", "ChecksumMismatch")
    file = world.shelf.files["v1"]
    url = f"http://{world.shelf.downloads.host}/wrong-sum.tar"
    world.team.change("wrong-sum", manifest=manifest(v1=(url, file.sha256)))
    world.team.ready("wrong-sum")
    assert world.team.value("wrong-sum") == 1


def test_no_secret_is_in_a_log(world: World, operator: Operator) -> None:
    for name in ("with-token", "with-password", "wrong-token", "from-private"):
        (pod, *_) = world.team.pods(name)
        said = world.team.kubectl("logs", pod["metadata"]["name"], "--container=fetch", "--tail=-1", check=False)
        assert not [secret for secret in SECRETS if secret in said + operator.logs()]


# Without image volumes ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def without_image_volumes(operator: Operator) -> Iterator[None]:
    """The operator as an admin has it who wants no image volumes."""
    operator.set_environment(MODELWRIGHT_IMAGE_VOLUMES="false")
    yield
    operator.set_environment(MODELWRIGHT_IMAGE_VOLUMES=None)


@pytest.mark.usefixtures("without_image_volumes")
@pytest.mark.parametrize(("name", "image"), [("mv-3", "open"), ("mv-4", "private")])
def test_a_model_version_is_unpacked_by_an_init_container_otherwise(world: World, name: str, image: str) -> None:
    world.team.serve(f"unpacked-{image}", modelVersion=name, pullSecret="login")
    world.team.ready(f"unpacked-{image}")
    (pod,) = world.team.pods(f"unpacked-{image}")
    assert not [volume for volume in pod["spec"]["volumes"] if "image" in volume]
    (fetch,) = pod["status"]["initContainerStatuses"]
    assert fetch["state"]["terminated"]["exitCode"] == 0
    assert world.team.value(f"unpacked-{image}") == int(name[-1])
