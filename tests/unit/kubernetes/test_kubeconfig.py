"""Kubeconfig files are read as kubectl reads them, and what is unsafe is refused."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from modelwright.adapters.kubernetes.kubeconfig import load_kubeconfig
from modelwright.adapters.kubernetes.locate import default_data_dir, find_access, in_cluster
from modelwright.ports.errors import Invalid, ModelwrightError, NotFound


def config(
    server: str = "https://one:6443", user: dict[str, Any] | None = None, *, name: str = "one", **more: Any
) -> dict[str, Any]:
    user = (user or {}) | more
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": server}}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": f"{name}-space"}}],
    }


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def test_the_current_context_is_taken(tmp_path: Path) -> None:
    access = load_kubeconfig([write(tmp_path / "config", config(token="t"))])
    assert (access.server, access.namespace, access.login.token) == ("https://one:6443", "one-space", "t")
    assert "context 'one'" in access.source


def test_a_context_and_a_namespace_can_be_chosen(tmp_path: Path) -> None:
    files = [write(tmp_path / "a", config()), write(tmp_path / "b", config("https://two", name="two"))]
    assert load_kubeconfig(files).server == "https://one:6443"
    chosen = load_kubeconfig(files, "two", "mine")
    assert (chosen.server, chosen.namespace) == ("https://two", "mine")


def test_the_first_file_to_name_a_thing_wins(tmp_path: Path) -> None:
    files = [write(tmp_path / "a", config(token="first")), write(tmp_path / "b", config("https://late", token="late"))]
    access = load_kubeconfig([tmp_path / "missing", *files])
    assert (access.server, access.login.token) == ("https://one:6443", "first")


def test_paths_are_beside_the_file_that_names_them(tmp_path: Path) -> None:
    body = config(user={"client-certificate": "pki/c", "client-key": "pki/k", "tokenFile": "t"})
    body["clusters"][0]["cluster"]["certificate-authority"] = "pki/ca"
    for name in ("c", "k", "ca"):
        write(tmp_path / "sub" / "pki" / name, f"<{name}>")
    access = load_kubeconfig([write(tmp_path / "sub" / "config", body)])
    assert (access.ca, access.login.certificate, access.login.key) == (b"<ca>", b"<c>", b"<k>")
    assert access.login.token_file == tmp_path / "sub" / "t"


def test_data_wins_over_files(tmp_path: Path) -> None:
    body = config()
    data = base64.b64encode(b"authority").decode()
    body["clusters"][0]["cluster"] |= {"certificate-authority-data": data, "certificate-authority": "missing"}
    assert load_kubeconfig([write(tmp_path / "config", body)]).ca == b"authority"


def test_a_login_program_beside_the_file_is_found_there(tmp_path: Path) -> None:
    program = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./login",
        "env": [{"name": "A", "value": "b"}],
    }
    plugin = load_kubeconfig([write(tmp_path / "config", config(exec=program))]).login.plugin
    assert plugin is not None
    assert plugin.command == str(tmp_path / "login")
    assert plugin.env == (("A", "b"),)


def test_whom_to_act_as_is_kept(tmp_path: Path) -> None:
    login = load_kubeconfig([write(tmp_path / "config", config(user={"as": "jane", "as-groups": ["a"]}))]).login
    assert (login.impersonate_user, login.impersonate_groups) == ("jane", ("a",))


def test_unknown_fields_and_nulls_do_no_harm(tmp_path: Path) -> None:
    body = config() | {"preferences": {}, "extensions": None}
    body["users"].append({"name": "empty", "user": None})
    assert load_kubeconfig([write(tmp_path / "config", body)]).server == "https://one:6443"


def insecure() -> dict[str, Any]:
    body = config()
    body["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = True
    return body


@pytest.mark.parametrize(
    ("content", "reason", "says"),
    [
        (insecure(), "TlsVerificationRequired", "certificate-authority-data"),
        (config(username="u", password="p"), "LoginNotSupported", "password"),
        (config(user={"auth-provider": {"name": "gcp"}}), "LoginNotSupported", "auth-provider"),
        (config(exec={"apiVersion": "v9", "command": "x"}), "LoginNotSupported", "v9"),
        (config(user={"client-key-data": "%%%"}), "InvalidKubeconfig", "cannot be read"),
        (config(user={"client-certificate": "missing"}), "InvalidKubeconfig", "cannot be read"),
        (config(user={"as-groups": ["a"]}), "InvalidKubeconfig", "as-groups"),
        ("- just\n- a list", "InvalidKubeconfig", "not a kubeconfig"),
        ("users:\n  - token: 'hunter2\n", "InvalidKubeconfig", "line"),
        (config() | {"current-context": "three"}, "ContextNotFound", "it has: one"),
        (config() | {"current-context": ""}, "ContextNotFound", "--context"),
        (config() | {"clusters": []}, "ClusterNotFound", "'one'"),
        (config() | {"users": None}, "UserNotFound", "'one'"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(tmp_path: Path, content: Any, reason: str, says: str) -> None:
    with pytest.raises(ModelwrightError, match=says) as refused:
        load_kubeconfig([write(tmp_path / "config", content)])
    assert refused.value.reason == reason
    assert isinstance(refused.value, Invalid | NotFound)
    assert "hunter2" not in refused.value.message


# Where it is looked for ---------------------------------------------------------------------------------------------


def test_what_is_named_comes_before_what_is_found(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    write(tmp_path / ".local/share/modelwright/kubeconfig", config("https://embedded"))
    assert find_access(environ=home).server == "https://embedded"
    write(tmp_path / ".kube/config", config("https://kube"))
    assert find_access(environ=home).server == "https://kube"
    named = write(tmp_path / "env", config("https://env"))
    both = home | {"KUBECONFIG": f"{tmp_path / 'missing'}:{named}"}
    assert find_access(environ=both).server == "https://env"
    option = write(tmp_path / "option", config("https://option"))
    assert find_access(option, environ=both).server == "https://option"


def test_the_data_folder_follows_the_desktop_standard(tmp_path: Path) -> None:
    assert default_data_dir({"HOME": "/h"}) == Path("/h/.local/share/modelwright")
    assert default_data_dir({"HOME": "/h", "XDG_DATA_HOME": "/data"}) == Path("/data/modelwright")


def test_no_kubeconfig_at_all_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="modelwright up") as missing:
        find_access(environ={"HOME": str(tmp_path)})
    assert missing.value.reason == "NoControlPlane"
    with pytest.raises(NotFound, match="no kubeconfig at"):
        find_access(tmp_path / "missing", environ={"HOME": str(tmp_path)})


def test_inside_a_pod_its_service_account_is_used(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    assert in_cluster(folder=tmp_path, environ=environ) is None
    for name, text in {"token": "t", "ca.crt": "authority", "namespace": "mine\n"}.items():
        write(tmp_path / name, text)
    access = in_cluster(folder=tmp_path, environ=environ)
    assert access is not None
    assert (access.server, access.namespace, access.ca) == ("https://[fd00::1]:443", "mine", b"authority")
    assert access.login.token_file == tmp_path / "token"
    assert in_cluster(folder=tmp_path, environ={}) is None
