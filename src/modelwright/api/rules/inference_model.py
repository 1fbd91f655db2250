"""Rules of InferenceModel."""

from __future__ import annotations

from modelwright.api.kind import Rule
from modelwright.api.rules.common import (
    PLAIN_NAME,
    download,
    image,
    label_keys,
    name,
    node_labels,
    pattern,
    sha256sum,
    text,
)

_CIDR = "^([0-9]{1,3}([.][0-9]{1,3}){3}/[0-9]{1,2}|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*/[0-9]{1,3})$"
_PLAIN = "letters, digits, '-', '_' and '.', first and last a letter or digit"
_OTHER_SOURCE = f"{text('image')} || {text('modelVersion')}"
_MANIFEST = "(has(self.manifest) && size(self.manifest) > 0)"
_IS_BALANCER = "!has(self.type) || self.type == 'LoadBalancer'"

_SOURCE = (
    Rule(
        at="spec",
        rule=f"{_OTHER_SOURCE} || {_MANIFEST}",
        message="nothing to serve: give image, modelVersion, or manifest with targetVersion",
        reason="FieldValueRequired",
        id="spec.source",
    ),
    Rule(
        at="spec",
        rule=f"{_OTHER_SOURCE} || !{_MANIFEST} || "
        "(has(self.targetVersion) && self.manifest.exists(file, file.version == self.targetVersion))",
        message="must name a version of the manifest",
        field_path=".targetVersion",
        id="spec.targetVersion",
    ),
)

_PLACEMENT = (
    Rule(
        at="spec",
        rule=f"self.deployToLayer == 'cloud' || {text('nodeName')} || "
        "(has(self.nodeSelector) && size(self.nodeSelector) > 0)",
        message="an edge model runs on a node of its own: give nodeName or nodeSelector",
        reason="FieldValueRequired",
        id="spec.edge-node",
    ),
    Rule(
        at="spec",
        rule="self.deployToLayer == 'cloud' || !has(self.service)",
        message="only models in the cloud have a Service; an edge model answers at its node's address: remove service",
        field_path=".service",
        reason="FieldValueForbidden",
        id="spec.edge-service",
    ),
)

_SERVICE = (
    label_keys("spec.service.annotations"),
    pattern(
        "spec.service.loadBalancerClass",
        "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
        "must be a name such as example.com/internal",
    ),
    Rule(
        at="spec.service",
        rule=f"{_IS_BALANCER} || !{text('loadBalancerClass')}",
        message="only a Service of type LoadBalancer has a loadBalancerClass",
        field_path=".loadBalancerClass",
        reason="FieldValueForbidden",
        id="spec.service.loadBalancerClass.type",
    ),
    Rule(
        at="spec.service",
        rule=f"{_IS_BALANCER} || !has(self.loadBalancerSourceRanges) || size(self.loadBalancerSourceRanges) == 0",
        message="only a Service of type LoadBalancer has loadBalancerSourceRanges",
        field_path=".loadBalancerSourceRanges",
        reason="FieldValueForbidden",
        id="spec.service.loadBalancerSourceRanges.type",
    ),
    pattern("spec.service.loadBalancerSourceRanges[]", _CIDR, "must be a CIDR such as 192.0.2.0/24", optional=False),
)

RULES: tuple[Rule, ...] = (
    pattern("spec.modelName", PLAIN_NAME, f"is part of the URL: {_PLAIN}", optional=False),
    pattern("spec.frameworkType", PLAIN_NAME, f"must be a framework such as tensorflow: {_PLAIN}"),
    Rule(
        at="spec",
        rule=f"{text('frameworkType')} || has(self.fraemworkType)",
        message="say what serves the model, such as tensorflow, onnx or sklearn",
        field_path=".frameworkType",
        reason="FieldValueRequired",
        id="spec.frameworkType.required",
    ),
    *_SOURCE,
    *_PLACEMENT,
    node_labels("spec.nodeSelector"),
    name("spec.nodeName", "a node"),
    image("spec.image"),
    name("spec.modelVersion", "a ModelVersion"),
    pattern("spec.manifest[].version", PLAIN_NAME, f"is part of the URL: {_PLAIN}", optional=False),
    *download("spec.manifest[].downloadURL"),
    sha256sum("spec.manifest[].sha256sum"),
    *_SERVICE,
    name("spec.auth.tokenSecret", "a Secret", optional=False),
    name("spec.tls.secret", "a Secret", optional=False),
    name("spec.pullSecret", "a Secret"),
    name("spec.downloadSecret", "a Secret"),
)
