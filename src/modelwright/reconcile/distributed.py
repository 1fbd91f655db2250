"""What each worker of a distributed training is told of itself and of the others, as environment variables.

Every worker gets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as `torch.distributed`'s `env://` reads them.
TensorFlow gets TF_CONFIG, as `tf.distribute.MultiWorkerMirroredStrategy` reads it: worker 0 is the chief.
PyTorch, and any framework that is not known, gets what torchrun sets beside.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

TENSORFLOW = "tensorflow"
_INDEX = re.compile(r"[0-9]+|\$\([A-Za-z_.-][A-Za-z0-9_.-]*\)", re.ASCII)


def variables(framework: str, index: str, addresses: Sequence[str], *, local: bool) -> dict[str, str]:
    """The variables of the worker `index`, in an order in which each may use those before it.

    `index` is a number, or a reference to a variable such as `$(RANK)` where it is known at the start only; a reference
    to RANK means that RANK is set already, and leaves it out. `addresses` are the workers' `HOST:PORT`, by index.
    `local` says that all workers are on one node; else each has a node of its own.
    Raises ValueError for an index or an address that is none.
    """
    if not _INDEX.fullmatch(index) or (index.isdigit() and int(index) >= len(addresses)):
        raise ValueError(f"{index!r} is neither the index of one of {len(addresses)} workers nor a reference")
    host, port = split_address(addresses[0])
    world = str(len(addresses))
    rank = {} if index == "$(RANK)" else {"RANK": index}
    own = {**rank, "WORLD_SIZE": world, "MASTER_ADDR": host, "MASTER_PORT": port}
    if framework.lower() == TENSORFLOW:
        return {**own, "TF_CONFIG": tf_config(index, addresses)}
    return {**own, **torchrun(index, world, local=local)}


def torchrun(index: str, world: str, *, local: bool) -> dict[str, str]:
    """The variables that torchrun adds to rank, world size and master; a group is a node's workers, of one role."""
    own, all_local = (index, world) if local else ("0", "1")
    group, groups = ("0", "1") if local else (index, world)
    return {
        "LOCAL_RANK": own,
        "LOCAL_WORLD_SIZE": all_local,
        "GROUP_RANK": group,
        "GROUP_WORLD_SIZE": groups,
        "ROLE_NAME": "default",
        "ROLE_RANK": index,
        "ROLE_WORLD_SIZE": world,
    }


def tf_config(index: str, addresses: Sequence[str]) -> str:
    """TF_CONFIG as JSON. The index stands as it is, so that a reference has become a number once it is expanded."""
    workers = msgspec.json.encode(list(addresses)).decode()
    return f'{{"cluster":{{"worker":{workers}}},"task":{{"type":"worker","index":{index}}}}}'


def split_address(address: str) -> tuple[str, str]:
    """Host and port of `HOST:PORT`; an IPv6 host loses its brackets."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit()):
        raise ValueError(f"{address!r} is not HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), port
