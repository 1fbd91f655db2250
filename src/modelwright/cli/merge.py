"""Three-way merge of JSON objects, with the annotation by which kubectl remembers what was applied last.

Both tools can take turns on the same object: the annotation is spelled byte for byte as kubectl spells it.
Merge patches: RFC 7386.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from modelwright.api.kinds import drop_nulls

JSON = dict[str, Any]
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

# Go's encoder escapes these, so that JSON may stand in a web page.
_ESCAPED = {ord(each): f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"}


def annotated(body: JSON) -> JSON:
    """The object without nulls, with itself as the annotation of what was applied."""
    plain = _whole_numbers(drop_nulls(body))
    metadata = plain["metadata"]
    annotations = {key: value for key, value in metadata.get("annotations", {}).items() if key != LAST_APPLIED}
    remembered = {**plain, "metadata": {**metadata, "annotations": annotations}}
    text = json.dumps(remembered, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    annotations = {**annotations, LAST_APPLIED: text.translate(_ESCAPED) + "\n"}
    return {**plain, "metadata": {**metadata, "annotations": annotations}}


def last_applied(live: JSON) -> JSON:
    """What was applied last, {} if nothing was, or nothing that can be read."""
    text = (live.get("metadata", {}).get("annotations") or {}).get(LAST_APPLIED, "")
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def three_way(original: JSON, modified: JSON, current: JSON) -> JSON:
    """The merge patch that makes `current` have all of `modified`, and lose what only `original` had.

    What others have set beside it stays. An empty patch says that nothing is to be done.
    """
    patch: JSON = {}
    for key, value in modified.items():
        live, before = current.get(key), original.get(key)
        if isinstance(value, dict) and isinstance(live, dict):
            inner = three_way(before if isinstance(before, dict) else {}, value, live)
            if inner:
                patch[key] = inner
        elif key not in current or not _same(live, value):
            patch[key] = value
    for key in original.keys() - modified.keys():
        if key in current:
            patch[key] = None
    return patch


def _same(one: Any, other: Any) -> bool:
    # In Python True == 1; in JSON they differ.
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _whole_numbers(value: Any) -> Any:
    """1.0 is 1, as it becomes on its way through Go."""
    if isinstance(value, dict):
        return {key: _whole_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_whole_numbers(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return int(value)
    return value
