"""The image below the model: by default none."""

from __future__ import annotations

from typing import Any

import msgspec

from modelwright.ports.images import Descriptor, Digest


class BasePlatform(msgspec.Struct, frozen=True):
    """What one platform of a base image brings: its layers, their uncompressed digests, and its `config`."""

    platform: dict[str, str]
    layers: tuple[Descriptor, ...] = ()
    diff_ids: tuple[Digest, ...] = ()
    run: dict[str, Any] = {}


class Base(msgspec.Struct, frozen=True):
    """A base image: the platforms that it shares with model images."""

    platforms: tuple[BasePlatform, ...] = ()


NO_BASE = Base()
