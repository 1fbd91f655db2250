"""What the Events of a Pod that serves say is wrong with it: a Secret that cannot be mounted is told nowhere else."""

from __future__ import annotations

import re

from modelwright.adapters.kubernetes.client import KubernetesClient
from modelwright.adapters.kubernetes.workloads import events
from modelwright.adapters.kubernetes.workloads.kinds import Pod
from modelwright.ports.workloads import Failure

_SET_UP = re.compile(r'^MountVolume\.SetUp failed for volume "(token|tls)" ?: (.*)$')
_NO_SECRET = re.compile(r'secret "([^"]+)" not found')
_NO_KEY = re.compile(r"references non-existent secret key: (\S+)")
FIELDS = {"token": "auth.tokenSecret", "tls": "tls.secret"}
COMMANDS = {
    "token": "kubectl create secret generic {name} --from-literal=token=TOKEN",
    "tls": "kubectl create secret tls {name} --cert=FILE --key=FILE",
}


async def pod_failure(client: KubernetesClient, pod: Pod) -> Failure | None:
    """Why no container of a Pod that has a node is made. Raises what the client raises."""
    metadata, node = pod.metadata, pod.spec.node_name
    for event in await events.warnings(client, metadata.namespace, metadata.uid):
        found = secret_failure(event.message, metadata.namespace) if event.reason == "FailedMount" else None
        if found is not None:
            return found
    return await events.pod_failure(client, metadata.namespace, metadata.uid, volume=None, node=node)


def secret_failure(message: str, namespace: str) -> Failure | None:
    """What the kubelet says of a Secret that the server needs, in the user's words; None if it speaks of another."""
    set_up = _SET_UP.match(message)
    if set_up is None:
        return None
    volume, said = set_up[1], set_up[2]
    if (missing := _NO_SECRET.search(said)) is not None:
        command = COMMANDS[volume].format(name=missing[1])
        text = f"there is no Secret {missing[1]} ({FIELDS[volume]}): make it with `{command} -n {namespace}`"
    elif (key := _NO_KEY.search(said)) is not None:
        text = f"the Secret of {FIELDS[volume]} has no key {key[1]}: give it one"
    else:
        return None
    return Failure(reason="SecretNotFound", message=f"{text}; it begins by itself then", retryable=True)
