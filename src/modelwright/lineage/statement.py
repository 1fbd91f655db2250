"""What is attached to the image of a model: an in-toto Statement v1 whose predicate is SLSA provenance v1.

The same provenance gives the same bytes, so that attaching it twice adds nothing. docs/lineage.md describes the fields.
https://github.com/in-toto/attestation/tree/main/spec/v1, https://slsa.dev/spec/v1.1/provenance
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import msgspec

from modelwright.lineage import materials, redaction
from modelwright.ports.workloads import Material, Provenance

MEDIA_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
PREDICATE_ANNOTATION = "in-toto.io/predicate-type"
"""The annotation by which tools find statements of a kind without reading them."""

BUILD_TYPE = "https://modelwright.dev/build-types/model-version/v1"
NATIVE_BUILDER = "https://modelwright.dev/builders/native/v1"
KANIKO_BUILDER = "https://modelwright.dev/builders/kaniko/v1"
METRICS = "metrics.json"
BASE, DATASET, SOURCE = "base/", "dataset/", "source"
"""How the names of resolved dependencies begin."""

COMMAND = "command"
"""The parameter that a training's command is kept under."""

JSON = dict[str, Any]


def statement(
    provenance: Provenance, image: str, digest: str, metrics: dict[str, float], *, builder: str = NATIVE_BUILDER
) -> bytes:
    """The statement about the image `HOST/REPOSITORY` of this digest; `metrics` are what the training wrote."""
    return msgspec.json.encode(
        {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": image, "digest": materials.digest_set(digest)}],
            "predicateType": PREDICATE_TYPE,
            "predicate": {
                "buildDefinition": {
                    "buildType": BUILD_TYPE,
                    "externalParameters": _external(provenance),
                    "resolvedDependencies": _dependencies(provenance),
                },
                "runDetails": {
                    "builder": {"id": builder},
                    "metadata": {"invocationId": provenance.uid},
                    **_byproducts({**provenance.metrics, **metrics}),
                },
            },
        }
    )


def _external(provenance: Provenance) -> JSON:
    """What users have said: names and values, no digests."""
    values = dict(provenance.parameters)
    said = {
        "model": provenance.model_name,
        "version": provenance.name,
        "namespace": provenance.namespace,
        "createdBy": provenance.created_by,
        "trainingModel": provenance.training_model,
        "command": redaction.command(values.pop(COMMAND, "")),
        "parameters": redaction.parameters(values),
        "parents": [parent.name for parent in provenance.parents],
        "datasets": [dataset.name for dataset in provenance.datasets],
    }
    return {name: value for name, value in said.items() if value}


def _dependencies(provenance: Provenance) -> list[JSON]:
    found = [_base(parent) for parent in provenance.parents]
    found += [_dataset(dataset) for dataset in provenance.datasets]
    found += [_source(provenance.source)] if provenance.source else []
    # The specification wants a place or a digest of each; what has neither is among the parameters by its name.
    return [each for each in found if "uri" in each or "digest" in each]


def _base(parent: Material) -> JSON:
    if not parent.uri or not parent.digest:
        return {}
    uri = materials.image_purl(parent.uri, parent.digest)
    return _descriptor(BASE + parent.name, uri, materials.digest_set(parent.digest))


def _dataset(dataset: Material) -> JSON:
    return _descriptor(DATASET + dataset.name, redaction.uri(dataset.uri), materials.digest_set(dataset.digest))


def _source(source: Material) -> JSON:
    digest = {"gitCommit": source.name} if materials.is_commit(source.name) else {}
    return _descriptor(SOURCE, materials.git_uri(source.uri, source.name), digest)


def _descriptor(name: str, uri: str, digest: dict[str, str]) -> JSON:
    return {"name": name, **({"uri": uri} if uri else {}), **({"digest": digest} if digest else {})}


def _byproducts(metrics: dict[str, float]) -> JSON:
    if not metrics:
        return {}
    content = msgspec.json.encode(dict(sorted(metrics.items())))
    described = {
        "name": METRICS,
        "digest": {"sha256": hashlib.sha256(content).hexdigest()},
        "content": base64.b64encode(content).decode(),
        "mediaType": "application/json",
    }
    return {"byproducts": [described]}
