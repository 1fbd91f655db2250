"""What can keep an InferenceModel from being served here, one check for each fault."""

from __future__ import annotations

from typing import Any

from modelwright.api.inference_model import InferenceModel
from modelwright.reconcile.findings import Check, Finding
from modelwright.reconcile.programs import not_run_here

EXTRAS = frozenset({"onnx", "sklearn", "tensorflow"})
"""Frameworks that an optional extra of the same name brings."""


def is_not_run_here(model: InferenceModel, observed: Any) -> Finding | None:
    """An image that there could be no container for is what `image_needs_containers` speaks of."""
    if model.spec.image and observed.capabilities.containers:
        return not_run_here("an InferenceModel with an image", "container", observed.capabilities)
    return not_run_here("an InferenceModel", "modelServer", observed.capabilities)


def image_needs_containers(model: InferenceModel, observed: Any) -> Finding | None:
    if not model.spec.image or observed.capabilities.containers:
        return None
    return Finding(
        "NeedsContainers",
        f"image {model.spec.image} is a container, and there are none here: "
        "serve a modelVersion or a manifest instead, or use a cluster",
    )


def framework_is_not_available(model: InferenceModel, observed: Any) -> Finding | None:
    framework = model.spec.framework_type
    if model.spec.image or framework in observed.capabilities.frameworks:
        return None
    known = ", ".join(sorted(observed.capabilities.frameworks)) or "none"
    message = f"frameworkType {framework or '(empty)'} cannot be served here; there is: {known}"
    if observed.capabilities.containers:
        message += "; an admin can add others to the runtime catalogue of the operator, or name one of those"
    elif framework in EXTRAS:
        message += f'; install it with: pip install "modelwright[{framework}]", and start again'
    return Finding("FrameworkUnavailable", message)


def login_and_tls_are_not_implemented(model: InferenceModel, observed: Any) -> Finding | None:
    """Who asks for a token or TLS must not get a server that is open to all instead."""
    if not observed.capabilities.single_node or (model.spec.auth is None and model.spec.tls is None):
        return None
    field = "auth" if model.spec.auth is not None else "tls"
    return Finding(
        "NotImplemented",
        f"{field} is not implemented on the embedded control plane, where models are served on loopback only: "
        f"remove {field}, or use a cluster",
    )


def login_and_tls_are_not_to_be_had(model: InferenceModel, observed: Any) -> Finding | None:
    """The same where servers of some frameworks have both: an image, or another's server, is open to all."""
    fields = [field for field in ("auth", "tls") if getattr(model.spec, field) is not None]
    if not fields or (not model.spec.image and model.spec.framework_type in observed.capabilities.secured):
        return None
    both = " and ".join(fields)
    if model.spec.image:
        why = f"image {model.spec.image} is served as it is"
        how = f"remove {both}, and let the image see to it, or serve a modelVersion or a manifest instead"
    else:
        known = ", ".join(sorted(observed.capabilities.secured)) or "none"
        why = f"the server for frameworkType {model.spec.framework_type} has no such thing (those that have: {known})"
        how = f"remove {both}, or have an admin choose our server for it in the runtime catalogue of the operator"
    return Finding("SecurityNotSupported", f"{both} cannot be had: {why}; {how}")


def file_of_no_machine(model: InferenceModel, observed: Any) -> Finding | None:
    """On a cluster there is no telling whose file it would be."""
    spec = model.spec
    if observed.capabilities.single_node or spec.image or spec.model_version:
        return None
    wanted = next((file for file in spec.manifest if file.version == spec.target_version), None)
    if wanted is None or not wanted.download_url.startswith("file:"):
        return None
    text = f"{wanted.download_url} names a file, and a cluster has many machines: give an address of http or https"
    return Finding("DownloadPathForbidden", text)


CHECKS: tuple[Check, ...] = (
    is_not_run_here,
    image_needs_containers,
    framework_is_not_available,
    login_and_tls_are_not_implemented,
    login_and_tls_are_not_to_be_had,
    file_of_no_machine,
)
