"""What `modelwright image inspect` says of an image."""

from __future__ import annotations

import msgspec

from modelwright.cli.output import say
from modelwright.cli.units import counted, readable
from modelwright.oci import manifests, media, pull
from modelwright.oci.manifests import Index
from modelwright.ports.images import Descriptor, Digest, Images

STATEMENT = "application/vnd.in-toto+json"


class Layer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A layer, and the file that it is for, where it is for one."""

    digest: Digest
    size: int
    media_type: str
    file: str = ""


class Description(msgspec.Struct, frozen=True):
    """An image; `size` counts the layers of one platform, `model_path` is where the model is in it."""

    name: str
    digest: Digest
    media_type: str
    platforms: list[str]
    size: int
    layers: list[Layer]
    model_path: str
    referrers: list[Descriptor]


def describe(images: Images, reference: str) -> Description:
    """Read manifests and config, no layer. Raises NotFound, Mismatch, Rejected."""
    top = images.read_manifest(reference)
    content = manifests.decode(top)
    chosen = pull.choose(images, top)
    layers = [
        Layer(one.digest, one.size, one.media_type, one.annotations.get(media.FILE_PATH, ""))
        for one in chosen.manifest.layers
    ]
    own = {"os": chosen.config.os, "architecture": chosen.config.architecture, "variant": chosen.config.variant}
    listed = [one.platform or {} for one in content.manifests] if isinstance(content, Index) else [own]
    return Description(
        images.name,
        top.digest,
        top.media_type,
        [_platform(one) for one in listed],
        sum(layer.size for layer in layers),
        layers,
        chosen.config.environment.get(media.MODEL_PATH_VARIABLE, ""),
        images.referrers(top.digest),
    )


def print_description(found: Description, *, as_json: bool) -> None:
    """To stdout, for people or programs."""
    if as_json:
        say(msgspec.json.format(msgspec.json.encode(found)).decode())
        return
    say(f"Name:       {found.name}")
    say(f"Digest:     {found.digest}")
    say(f"Type:       {found.media_type}")
    say(f"Platforms:  {', '.join(found.platforms)}")
    say(f"Model path: {found.model_path or 'not said'}")
    say(f"Size:       {readable(found.size)} in {counted(len(found.layers), 'layer')}")
    for layer in found.layers:
        say(f"  {layer.digest}  {readable(layer.size):>10}  {layer.file}".rstrip())
    if found.referrers:
        say("Referrers:")
    for one in found.referrers:
        # What in-toto statements are about, by the annotation that tools agree upon.
        kind = one.annotations.get("in-toto.io/predicate-type", "")
        say(f"  {one.digest}  {one.artifact_type or one.media_type}  {kind}".rstrip())
    if any(one.artifact_type == STATEMENT for one in found.referrers):
        say(f"Lineage:    modelwright lineage {found.name}@{found.digest}")


def _platform(platform: dict[str, str]) -> str:
    return "/".join(platform[key] for key in ("os", "architecture", "variant") if platform.get(key))
