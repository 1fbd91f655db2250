"""Which rows of the edge model's answer are hard."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from modelwright.gateway import policies, v1
from modelwright.gateway.config import GatewayConfig
from modelwright.gateway.describe import Description
from modelwright.gateway.metrics import Metrics
from modelwright.gateway.pose import Request, in_rows
from modelwright.gateway.scores import find_scores, hard_rows
from modelwright.gateway.side import Reply
from modelwright.gateway.tensors import Spec, Tensor

log = logging.getLogger("modelwright.gateway")

_MATRIX = 2
_MOST_SIGNATURES = 256


class Verdict(NamedTuple):
    """Which rows are hard, of how many. `whole`: it cannot be divided, and is hard as one if any of its rows is."""

    rows: tuple[int, ...]
    size: int
    whole: bool

    @property
    def all_hard(self) -> bool:
        return len(self.rows) == self.size


class Judge:
    """The policy of one configuration. A model without scores has hard rows only, unless the policy needs none."""

    def __init__(self, config: GatewayConfig, metrics: Metrics) -> None:
        """Raises Invalid (ConfigInvalid) for a policy that cannot be made."""
        self._policy = policies.make(config.policy, config.parameters)
        self._needs_scores = policies.needs_scores(config.policy)
        self._name = config.policy
        self._scores = config.scores
        self._metrics = metrics
        self._told: object = None
        self._of: object = None
        self._found: dict[str, str] = {}

    def scores_for(self, request: Request, description: Description) -> str:
        """The output with scores that can be had with what the request asks for; empty if there is none."""
        if not self._needs_scores:
            return ""
        signature = request.signature if isinstance(request, v1.Request) and description.v1 else ""
        if self._of is not description or len(self._found) > _MOST_SIGNATURES:
            self._of, self._found = description, {}
        if signature not in self._found:
            outputs = description.with_signature(signature) or description.outputs
            self._found[signature] = find_scores(outputs, self._scores)
        return self._found[signature]

    def verdict(self, request: Request, reply: Reply, names: Sequence[str]) -> Verdict:
        """Looks at the scores of each row of an answer with these outputs."""
        count = request.rows
        looked_at = (*names, self.scores_for(request, reply.description))
        ragged = any(tensor.rows != count for name, tensor in reply.told.tensors.items() if name in looked_at)
        whole = count is None or ragged or (count != 1 and not in_rows(reply.description))
        size = 1 if whole or count is None else count
        hard = self._hard(request, reply, size, whole=whole)
        self._metrics.hard += len(hard)
        return Verdict(tuple(hard), size, whole)

    def _hard(self, request: Request, reply: Reply, size: int, *, whole: bool) -> list[int]:
        if not self._needs_scores:
            return [row for row in range(size) if self._policy(())]
        scores = self._find(request, reply)
        if scores is None:
            self._notice_none(reply.description, size)
            return list(range(size))
        if not scores.shape or (whole and len(scores.shape) == 1):
            scores = scores.reshaped((1, len(scores.values)))
        hard = hard_rows(scores, self._policy, self._failed)
        return [0] if whole and hard else hard

    def _find(self, request: Request, reply: Reply) -> Tensor | None:
        """The scores, where the answer has some that can be understood."""
        tensors = reply.told.tensors
        name = self.scores_for(request, reply.description)
        if not name and reply.posed.specs is None:
            name = find_scores([Spec(each.name, each.datatype, (-1, *each.shape[1:])) for each in tensors.values()])
        found = tensors.get(name)
        return found if found is not None and found.kind in ("float", "int") and len(found.shape) <= _MATRIX else None

    def _notice_none(self, description: Description, rows: int) -> None:
        self._metrics.without_scores += rows
        if self._told is not description:
            self._told = description
            log.warning(
                "the edge model gives no scores for policy %s: every row counts as hard and goes to the cloud model. "
                "Serve a model that gives probabilities, say which output has them, or use the policy random",
                self._name,
            )

    def _failed(self, error: Exception) -> None:
        self._metrics.policy_failures += 1
        if self._metrics.policy_failures == 1:
            log.error("policy %s failed, so a row counts as hard: %r", self._name, error)
