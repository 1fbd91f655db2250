"""Manifests are read as Kubernetes reads them; what is no object is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwright.cli.manifests import read_manifests
from modelwright.ports.errors import Invalid, NotFound, Rejected

HEAD = "apiVersion: v1\nkind: X\n"


def test_documents_come_in_order_and_empty_ones_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(
        f"---\n# nothing\n---\n{HEAD}metadata: {{name: a}}\n---\n{HEAD}metadata: {{name: b, namespace: n}}\n"
    )
    found = read_manifests([path])
    assert [(each.name, each.namespace) for each in found] == [("a", ""), ("b", "n")]
    assert found[1].source == f"{path}, document 3"


def test_a_folder_is_read_in_order_of_names_and_json_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "b.yml").write_text(f"{HEAD}metadata: {{name: b}}")
    (tmp_path / "a.json").write_text('{\n\t"apiVersion": "v1", "kind": "X", "metadata": {"name": "a"}\n}')
    (tmp_path / "notes.txt").write_text("not a manifest")
    (tmp_path / "sub.yaml").mkdir()
    assert [each.name for each in read_manifests([tmp_path])] == ["a", "b"]


def test_a_list_is_its_items(tmp_path: Path) -> None:
    path = tmp_path / "list.yaml"
    path.write_text("apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: X, metadata: {name: a}}\n")
    assert [each.name for each in read_manifests([path])] == ["a"]


def test_only_what_kubernetes_takes_for_numbers_is_one(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    text = "[2024-02-29, 2024-02-29T12:00:00Z, 12:30, 8080:80, 1e3, 1.5, 7, -1, 0x10, yes, ~, '5', 1.2.3, v1]"
    path.write_text(f"{HEAD}metadata: {{name: a}}\nspec: {text}\n")
    assert read_manifests([path])[0].body["spec"] == [
        *("2024-02-29", "2024-02-29T12:00:00Z", "12:30", "8080:80"),
        *(1000.0, 1.5, 7, -1, 16, True, None, "5", "1.2.3", "v1"),
    ]


def test_names_of_fields_become_text(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(f"{HEAD}metadata: {{name: a, labels: {{1: x, yes: y}}}}")
    assert read_manifests([path])[0].body["metadata"]["labels"] == {"1": "x", "true": "y"}


@pytest.mark.parametrize("text", ['{"a": "\\ud800"}', 'a: "\\ud800"'])
def test_half_a_character_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(text)
    with pytest.raises(Invalid, match="half of a character"):
        read_manifests([path])


def test_anchors_and_merges_work(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(f"{HEAD}metadata: &m {{name: a}}\nspec: {{<<: *m, b: 1}}")
    assert read_manifests([path])[0].body["spec"] == {"name": "a", "b": 1}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- a\n- b", "document 1: an object is expected, not list"),
        ("just words", "an object is expected, not str"),
        ("kind: X\nmetadata: {name: a}", "apiVersion is missing"),
        ("apiVersion: v1\nmetadata: {name: a}", "kind is missing"),
        (f"{HEAD}metadata: {{generateName: a-}}", "metadata.name is missing"),
        (f"{HEAD}metadata: null", "metadata.name is missing"),
        (f"{HEAD}metadata: {{name: 5}}", "metadata.name is missing"),
        (f"{HEAD}kind: Y\nmetadata: {{name: a}}", "line 3, column 1: 'kind' stands twice"),
        ('{"apiVersion": "v1", "kind": "X", "kind": "Y"}', "'kind' stands twice"),
        (f"{HEAD}metadata: {{name: a, 1: x, '1': y}}", "'1' stands twice"),
        (f"{HEAD}metadata: {{name: a, [b]: c}}", "line 3"),
        (f"{HEAD}metadata: {{name: a", "line 3"),
        (f"{HEAD}metadata: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
        ("", "no object in"),
        ("---\n---\n", "no object in"),
    ],
)
def test_what_is_no_object_is_refused_with_its_place(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(text)
    with pytest.raises(Invalid) as refused:
        read_manifests([path])
    assert says in refused.value.message
    assert str(path) in refused.value.message


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Invalid, match="cannot be read"):
        read_manifests([tmp_path / "m.yaml"])


def test_a_file_that_is_missing_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="does not exist"):
        read_manifests([tmp_path / "missing.yaml"])


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.yaml").write_text(f"{HEAD}metadata: {{name: a}}")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "m.yaml").symlink_to(tmp_path / "secret.yaml")
    with pytest.raises(Rejected, match="leads out"):
        read_manifests([tmp_path / "folder"])
