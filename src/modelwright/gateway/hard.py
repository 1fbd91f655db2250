"""The hard rows of a request: how the cloud model is asked for them, and what its answer is in the edge's words."""

from __future__ import annotations

from typing import NamedTuple

from modelwright.gateway.address import Address
from modelwright.gateway.describe import Description
from modelwright.gateway.judge import Verdict
from modelwright.gateway.pair import Pair
from modelwright.gateway.pose import CannotPose, Posed, Request, Selector, Wish, pose
from modelwright.gateway.side import Headers, Reply
from modelwright.gateway.tensors import Tensor


class Ask(NamedTuple):
    """A request of a client; `headers` are those that go on."""

    request: Request
    selector: Selector
    headers: Headers


class OfCloud(NamedTuple):
    """The cloud model's tensors for the hard rows, under the edge's names."""

    tensors: dict[str, Tensor]
    version: str


class HardRows:
    """The hard rows of one request.

    `names` are the outputs of the answer. With `more`, what else the edge model has said of each row is asked of the
    cloud model too, if it can be had: the next training may learn from it.
    """

    def __init__(
        self, pair: Pair, ask: Ask, reply: Reply, names: tuple[str, ...], verdict: Verdict, *, more: bool
    ) -> None:
        self._pair = pair
        self._ask = ask
        self._reply = reply
        self._names = names
        self._verdict = verdict
        self._asked = names
        self._more = (*names, *self._welcome()) if more else names

    def make(self, description: Description, address: Address) -> Posed:
        """The request to the cloud model; raises CannotPose, RequestError."""
        self._pair.checked(self._names)
        try:
            self._asked = self._more
            return self._pose(description, address)
        except CannotPose:
            if self._more == self._names:
                raise
        self._asked = self._names
        return self._pose(description, address)

    def use(self, cloud: Reply) -> OfCloud:
        """The answer in the edge's words; raises ValueError if a tensor cannot stand in the place of the edge's."""
        found = {name: self._fitting(name, counterpart(self._pair, cloud, name)) for name in self._asked}
        return OfCloud(found, cloud.told.version)

    def _welcome(self) -> tuple[str, ...]:
        rows, agreement = self._ask.request.rows, self._pair.agreement
        tensors = self._reply.told.tensors.items()
        divided = [name for name, tensor in tensors if self._verdict.whole or tensor.rows == rows]
        return tuple(name for name in divided if name not in self._names and agreement.has(name))

    def _pose(self, description: Description, address: Address) -> Posed:
        agreement, verdict = self._pair.agreement, self._verdict
        wish = Wish(
            outputs=tuple(map(agreement.output, self._asked)),
            rows=None if verdict.all_hard else verdict.rows,
            count=None if verdict.whole else len(verdict.rows),
            inputs=agreement.inputs or {},
            made_for=self._reply.description.inputs,
        )
        return pose(self._ask.request, wish, description, address, self._ask.selector)

    def _fitting(self, name: str, theirs: Tensor) -> Tensor:
        mine = self._reply.told.tensors[name]
        wanted = theirs.shape if self._verdict.whole else (len(self._verdict.rows), *mine.shape[1:])
        if theirs.kind != mine.kind or theirs.shape != wanted:
            told = f"{theirs.datatype} {list(theirs.shape)}, not {mine.datatype} {list(wanted)}"
            raise ValueError(f"output {theirs.name!r} is {told}")
        return theirs.named(name, mine.datatype)


def counterpart(pair: Pair, cloud: Reply, name: str) -> Tensor:
    """The cloud model's tensor in the place of an output of the edge; raises ValueError if it is not there."""
    found = cloud.told.tensors.get(pair.agreement.output(name))
    if found is None:
        raise ValueError(f"it has no output in the place of {name!r}")
    return found
