"""How a gateway process is started."""

from __future__ import annotations

import msgspec

from modelwright.gateway.address import parse_url
from modelwright.gateway.config import GatewayConfig, ModelConfig, check
from modelwright.http.options import ProcessOptions
from modelwright.ports.errors import Invalid


class GatewayOptions(ProcessOptions, frozen=True, kw_only=True):
    """The command line of `modelwright gateway`: `config`, or what a configuration says, by hand.

    `name` is the edge model's if it is empty.
    """

    edge: ModelConfig = ModelConfig()
    cloud: ModelConfig = ModelConfig()
    name: str = ""
    policy: str = "confidence"
    parameters: dict[str, float] = msgspec.field(default_factory=dict)
    timeout_seconds: float = 2.0
    scores: str = ""
    keep_folder: str = ""
    keep_max_bytes: int = 0


def config_by_hand(options: GatewayOptions) -> GatewayConfig:
    """The configuration that the options describe; raises Invalid (ConfigInvalid)."""
    if not options.edge.url or not options.cloud.url:
        raise Invalid("say what to join: --config FILE, or --edge URL and --cloud URL", reason="ConfigInvalid")
    config = GatewayConfig(
        name=options.name or parse_url(options.edge.url).model,
        edge=options.edge,
        cloud=options.cloud,
        policy=options.policy,
        parameters=options.parameters,
        timeout_seconds=options.timeout_seconds,
        scores=options.scores,
        keep_folder=options.keep_folder,
        keep_max_bytes=options.keep_max_bytes,
    )
    check(config)
    return config
