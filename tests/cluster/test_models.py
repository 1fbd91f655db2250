"""Models: made for their versions, told which is the latest, and gone with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster import builds
from tests.cluster.builds import JSON, User, local, version
from tests.cluster.operator import Operator

SUSPEND = "modelwright.dev/suspend"


@pytest.fixture(scope="module")
def user(operator: Operator) -> Iterator[User]:
    """Whose versions are built at once, and looked at by one test each."""
    with builds.user_of(operator.cluster) as user:
        user.create(of(user, "digits", "digits-2"), of(user, "fails", "fails-1"))
        user.create(of(user, "ends", "ends-1", there=False))
        user.create(of(user, "orphans", "orphans-1"), *(_suspended(of(user, "later", f"later-{n}")) for n in (1, 2)))
        user.create(*(of(user, how, f"{how}-{number}") for how in ("background", "foreground") for number in (1, 2)))
        yield user


def folder(user: User, name: str) -> Path:
    """The folder of a version on cloud-0."""
    node = next(node for node in user.cluster.nodes if node.name == "cloud-0")
    return Path(node.root, "models", user.namespace, name)


def of(user: User, model: str, name: str, *, there: bool = True, **spec: str) -> JSON:
    """A version of this Model, whose files are there, or come later."""
    if there:
        builds.write_model(folder(user, name), name, size=1000)
    storage = local("cloud-0", f"/models/{user.namespace}/{name}")
    return version(name, storage, modelName=model, imageRepo=f"models/{user.namespace}", **spec)


def _suspended(wanted: JSON) -> JSON:
    return wanted | {"metadata": {**wanted["metadata"], "annotations": {SUSPEND: "true"}}}


def model(name: str, **spec: str) -> JSON:
    return {"apiVersion": "model.kubedl.io/v1alpha1", "kind": "Model", "metadata": {"name": name}, "spec": spec}


def status(user: User, name: str) -> JSON:
    """The status of a Model; empty if it has none, or there is none."""
    found = [each for each in user.get("models")["items"] if each["metadata"]["name"] == name]
    return dict(found[0].get("status", {})) if found else {}


def owner(user: User, name: str) -> JSON:
    """The one reference to an owner that a version has; empty if it has none."""
    found: list[JSON] = user.version(name)["metadata"].get("ownerReferences", [])
    return found[0] if found else {}


def latest(user: User, name: str) -> str:
    found: str = (status(user, name).get("latestVersion") or {}).get("modelVersion", "")
    return found


def gone(user: User, *names: str) -> None:
    """Wait until these KIND/NAME are gone."""
    user.kubectl("wait", "--for=delete", "--timeout=60s", *names)


def image_is_there(user: User, image: str) -> bool:
    return builds.modelwright("image", "inspect", "--plain-http", image) != ""


def test_a_model_is_made_for_its_versions_and_its_latest_is_that_whose_image_was_finished_last(user: User) -> None:
    user.ready("digits-2")
    user.create(of(user, "digits", "digits-1", there=False))
    user.until(lambda: status(user, "digits").get("versions") == 2, "the Model to count both")
    assert owner(user, "digits-1")["name"] == "digits"
    user.until(lambda: latest(user, "digits") == "digits-2", "the version with the only image to be the latest")
    builds.write_model(folder(user, "digits-1"), "digits-1", size=1000)
    user.ready("digits-1")
    user.until(lambda: latest(user, "digits") == "digits-1", "the version that was finished last to be the latest")
    built = user.version("digits-1")["status"]
    told = status(user, "digits")["latestVersion"]
    assert (told["imageName"], told["imageDigest"]) == (built["image"], built["imageDigest"])
    user.kubectl("delete", "mv", "digits-1")
    user.until(lambda: latest(user, "digits") == "digits-2", "the one before to be the latest again")
    assert status(user, "digits")["versions"] == 1


def test_a_version_whose_build_fails_is_never_the_latest(user: User) -> None:
    user.ready("fails-1")
    builds.write_model(folder(user, "fails-2"), "fails-2", size=1000)
    taken = user.version("fails-1")["status"]["image"].rpartition(":")[2]
    user.create(of(user, "fails", "fails-2", imageTag=taken))
    assert taken in user.told("fails-2", "ImageTagTaken")
    assert user.condition("fails-2", "Stalled")["status"] == "True"
    assert latest(user, "fails") == "fails-1"
    assert status(user, "fails")["versions"] == 2


@pytest.mark.parametrize("how", ["background", "foreground"])
def test_deleting_a_model_deletes_its_versions_and_never_files_or_images(user: User, how: str) -> None:
    names = [f"{how}-{number}" for number in (1, 2)]
    user.ready(*names)
    images = [user.version(name)["status"]["resolvedImage"] for name in names]
    user.kubectl("delete", "model", how, f"--cascade={how}")
    if how == "foreground":
        assert [name for name in names if name in user.kubectl("get", "mv", "-o", "name")] == []
    gone(user, f"mo/{how}", *(f"mv/{name}" for name in names))
    assert [image_is_there(user, image) for image in images] == [True, True]
    assert all((folder(user, name) / "weights.bin").exists() for name in names)
    assert f"model.model.kubedl.io/{how}" not in user.kubectl("get", "models", "-o", "name")


def test_deleting_a_model_ends_the_builds_of_its_versions(user: User) -> None:
    user.until(lambda: {child.partition("/")[0] for child in user.children("ends-1")} >= {"Job", "Pod"}, "its build")
    uid = user.version("ends-1")["metadata"]["uid"]
    user.kubectl("delete", "model", "ends")
    gone(user, "mv/ends-1")
    selector = ("jobs,pods,pvc,pv", "--selector", f"modelwright.dev/owner-uid={uid}")
    user.until(lambda: user.get(*selector)["items"] == [], "its build to be gone")


def test_versions_that_were_left_behind_are_taken_up_by_a_new_model(user: User) -> None:
    user.ready("orphans-1")
    before = owner(user, "orphans-1")["uid"]
    # Another of its name comes at once, and kubectl may then wait for that one to go.
    user.kubectl("delete", "model", "orphans", "--cascade=orphan", "--wait=false")
    user.until(lambda: owner(user, "orphans-1").get("uid", before) != before, "a new Model to take it up")
    user.until(lambda: latest(user, "orphans") == "orphans-1", "the new Model to know its version")
    assert user.version("orphans-1")["status"]["attempts"] == 1


def test_a_version_that_was_there_first_is_taken_up_by_the_model_that_a_user_makes(user: User) -> None:
    user.ready("fails-1")  # whose place was behind them
    assert status(user, "later") == {}
    user.create(model("later", description="made by a person"))
    user.until(lambda: status(user, "later").get("versions") == 2, "the Model to count its versions")
    for name in ("later-1", "later-2"):
        user.kubectl("annotate", "mv", name, f"{SUSPEND}-")
    user.ready("later-1", "later-2")
    uid = user.get("model", "later")["metadata"]["uid"]
    assert {owner(user, name)["uid"] for name in ("later-1", "later-2")} == {uid}
    assert user.get("model", "later")["spec"] == {"description": "made by a person"}


def test_a_model_has_no_latest_version_while_its_only_version_has_no_image(user: User) -> None:
    user.create(of(user, "waits", "waits-1", there=False))
    user.until(lambda: status(user, "waits").get("versions") == 1, "the Model to be made")
    assert user.told("waits-1", "MountFailed")
    assert "latestVersion" not in status(user, "waits")
    assert user.condition("model/waits")["message"] == "1 version, none has an image yet"


def test_a_model_without_a_version_says_so(user: User) -> None:
    user.create(model("empty"))
    user.until(lambda: user.condition("model/empty").get("status") == "True", "the Model to be Ready")
    assert user.condition("model/empty")["message"] == "0 versions, none has an image yet"
    assert status(user, "empty")["versions"] == 0
