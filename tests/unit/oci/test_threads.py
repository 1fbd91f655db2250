"""Threads that read the same kind of answer for the first time at the same moment."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys, threading
from modelwright.oci import manifests, media
from modelwright.ports.images import Manifest

sys.setswitchinterval(1e-7)
digest = "sha256:" + "0" * 64
part = '{"mediaType":"%s","digest":"%s","size":1}' % (media.MANIFEST, digest)
index = '{"schemaVersion":2,"mediaType":"%s","manifests":[%s]}' % (media.INDEX, part)
barrier, read = threading.Barrier(16), []

def decode():
    barrier.wait()
    read.append(manifests.decode(Manifest(media.INDEX, digest, index.encode())))

threads = [threading.Thread(target=decode) for _ in range(16)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(read) == 16 and len({str(each) for each in read}) == 1
"""


@pytest.mark.parametrize("attempt", range(6))
def test_manifests_are_read_by_many_threads_from_the_first_one_on(attempt: int) -> None:
    """One in four of these processes died of signal 11 while each thread made up its own decoder."""
    subprocess.run([sys.executable, "-X", "faulthandler", "-c", PROGRAM], check=True)
