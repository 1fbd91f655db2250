"""For every rule of every kind: objects that pass and objects that fail, for each place where rules are evaluated."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.unit.api.bases import (
    CLOUD,
    DIGEST,
    EDGE,
    HANDLES,
    IMAGES,
    JOINT,
    MANIFEST,
    NAMES,
    OPTIONAL_NAMES,
    PATHS,
    PLAIN,
    RELATIVE_PATHS,
    REPOSITORIES,
    SECRET_URLS,
    SELECTORS,
    SHA,
    SHAS,
    TAGS,
    TRAINING,
    URLS,
    VERSION,
    Object,
    patched,
)

from modelwright.api.kind import Kind, Rule
from modelwright.api.kinds import INFERENCE_MODEL, JOINT_INFERENCE_SERVICE, MODEL_VERSION, TRAINING_MODEL


@dataclass(frozen=True)
class RuleCase:
    """`bad` breaks the rule at `field`; `old` is what both would replace, for rules about changes."""

    kind: Kind
    rule: Rule
    number: int
    good: Object
    bad: Object
    field: str
    old: Object | None = None

    @property
    def id(self) -> str:
        return f"{self.kind.kind}:{self.rule.id}:{self.number}"


Row = tuple[str, Object, Sequence[Object], Sequence[Object]]
"""Rule, object to change, changes that pass, changes that fail."""


def values(rule: str, base: Object, path: str, accepted: Sequence[Any], refused: Sequence[Any]) -> Row:
    return rule, base, [{path: value} for value in accepted], [{path: value} for value in refused]


def storage_rows(base: Object) -> Iterator[Row]:
    local, nfs = {"path": "/foo", "nodeName": "n"}, {"server": "nas.example.com", "path": "/models"}
    efs, claim = {"volumeHandle": "fs-e8a95a42"}, {"claimName": "c"}
    one = [
        {"localStorage": local},
        {"nfs": nfs},
        {"AWSEfs": efs},
        {"persistentVolumeClaim": claim},
        {"nfs": nfs, "AWSEfs": None},
    ]
    none_or_two = [
        {},
        {"nfs": nfs, "AWSEfs": efs},
        {"localStorage": local, "persistentVolumeClaim": claim},
        {"nfs": None},
    ]
    yield values("spec.storage", base, "spec.storage", one, none_or_two)

    def inner(place: str, field: str, rest: Object, options: tuple[list[str], list[str]]) -> Row:
        def storages(values: list[str]) -> list[Object]:
            return [{place: {**rest, field: value}} for value in values]

        return values(f"spec.storage.{place}.{field}", base, "spec.storage", *map(storages, options))

    yield inner("localStorage", "path", local, PATHS)
    yield inner("localStorage", "nodeName", local, NAMES)
    yield inner("localStorage", "mountPath", local, PATHS)
    yield inner(
        "nfs",
        "server",
        nfs,
        (["nas", "NAS.example.com", "192.0.2.1", "2001:db8::1"], ["", "a/b", "a:/b", "a b", "nas\n"]),
    )
    yield inner("nfs", "path", nfs, PATHS)
    yield inner("nfs", "mountPath", nfs, PATHS)
    yield inner("AWSEfs", "volumeHandle", efs, HANDLES)
    yield inner("persistentVolumeClaim", "claimName", claim, NAMES)
    yield inner("persistentVolumeClaim", "subPath", claim, RELATIVE_PATHS)


def version_rows() -> Iterator[Row]:
    base = VERSION
    yield values("spec.modelName", base, "spec.modelName", *NAMES)
    yield values("spec.imageRepo", base, "spec.imageRepo", *REPOSITORIES)
    yield values("spec.imageTag", base, "spec.imageTag", *TAGS)
    yield from storage_rows(base)
    yield values(
        "spec.storage.localStorage.nodeName.required",
        base,
        "spec.storage.localStorage",
        [{"path": "/foo", "nodeName": "n"}],
        [{"path": "/foo"}, {"path": "/foo", "nodeName": ""}, {"path": "/foo", "nodeName": None}],
    )
    yield values("spec.pushSecret", base, "spec.pushSecret", *OPTIONAL_NAMES)
    yield values("spec.baseImage", base, "spec.baseImage", *IMAGES)
    yield values("spec.lineage.trainingModel", base, "spec.lineage.trainingModel", *OPTIONAL_NAMES)
    accepted, refused = NAMES
    yield values(
        "spec.lineage.parents[]", base, "spec.lineage.parents", [accepted], [[name] for name in ("", *refused)]
    )
    digests = ["", DIGEST, "sha512:" + "0" * 128], ["sha256", "sha256:a", "SHA256:" + SHA, DIGEST + "\n", SHA]
    datasets = ([[{"name": "d", "digest": digest}] for digest in each] for each in digests)
    yield values("spec.lineage.datasets[].digest", base, "spec.lineage.datasets", *datasets)


def inference_rows() -> Iterator[Row]:
    misspelt = {"spec.fraemworkType": "onnx"}
    yield "spec.fraemworkType", EDGE, [{}], [misspelt, {**misspelt, "spec.frameworkType": ...}]
    yield values("spec.modelName", EDGE, "spec.modelName", PLAIN[0], ["", *PLAIN[1]])
    yield values("spec.frameworkType", EDGE, "spec.frameworkType", *PLAIN)
    yield values("spec.frameworkType.required", EDGE, "spec.frameworkType", ["tensorflow"], ["", None, ...])
    no_manifest = {"spec.manifest": ..., "spec.targetVersion": ...}
    yield (
        "spec.source",
        EDGE,
        [
            {},
            {**no_manifest, "spec.image": "serving:1"},
            {**no_manifest, "spec.image": "", "spec.modelVersion": "mv-3"},
        ],
        [no_manifest, {**no_manifest, "spec.image": "", "spec.modelVersion": ""}, {**no_manifest, "spec.manifest": []}],
    )
    other = {"spec.targetVersion": "2"}
    yield (
        "spec.targetVersion",
        EDGE,
        [{}, {"spec.image": ""}, {**other, "spec.image": "serving:1"}, {**other, "spec.modelVersion": "mv-3"}],
        [other, {"spec.targetVersion": ""}, {"spec.targetVersion": ...}, {**other, "spec.image": ""}],
    )
    nowhere = {"spec.nodeName": ...}
    yield (
        "spec.edge-node",
        EDGE,
        [{}, {**nowhere, "spec.nodeSelector": {"a": "b"}}, {**nowhere, "spec.deployToLayer": "cloud"}],
        [nowhere, {"spec.nodeName": ""}, {**nowhere, "spec.nodeSelector": {}}],
    )
    service = {"spec.service": {"type": "NodePort"}}
    yield "spec.edge-service", EDGE, [{}, {**service, "spec.deployToLayer": "cloud"}], [service, {"spec.service": {}}]
    yield values("spec.nodeSelector", EDGE, "spec.nodeSelector", *SELECTORS)
    yield values("spec.nodeName", CLOUD, "spec.nodeName", *OPTIONAL_NAMES)
    yield values("spec.image", EDGE, "spec.image", *IMAGES)
    yield values("spec.modelVersion", EDGE, "spec.modelVersion", *OPTIONAL_NAMES)
    yield from manifest_rows()
    yield from service_rows()
    for field, accepted, refused in (("auth.tokenSecret", *NAMES), ("tls.secret", *NAMES)):
        yield values(f"spec.{field}", EDGE, f"spec.{field}", accepted, ["", *refused])
    for field in ("pullSecret", "downloadSecret"):
        yield values(f"spec.{field}", EDGE, f"spec.{field}", *OPTIONAL_NAMES)


def manifest_rows() -> Iterator[Row]:
    def files(field: str, options: Sequence[str]) -> list[list[Object]]:
        return [[*MANIFEST, {"version": "2", "downloadURL": "http://h/2", field: value}] for value in options]

    def row(rule: str, field: str, options: tuple[list[str], list[str]]) -> Row:
        accepted, refused = options
        good, bad = ([{"spec.manifest": each} for each in files(field, some)] for some in (accepted, refused))
        return rule, EDGE, good, bad

    yield row("spec.manifest[].version", "version", (["2", "v2.0_b-C"], ["", *PLAIN[1]]))
    yield row("spec.manifest[].downloadURL", "downloadURL", URLS)
    yield row("spec.manifest[].downloadURL.no-password", "downloadURL", SECRET_URLS)
    yield row("spec.manifest[].sha256sum", "sha256sum", SHAS)


def service_rows() -> Iterator[Row]:
    def row(rule: str, good: Sequence[Object], bad: Sequence[Object]) -> Row:
        return values(f"spec.service.{rule}", CLOUD, "spec.service", good, bad)

    yield row("annotations", [{"annotations": {"a.b/c": "d e"}}], [{"annotations": {"a b": "c"}}])
    yield row(
        "loadBalancerClass",
        [{"loadBalancerClass": value} for value in ("", "internal", "example.com/internal")],
        [{"loadBalancerClass": value} for value in ("a b", "Example.com/x", "/x")],
    )
    typed = {"type": "ClusterIP"}
    yield row(
        "loadBalancerClass.type",
        [{"loadBalancerClass": "x"}, {**typed, "loadBalancerClass": ""}],
        [{**typed, "loadBalancerClass": "x"}],
    )
    ranges = ["192.0.2.0/24", "2001:db8::/32", "::/0"]
    yield row(
        "loadBalancerSourceRanges.type",
        [{"loadBalancerSourceRanges": ranges}, {**typed, "loadBalancerSourceRanges": []}],
        [{**typed, "loadBalancerSourceRanges": ranges}],
    )
    yield row(
        "loadBalancerSourceRanges[]",
        [{"loadBalancerSourceRanges": ranges}],
        [{"loadBalancerSourceRanges": [wrong]} for wrong in ("", "192.0.2.1", "a/24", "192.0.2.0/24\n", "1.2.3/8")],
    )


def training_rows() -> Iterator[Row]:
    base = TRAINING
    misspelt = {"spec.fraemworkType": "onnx"}
    yield "spec.fraemworkType", base, [{}], [misspelt, {**misspelt, "spec.command": ...}]
    yield values("spec.modelName", base, "spec.modelName", *NAMES)
    yield values("spec.frameworkType", base, "spec.frameworkType", ["", *PLAIN[0]], PLAIN[1])
    edge = {"spec.deployToLayer": "edge"}
    nowhere = {**edge, "spec.storage": {"localStorage": {"path": "/foo"}}}
    yield (
        "spec.edge-node",
        base,
        [edge, {**nowhere, "spec.nodeName": "n"}, {**nowhere, "spec.nodeSelector": {"a": "b"}}],
        [
            nowhere,
            {**nowhere, "spec.nodeName": ""},
            {**edge, "spec.storage": {"persistentVolumeClaim": {"claimName": "c"}}},
        ],
    )
    no_command = {"spec.command": ...}
    yield (
        "spec.program",
        base,
        [{}, {**no_command, "spec.image": "train:1"}, {**no_command, "spec.frameworkType": "tensorflow"}],
        [no_command, {"spec.command": []}, {**no_command, "spec.image": "", "spec.args": ["--fast"]}],
    )
    yield values("spec.nodeSelector", base, "spec.nodeSelector", *SELECTORS)
    yield values("spec.nodeName", base, "spec.nodeName", *OPTIONAL_NAMES)
    yield values("spec.image", base, "spec.image", *IMAGES)

    def variables(names: Sequence[str]) -> list[list[Object]]:
        return [[{"name": name, "value": "1"}] for name in names]

    wrong_names = variables(["", "1A", "A B", "A=B", "A\n"])
    yield values("spec.env[].name", base, "spec.env", variables(["A", "_a", "a.b-c"]), wrong_names)
    paths = ["KUBEDL_MODEL_PATH", "KUBEDL_BASE_MODEL_PATH", "MODELWRIGHT_DATASETS"]
    ours = variables([*paths, "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TF_CONFIG"])
    yield values("spec.env[].name.reserved", base, "spec.env", variables(["KUBEDL_MODEL", "rank"]), ours)
    yield values("spec.baseModelVersion", base, "spec.baseModelVersion", *OPTIONAL_NAMES)

    def datasets(field: str, options: Sequence[str]) -> list[list[Object]]:
        return [[{"name": "d", "uri": "http://h/d", field: value}] for value in options]

    folders = ["", "..", "a/b", "D", "-", "a\n"]
    yield values(
        "spec.datasets[].name", base, "spec.datasets", datasets("name", ["d", "d_1.x"]), datasets("name", folders)
    )
    for rule, field, (accepted, refused) in (
        ("spec.datasets[].uri", "uri", URLS),
        ("spec.datasets[].uri.no-password", "uri", SECRET_URLS),
        ("spec.datasets[].sha256sum", "sha256sum", SHAS),
    ):
        yield values(rule, base, "spec.datasets", datasets(field, accepted), datasets(field, refused))
    yield from storage_rows(base)
    yield values("spec.imageRepo", base, "spec.imageRepo", *REPOSITORIES)
    yield values("spec.imageTag", base, "spec.imageTag", *TAGS)
    yield values("spec.pushSecret", base, "spec.pushSecret", *OPTIONAL_NAMES)
    yield values("spec.downloadSecret", base, "spec.downloadSecret", *OPTIONAL_NAMES)


def joint_rows() -> Iterator[Row]:
    for side, layer, own in (("edgeModel", "edge", EDGE), ("cloudModel", "cloud", CLOUD)):
        path = f"spec.{side}"
        spec, other = own["spec"], patched(EDGE, {"spec.deployToLayer": "cloud" if layer == "edge" else "edge"})["spec"]
        one = [{"name": "a"}, {"spec": spec}, {"name": "", "spec": spec}]
        yield values(path, JOINT, path, one, [{}, {"name": ""}, {"name": "a", "spec": spec}])
        yield values(f"{path}.name", JOINT, f"{path}.name", *NAMES)
        yield values(f"{path}.spec.deployToLayer", JOINT, path, [{"spec": spec}], [{"spec": other}])
        yield from (inlined(row, side, layer, spec) for row in inference_rows())
    names = "spec.edgeModel.name", "spec.cloudModel.name"
    yield "spec.two-models", JOINT, [{}], [dict.fromkeys(names, "same")]
    yield from mining_rows()
    yield values("spec.gateway.nodeName", JOINT, "spec.gateway.nodeName", *OPTIONAL_NAMES)
    yield values("spec.gateway.nodeSelector", JOINT, "spec.gateway.nodeSelector", *SELECTORS)


def inlined(row: Row, side: str, layer: str, spec: Object) -> Row:
    """A row about an InferenceModel, for one inline; what is good in the other layer only is replaced by `spec`."""
    rule, base, accepted, refused = row
    good = [patched(base, changes)["spec"] for changes in accepted]
    bad = [patched(base, changes)["spec"] for changes in refused]
    fitting = [each for each in good if each.get("deployToLayer") == layer] or [spec]
    path = f"spec.{side}"
    return rule.replace("spec", f"{path}.spec", 1), JOINT, _specs(path, fitting), _specs(path, bad)


def _specs(path: str, specs: Sequence[Object]) -> list[Object]:
    return [{path: {"spec": each}} for each in specs]


def mining_rows() -> Iterator[Row]:
    def row(rule: str, good: Sequence[Object], bad: Sequence[Object]) -> Row:
        return values(f"spec.hardExampleMining.{rule}", JOINT, "spec.hardExampleMining", good, bad)

    def mining(policy: str, **parameters: float) -> Object:
        return {"policy": policy, "parameters": parameters}

    policies = ("confidence", "margin", "crossEntropy", "random", "example.energy", "example.com.Low-2_x")
    misspelt = ("", "Confidence", "energy", "example.", ".energy", "a..b", "a.b\n", "a.b c")
    yield row("policy", [{"policy": name} for name in policies], [{"policy": name} for name in misspelt])
    free = {"policy": "example.energy", "parameters": {"temperature": -1.5}}
    yield row(
        "parameters.names",
        [{}, free, {"parameters": {"threshold": 0.5}}, mining("random", probability=1), mining("margin", threshold=0)],
        [mining("random", threshold=0.5), mining("confidence", probability=0.5), {"parameters": {"treshold": 0.5}}],
    )
    yield row(
        "parameters.range",
        [mining("confidence", threshold=1), mining("crossEntropy", threshold=2.5), mining("margin", threshold=0), free],
        [mining("confidence", threshold=1.5), mining("crossEntropy", threshold=-1), mining("random", probability=2)],
    )


def cases(kind: Kind, rows: Iterator[Row]) -> Iterator[RuleCase]:
    rules = {rule.id: rule for rule in kind.all_rules}
    for name, base, accepted, refused in rows:
        rule = rules[name]
        pairs = itertools.zip_longest(accepted, refused)
        for number, (good, bad) in enumerate(pairs):
            yield RuleCase(
                kind=kind,
                rule=rule,
                number=number,
                good=patched(base, accepted[0] if good is None else good),
                bad=patched(base, refused[0] if bad is None else bad),
                field=field_of(rule),
            )


def field_of(rule: Rule) -> str:
    """Where the fault of a case shows: in manifests the second item is the one that is changed."""
    path = rule.at.replace("manifest[]", "manifest[1]").replace("[]", "[0]") + rule.field_path
    return path.removeprefix(".")


def immutable_cases(kind: Kind, old: Object, changes: Sequence[Object]) -> Iterator[RuleCase]:
    rule = next(rule for rule in kind.all_rules if rule.id == "spec-immutable")
    old = patched(old, {"metadata.name": "fixed"})
    relabelled = patched(old, {"metadata.labels": {"a": "b"}})
    for number, change in enumerate(changes):
        yield RuleCase(kind, rule, number, relabelled, patched(old, change), "spec", old)


RULE_CASES: tuple[RuleCase, ...] = (
    *immutable_cases(
        MODEL_VERSION, VERSION, [{"spec.modelName": "other"}, {"spec.imageTag": "v1"}, {"spec.builder": "kaniko"}]
    ),
    *immutable_cases(TRAINING_MODEL, TRAINING, [{"spec.workers": 2}, {"spec.command": ["true"]}]),
    *cases(MODEL_VERSION, version_rows()),
    *cases(INFERENCE_MODEL, inference_rows()),
    *cases(TRAINING_MODEL, training_rows()),
    *cases(JOINT_INFERENCE_SERVICE, joint_rows()),
)
