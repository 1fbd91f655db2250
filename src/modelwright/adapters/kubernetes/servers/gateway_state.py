"""What a gateway in a Pod prints of itself (`gateway.state` is the other side)."""

from __future__ import annotations

from typing import Literal

import msgspec

from modelwright.ports.workloads import AskedModel, Failure


class ModelState(msgspec.Struct, frozen=True, rename="camel"):
    """How it finds a model that it asks; `reason` and `message` say why that is of no use to it."""

    state: Literal["unknown", "ready", "failing"] = "unknown"
    reason: str = ""
    message: str = ""


class GatewayState(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """`config_digest` is that of the configuration in force, `reason` and `message` say why a newer one is not;
    `kept_bytes` is how much it has kept, None where it keeps nothing."""

    config_digest: str
    reason: str = ""
    message: str = ""
    kept_bytes: int | None = None
    edge: ModelState = ModelState()
    cloud: ModelState = ModelState()

    @property
    def asked(self) -> tuple[AskedModel, ...]:
        """The models that have been asked."""
        models: tuple[tuple[Literal["edge", "cloud"], ModelState], ...] = (("edge", self.edge), ("cloud", self.cloud))
        return tuple(_asked(side, model) for side, model in models if model.state != "unknown")

    @property
    def refused(self) -> Failure | None:
        """Why it goes on with its former configuration, None if it does not."""
        return Failure(reason=self.reason, message=self.message) if self.reason else None


def _asked(side: Literal["edge", "cloud"], model: ModelState) -> AskedModel:
    if not model.reason:
        return AskedModel(side=side)
    retryable = model.state == "failing"
    return AskedModel(side=side, failure=Failure(reason=model.reason, message=model.message, retryable=retryable))
