"""What was written of Deployments is known as long as they are there."""

from __future__ import annotations

import msgspec
from tests.unit.kubernetes_servers.cloud_support import OWNER, a_server, rendered, stored

from modelwright.adapters.kubernetes.servers.written import Written

replace = msgspec.structs.replace
SERVER = a_server()
BODY = rendered(SERVER)


def test_a_change_since_our_write_is_seen_and_what_another_process_wrote_is_taken_as_it_is() -> None:
    written = Written()
    assert written.is_as_written(SERVER, stored(BODY, generation=7))
    written.wrote(SERVER, stored(BODY, generation=7))
    assert written.is_as_written(SERVER, stored(BODY, generation=7))
    assert not written.is_as_written(SERVER, stored(BODY, generation=8))


def test_one_that_was_made_anew_is_no_change_of_the_former() -> None:
    written = Written()
    written.wrote(SERVER, stored(BODY, generation=7))
    anew = stored(BODY, generation=1)
    anew = replace(anew, metadata=replace(anew.metadata, uid="another"))
    assert written.is_as_written(SERVER, anew)
    written.wrote(SERVER, anew)
    assert len(written) == 1


def test_nothing_is_kept_of_what_is_gone() -> None:
    written = Written()
    second = replace(SERVER, name="resnet-serve-2")
    for server in (SERVER, second, replace(SERVER, owner=replace(OWNER, uid="uid-2"))):
        written.wrote(server, stored(rendered(server)))
    written.forget(OWNER.uid, SERVER.name)
    assert not written.is_as_written(second, stored(BODY, generation=2))
    written.forget(OWNER.uid, second.name)
    written.forget(OWNER.uid, "never there")
    written.forget_owner("uid-2")
    written.forget_owner("never there")
    assert len(written) == 0
