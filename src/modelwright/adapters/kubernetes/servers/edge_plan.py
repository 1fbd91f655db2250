"""What is to be done next about one Pod at the edge: a pure function of what is wanted and what there is."""

from __future__ import annotations

from enum import Enum

import msgspec

from modelwright.adapters.kubernetes.servers import edge_faults, edge_turns
from modelwright.adapters.kubernetes.servers.edge_pod import Rendered
from modelwright.adapters.kubernetes.servers.node_choice import Choice
from modelwright.adapters.kubernetes.workloads.kinds import Pod, going
from modelwright.ports.workloads import Failure, Owner, Server

OVER = edge_turns.OVER


class Do(Enum):
    """One step; the next is decided on once this one has shown."""

    NOTHING = "nothing"
    MAKE = "make"
    TELL = "tell"
    REPLACE = "replace"
    """Delete what serves: another is made when it is gone."""
    RENEW = "renew"
    """Delete what has ended: another like it is made when it is gone."""
    END = "end"


class Decision(msgspec.Struct, frozen=True):
    """`failure` says what stands against the next step; `deferred`: the Pod is to be replaced, and not yet."""

    do: Do
    failure: Failure | None = None
    deferred: bool = False


def decide(
    server: Server,
    choice: Choice,
    rendered: Rendered | None,
    pod: Pod | None,
    rival: Owner | None,
    *,
    swept: bool,
    turn: bool = True,
) -> Decision:
    """`rendered` is what it should be on the chosen node, `pod` what there is; `rival` is who has the port on that
    node already. While what was kept there is being removed (`swept` False), nothing is made. What the operator alone
    has another way now waits for its `turn`, and is told meanwhile what the user wants.

    What serves is not touched for a node that cannot be had: it goes on serving where it is.
    """
    if server.replicas == 0:
        return Decision(Do.NOTHING if going(pod) else Do.END)
    if choice.node is None or rendered is None:
        return Decision(Do.NOTHING, choice.failure)
    if rival is not None:
        return Decision(Do.NOTHING, edge_faults.port_taken(server, choice.node.name, rival))
    if pod is None:
        return Decision(Do.MAKE if swept else Do.NOTHING)
    if going(pod):
        return Decision(Do.NOTHING)
    if pod.status.phase in OVER:
        return Decision(Do.RENEW)
    other = pod.metadata.annotations.rendered != rendered.digest
    deferred = other and not turn and is_operators(pod, rendered)
    if other and not deferred:
        return Decision(Do.REPLACE)
    return Decision(Do.NOTHING if is_told(pod, rendered) else Do.TELL, deferred=deferred)


def is_operators(pod: Pod, rendered: Rendered) -> bool:
    """Whether a Pod is to be another for the operator's sake alone, and has something to lose by it. One that names no
    wish was made by an operator that knew of none."""
    if not edge_turns.has_images(pod):
        return False
    return pod.metadata.annotations.asked in ("", rendered.asked)


def has_time(decision: Decision, refused: Failure | None) -> bool:
    """Whether a step is put off until a pause is over: what was `refused` a moment ago is not asked for again at once,
    and a Pod that its node ends again and again, as one whose disk is full does, not made anew at once."""
    if decision.failure is not None:
        return False
    return decision.do is Do.RENEW or (refused is not None and decision.do in (Do.MAKE, Do.REPLACE))


def is_told(pod: Pod, rendered: Rendered) -> bool:
    """Whether the Pod's annotation says what is wanted."""
    return told_of(pod) == next(iter(rendered.told.values()), "")


def told_of(pod: Pod) -> str:
    """What a Pod is told at the moment."""
    return pod.metadata.annotations.serve or pod.metadata.annotations.gateway


def tell(pod: Pod, rendered: Rendered) -> dict[str, object]:
    """A merge patch that tells it what is wanted, of this very Pod as it was seen."""
    metadata = {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version}
    return {"metadata": {**metadata, "annotations": dict(rendered.told)}}
