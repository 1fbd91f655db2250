"""The two models side by side: which outputs an answer has, and what the cloud model calls them."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from modelwright.gateway import v1
from modelwright.gateway.agree import Agreement, agree
from modelwright.gateway.describe import DEFAULT_SIGNATURE, Description
from modelwright.gateway.pose import CannotPose, Request
from modelwright.gateway.side import Side

log = logging.getLogger("modelwright.gateway")


class Pair:
    """An edge model and a cloud model. What is known of either may change at any time."""

    def __init__(self, edge: Side, cloud: Side) -> None:
        self.edge = edge
        self.cloud = cloud
        self._compared: tuple[Description | None, Description | None] = (None, None)
        self._agreement = Agreement()

    @property
    def agreement(self) -> Agreement:
        """How the two models go together, as far as they are known."""
        self.compare()
        return self._agreement

    def compare(self) -> None:
        """Looks whether they go together, if one of them is known anew."""
        pair = (self.edge.description, self.cloud.description)
        if pair[0] is not self._compared[0] or pair[1] is not self._compared[1]:
            before, self._compared, self._agreement = self._agreement, pair, agree(*pair)
            self.cloud.fault = self._agreement.fault
            if self._agreement.fault and self._agreement.fault != before.fault:
                log.error("the cloud model cannot answer for the edge model: %s", self._agreement.fault)

    def checked(self, names: Sequence[str] = ()) -> Agreement:
        """The agreement; raises CannotPose if there is none, or none about these outputs."""
        agreement = self.agreement
        missing = next((name for name in names if not agreement.has(name)), "")
        if agreement.fault or missing:
            message = agreement.fault or f"it has no output in the place of {missing!r}"
            raise CannotPose(message, reason="ModelsDiffer")
        return agreement

    def names(self, request: Request, description: Description | None) -> tuple[str, ...] | None:
        """The outputs that the answer has, in the edge's words: those that are named, else those that both models have.

        None if that is not known beforehand.
        """
        if description is None:
            return None
        if not isinstance(request, v1.Request):
            if request.wanted:
                return request.wanted
        elif request.signature in description.signatures:
            return self.common(description.signatures[request.signature].output_names)
        elif description.signatures or request.signature != DEFAULT_SIGNATURE:
            return None
        if description.outputs is None:
            return None
        return self.common(tuple(spec.name for spec in description.outputs))

    def common(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Those that both models have; all, if there is no such one."""
        if self.agreement.fault:
            return names
        return tuple(name for name in names if self.agreement.has(name)) or names

    def only_cloud_has(self, request: Request) -> bool:
        """Whether the client asks by name for something that the cloud model has and the edge model has not."""
        edge, cloud = self.edge.description, self.cloud.description
        if edge is None or cloud is None or edge.outputs is None or cloud.outputs is None or self.agreement.fault:
            return False
        if isinstance(request, v1.Request):
            known = edge.signatures
            return bool(known) and request.signature not in known and request.signature in cloud.signatures
        ours, theirs = ({spec.name for spec in each.outputs or ()} for each in (edge, cloud))
        asked = {name if name not in ours else self.agreement.output(name) for name in request.wanted}
        return not set(request.wanted) <= ours and asked <= theirs

    def datatype(self, name: str) -> str:
        """The data type of an output of the edge model, empty if it is not known."""
        spec = self.edge.description.output(name) if self.edge.description else None
        return spec.datatype if spec else ""
