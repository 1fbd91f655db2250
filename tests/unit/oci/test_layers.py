"""Tar headers and layers: what `tarfile` reads in them, and that they are the same everywhere."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modelwright.oci import digests, image, layers, media, tarheader
from modelwright.oci.folder import Entry, Folder, scan
from modelwright.oci.layers import GROUP, LARGE, MAX_LAYERS, LayerPlan, plan
from modelwright.oci.names import collision_key
from modelwright.oci.unpack import unpack_tar

NAME = st.text(
    st.characters(exclude_categories=("C", "Z"), exclude_characters="/\\:\0"), min_size=1, max_size=60
).filter(
    lambda name: (
        name not in {".", ".."} and not name.startswith(".wh.") and name != ".modelwright" and len(name.encode()) < 250
    )
)
PATHS = st.lists(st.lists(NAME, min_size=1, max_size=4), min_size=1, max_size=8)
TREES = PATHS.flatmap(
    lambda paths: st.tuples(
        st.just(paths), st.lists(st.binary(max_size=2000), min_size=len(paths), max_size=len(paths))
    )
)


def make_tree(root: Path, tree: tuple[list[list[str]], list[bytes]], *, backwards: bool = False) -> dict[str, bytes]:
    """Write what is free of contradictions; what was written, by path."""
    files: dict[str, bytes] = {}
    keys: dict[str, str] = {}
    for parts, data in zip(*tree, strict=True):
        folded = ["/".join(map(collision_key, parts[: depth + 1])) for depth in range(len(parts))]
        spelled = ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
        if any(keys.get(key, name) != name for key, name in zip(folded, spelled, strict=True)):
            continue
        if any(name in files for name in spelled) or any(name.startswith(f"{spelled[-1]}/") for name in files):
            continue
        keys.update(zip(folded, spelled, strict=True))
        files[spelled[-1]] = data
    for path in sorted(files, reverse=backwards):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(files[path])
    return files


def read_tars(plans: tuple[LayerPlan, ...]) -> tuple[dict[str, bytes], list[tarfile.TarInfo]]:
    files: dict[str, bytes] = {}
    entries: list[tarfile.TarInfo] = []
    for layer in plans:
        with layer.open() as stream:
            data = stream.read()
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
            for entry in tar:
                entries.append(entry)
                content = tar.extractfile(entry)
                if content is not None:
                    files[entry.name] = content.read()
    return files, entries


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(tree=TREES)
def test_any_tree_comes_out_of_its_layers_as_it_went_in(
    tree: tuple[list[list[str]], list[bytes]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("tree")
    files = make_tree(root, tree)
    plans = plan(scan(root))
    read, entries = read_tars(plans)
    assert read == {f"kubedl-model/{path}": data for path, data in files.items()}
    assert all(entry.mtime == entry.uid == entry.gid == 0 for entry in entries)
    assert {entry.mode for entry in entries} <= {0o644, 0o755}
    names = [entry.name.encode() for entry in entries]
    assert names == sorted(names)
    for layer in plans:
        assert layer.hashed().size == layer.size
    with plans[0].open() as stream:
        unpack_tar(stream, root / "out", subpath="kubedl-model")


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(tree=TREES, time=st.integers(0, 2_000_000_000))
def test_order_times_and_modes_do_not_change_the_digest(
    tree: tuple[list[list[str]], list[bytes]], time: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    first, second = tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("second")
    make_tree(first, tree)
    before = os.umask(0o077)
    try:
        make_tree(second, tree, backwards=True)
    finally:
        os.umask(before)
    for path in second.rglob("*"):
        os.utime(path, (time, time))
        if path.is_file():
            path.chmod(0o700)
    (second / ".modelwright").mkdir()
    assert image.build(first).digest == image.build(second).digest


def test_the_digest_of_a_known_folder_never_changes(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "labels.txt").write_text("cat\ndog\n")
    (tmp_path / "model.onnx").write_bytes(bytes(range(256)) * 4)
    assert image.build(tmp_path).digest == "sha256:23eb72de84d268a92d9bed806427eb628254add397ed324d501b4312c82b13b6"


@pytest.mark.parametrize("length", [1, 87, 88, 100, 101, 155, 254])
def test_names_of_any_length_are_kept(length: int) -> None:
    header = tarheader.file_header("n" * length, 0)
    with tarfile.open(fileobj=io.BytesIO(header + tarheader.END), mode="r:") as tar:
        assert tar.getnames() == ["n" * length]


@pytest.mark.parametrize("size", [0, 1, 8**11 - 1, 8**11, 2**40, 2**62])
def test_sizes_beyond_eight_gibibytes_are_kept(size: int) -> None:
    entry = tarfile.TarInfo.frombuf(tarheader.file_header("a", size)[-512:], "utf-8", "strict")
    with tarfile.open(fileobj=io.BytesIO(tarheader.file_header("a", size)), mode="r|") as tar:
        found = tar.next()
    assert found is not None
    assert found.size == size
    assert entry.size == (size if size < 8**11 else 0)


def folder_of(*sizes: int) -> Folder:
    entries = [Entry(f"f{number:05}", directory=False, size=size) for number, size in enumerate(sizes)]
    return Folder(Path("/nowhere"), tuple(entries))


def files_of(layer: LayerPlan) -> list[str]:
    return [entry.path for entry in layer.entries if not entry.directory]


def test_large_files_have_layers_of_their_own_and_small_ones_share() -> None:
    found = plan(folder_of(10, LARGE, 20, LARGE + 1))
    assert [files_of(layer) for layer in found] == [["f00000", "f00002"], ["f00001"], ["f00003"]]
    assert [layer.file for layer in found] == [None, "f00001", "f00003"]


@pytest.mark.parametrize(
    "sizes", [[LARGE] * 99, [LARGE] * 100, [LARGE] * 101, [LARGE] * 5000, [2 * GROUP] * 163, [GROUP] * 3 + [1] * 20_000]
)
def test_there_are_never_too_many_layers_and_every_file_is_in_one(sizes: list[int]) -> None:
    found = plan(folder_of(*sizes))
    assert len(found) <= MAX_LAYERS
    names = [name for layer in found for name in files_of(layer)]
    assert sorted(names) == [f"f{number:05}" for number in range(len(sizes))]


def test_the_largest_keep_their_own_layers_when_there_are_too_many() -> None:
    found = plan(folder_of(*[LARGE] * 300, 100 * LARGE))
    assert found[-1].file == "f00300"


@given(st.lists(st.integers(0, 4 * LARGE), min_size=1, max_size=300), st.data())
@settings(max_examples=40, deadline=None)
def test_a_file_that_keeps_its_size_changes_one_layer_at_most(sizes: list[int], data: st.DataObject) -> None:
    changed = f"f{data.draw(st.integers(0, len(sizes) - 1)):05}"
    assert sum(changed in files_of(layer) for layer in plan(folder_of(*sizes))) == 1


def test_every_layer_holds_the_folders_above_its_files(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "large").write_bytes(bytes(LARGE))
    (tmp_path / "a" / "small").write_text("x")
    (tmp_path / "empty" / "deep").mkdir(parents=True)
    small, large = plan(scan(tmp_path))
    assert [entry.path for entry in small.entries] == ["", "a", "a/small", "empty", "empty/deep"]
    assert [entry.path for entry in large.entries] == ["", "a", "a/b", "a/b/large"]


@pytest.mark.parametrize("chunk", [1, 511, 512, 513, 100_000])
def test_a_layer_reads_the_same_from_any_offset_in_any_steps(tmp_path: Path, chunk: int) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(os.urandom(1500))
    (layer,) = plan(scan(tmp_path))
    with layer.open() as stream:
        whole = stream.read()
    assert len(whole) == layer.size
    for offset in (0, 1, 512, 600, 1024, 2100, layer.size - 1, layer.size):
        with layer.open() as stream:
            assert stream.seek(offset) == offset
            assert b"".join(iter(lambda: stream.read(chunk), b"")) == whole[offset:]


def test_an_index_lists_three_platforms_with_the_same_layers(tmp_path: Path) -> None:
    (tmp_path / "model").write_text("x")
    built = image.build(tmp_path)
    from modelwright.oci import manifests

    listed = [manifests.decode(manifest) for manifest in built.manifests]
    assert len(listed) == 3
    assert len({str(manifests.children(one)[1:]) for one in listed}) == 1
    configs = [manifests.decode_config(config.data) for config in built.configs]
    assert [(one.architecture, one.variant) for one in configs] == [("amd64", ""), ("arm64", ""), ("arm", "v7")]
    assert {one.environment[media.MODEL_PATH_VARIABLE] for one in configs} == {"/kubedl-model"}
    assert all(one.rootfs.diff_ids == [layer.digest for layer in built.layers] for one in configs)


def test_nothing_but_content_is_in_an_image(tmp_path: Path) -> None:
    (tmp_path / "model").write_text("x")
    built = image.build(tmp_path)
    for data in (*(one.data for one in built.manifests), *(one.data for one in built.configs), built.index.data):
        for word in (b"created", b"author", b"modelwright", os.uname().nodename.encode()):
            assert word not in data


def test_a_layer_for_one_file_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(bytes(LARGE))
    (layer,) = image.build(tmp_path).layers
    assert layer.descriptor.annotations == {media.FILE_PATH: "weights"}
    assert layer.descriptor.media_type == media.LAYER
    with layer.open() as stream:
        assert digests.of_stream(stream) == (layer.digest, layer.size)
    assert layers.MAX_LAYERS == 100
