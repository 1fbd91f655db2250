"""One plain object per kind to change, and the texts that grammars accept and refuse."""

from __future__ import annotations

import copy
from typing import Any

from modelwright.api.kind import Kind
from modelwright.api.kinds import INFERENCE_MODEL, JOINT_INFERENCE_SERVICE, MODEL_VERSION, TRAINING_MODEL

Object = dict[str, Any]

DIGEST = "sha256:" + "a1" * 32
SHA = "a1" * 32


def patched(resource: Object, changes: dict[str, Any]) -> Object:
    """A copy with values at paths such as `spec.env`; `...` removes."""
    result = copy.deepcopy(resource)
    for path, value in changes.items():
        *parents, last = path.split(".")
        target = result
        for step in parents:
            target = target.setdefault(step, {})
        if value is ...:
            target.pop(last, None)
        else:
            target[last] = copy.deepcopy(value)
    return result


def resource(kind: Kind, spec: Object) -> Object:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "case"}, "spec": spec}


LOCAL = {"localStorage": {"path": "/foo", "nodeName": "node-1"}}
MANIFEST = [{"version": "1", "downloadURL": "http://192.0.2.1/1.tar.gz"}]

VERSION = resource(MODEL_VERSION, {"modelName": "m", "imageRepo": "modelhub/resnet", "storage": LOCAL})
EDGE = resource(
    INFERENCE_MODEL,
    {
        "modelName": "m",
        "deployToLayer": "edge",
        "frameworkType": "onnx",
        "nodeName": "node-1",
        "manifest": MANIFEST,
        "targetVersion": "1",
    },
)
CLOUD = patched(EDGE, {"spec.deployToLayer": "cloud", "spec.nodeName": ...})
TRAINING = resource(
    TRAINING_MODEL,
    {"modelName": "m", "command": ["python", "train.py"], "imageRepo": "modelhub/resnet", "storage": LOCAL},
)
JOINT = resource(JOINT_INFERENCE_SERVICE, {"edgeModel": {"name": "small"}, "cloudModel": {"name": "large"}})

NAMES = (["a", "a-1", "a.b-c.d", "0", "a" * 63 + "." + "b" * 63], ["A", "a_b", "-a", "a-", "a..b", "a b", "a\n", "ü"])
OPTIONAL_NAMES = (["", *NAMES[0]], NAMES[1])
PLAIN = (["m", "Model_1.2-x", "4"], ["a b", "-m", "m.", "a/b", "m\n"])
REPOSITORIES = (
    [
        "resnet",
        "modelhub/resnet",
        "registry.example.com:5000/a/b_c__d-e.f",
        "[::1]:5000/a",
        "localhost/a",
        "127.0.0.1/a",
    ],
    ["", "Modelhub/resnet", "modelhub/resnet:v1", "/a", "a/", "a//b", "http://host/a", "a___b", "host:x/a", "a\n"],
)
TAGS = (["", "v1", "_x.Y-2", "a" * 128], [".v1", "-v1", "a b", "v1\n", "a/b"])
IMAGES = (
    ["", "busybox", "busybox:1.36", f"host.example.com:5000/a/b:v1@{DIGEST}", f"a@{DIGEST}"],
    ["Busybox", "a:", "a@sha256:", "a b", "a@", "a:v1\n", "http://a/b"],
)
SHAS = (["", SHA], [SHA[1:], SHA.upper(), "sha256:" + SHA[7:], SHA[1:] + "\n"])
PATHS = (
    ["/", "/foo", "/foo/bar/", "/a..b/.c/...", "/with space/ü"],
    ["foo", "./foo", "/a/../b", "/..", "/a/.", "/a//b", "//a", "/a\nb", "/a\x7f", ""],
)
RELATIVE_PATHS = (["", "a", "a/b/", "..a"], ["/a", "../a", "a/..", "a/./b", "a//b", "a\x00b"])
URLS = (
    ["http://192.0.2.1/a.tar.gz", "https://h:8443/a?b=c#d", "file:///models/a", "http://h", "http://h/a@b"],
    ["", "ftp://h/a", "h/a", "http://", "http:///a", "file://h/a", "http://h/a b", "HTTP://h", "http://h/a\n"],
)
SECRET_URLS = (["https://h/user@x"], ["https://user:password@h/a", "http://token@h"])
SELECTORS = (
    [{}, {"kubernetes.io/hostname": "node-1", "a": "", "B_c.d": "E-f"}],
    [{"a b": "c"}, {"/a": "b"}, {"a": "b c"}, {"a": "-"}, {"a/b/c": "d"}, {"x" * 318: "a"}, {"A.b/c": "d"}],
)
HANDLES = (
    [
        "fs-e8a95a42:/my/subpath:fsap-19f752f0068c22464",
        "fs-e8a95a42::fsap-068c22f0246419f75",
        "fs-e8a95a42:/dir1",
        "fs-e8a95a42",
        "fs-e8a95a42:/",
        "fs-0123456789abcdef0:/..a/b..c/.d",
    ],
    [
        *("", "e8a95a42", "fs-", "FS-E8A95A42", "fs-e8a95a42:", "fs-e8a95a42::", "fs-e8a95a42:dir1"),
        *("fs-e8a95a42:/a:b", "fs-e8a95a42::/a", "fs-e8a95a42::fsap-"),
        *("fs-e8a95a42:/a\n", "fs-e8a95a42:/a:", "fs-e8a95a42:fsap-19f752f0068c22464", "fs-e8a95a42:/a:fs-e8a95a42"),
        *("fs-e8a95a42:/..", "fs-e8a95a42:/a/../b", "fs-e8a95a42:/a/.:fsap-19f752f0068c22464", "fs-e8a95a42:/a//b"),
    ],
)
