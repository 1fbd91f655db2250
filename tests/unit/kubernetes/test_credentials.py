"""Tokens that are replaced while we run, and programs that log in."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from modelwright.adapters.kubernetes.access import Access, ExecPlugin, Login
from modelwright.adapters.kubernetes.credentials import Credentials
from modelwright.ports.errors import Forbidden, Invalid, Unavailable

pytestmark = pytest.mark.anyio
V1 = "client.authentication.k8s.io/v1"


def access(login: Login) -> Access:
    return Access(server="https://127.0.0.1:6443", source="a test", ca=b"authority", login=login)


def plugin(code: str, *args: str, **more: object) -> Credentials:
    """Credentials from a program: Python that prints what it likes."""
    made = ExecPlugin(V1, sys.executable, ("-c", code, *args), **more)  # type: ignore[arg-type]
    return Credentials(access(Login(plugin=made)))


def printing(**status: str) -> str:
    return f"print({json.dumps(json.dumps({'apiVersion': V1, 'kind': 'ExecCredential', 'status': status}))})"


async def test_a_replaced_token_file_is_read_again_when_the_old_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old\n")
    credentials = Credentials(access(Login(token_file=path)))
    assert (await credentials.current()).token == "old"
    path.write_text("new\n")
    assert (await credentials.current()).token == "old"
    assert credentials.renew()
    assert (await credentials.current()).token == "new"


async def test_a_token_file_that_is_missing_may_come_back(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="token"):
        await Credentials(access(Login(token_file=tmp_path / "token"))).current()


async def test_a_fixed_token_cannot_be_renewed() -> None:
    credentials = Credentials(access(Login(token="fixed")))
    assert (await credentials.current()).token == "fixed"
    assert not credentials.renew()


async def test_a_program_that_logs_in_is_asked_once_while_its_token_lasts(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    code = f"open({str(runs)!r}, 'a').write('x');" + printing(token="t", expirationTimestamp="2999-01-01T00:00:00Z")
    credentials = plugin(code)
    assert [(await credentials.current()).token for _ in range(3)] == ["t"] * 3
    assert runs.read_text() == "x"


async def test_a_program_is_asked_again_when_its_token_has_run_out(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    code = f"open({str(runs)!r}, 'a').write('x');" + printing(token="t", expirationTimestamp="2001-01-01T00:00:00Z")
    credentials = plugin(code)
    for _ in range(3):
        await credentials.current()
    assert runs.read_text() == "xxx"


async def test_a_program_may_give_a_certificate() -> None:
    credential = await plugin(printing(clientCertificateData="CERT", clientKeyData="KEY")).current()
    assert (credential.certificate, credential.key) == (b"CERT", b"KEY")


async def test_a_program_is_told_about_the_cluster_where_it_asks_for_it() -> None:
    code = """
import json, os
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
token = info["spec"]["cluster"]["server"] + " " + os.environ["EXTRA"]
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": {"token": token}}))
"""
    credentials = plugin(code, provide_cluster_info=True, env=(("EXTRA", "x"),))
    assert (await credentials.current()).token == "https://127.0.0.1:6443 x"


@pytest.mark.parametrize(
    "code",
    ["print('secret-token')", "print('{}')", printing(), printing(clientCertificateData="only half"), "pass"],
)
async def test_what_is_no_credential_is_refused_without_being_repeated(code: str) -> None:
    with pytest.raises(Invalid) as refused:
        await plugin(code).current()
    assert "secret-token" not in refused.value.message


async def test_a_credential_of_another_version_is_refused() -> None:
    with pytest.raises(Invalid, match="v1beta1"):
        await plugin(printing(token="t").replace(V1, V1 + "beta1")).current()


async def test_a_program_that_fails_is_said_to_have() -> None:
    with pytest.raises(Forbidden, match="ended with 3"):
        await plugin("import sys; sys.exit(3)").current()


async def test_a_program_that_is_missing_is_said_to_be_with_its_hint(tmp_path: Path) -> None:
    missing = ExecPlugin(V1, str(tmp_path / "no-such"), install_hint="get it from your admin")
    with pytest.raises(Forbidden, match="get it from your admin"):
        await Credentials(access(Login(plugin=missing))).current()
