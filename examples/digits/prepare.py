"""Put into a folder what the example needs: the data, the training programs, and the manifests with that folder's path.

    python prepare.py FOLDER

The data are the 1,797 handwritten digits that ship with scikit-learn, in three parts. Of every five digits, two are for
training and two are held out, to measure with; these parts are packed into `digits.tar`, whose SHA-256 stands in the
manifests. The fifth goes without its label to `field.json`: a request as a device sends it that nobody watches.
"""

from __future__ import annotations

import io
import json
import pathlib
import shutil
import sys
import tarfile
from typing import Any

from sklearn.datasets import load_digits

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = ("digits.py", "meeting.py", "train_cloud.py", "train_edge.py", "refine_cloud.py")
TRAIN, HELD_OUT, FIELD = (0, 2), (1, 3), (4,)


def part(fifths: tuple[int, ...]) -> tuple[Any, Any]:
    """Images and digits whose place in the data set, modulo five, is one of these."""
    images, digits = load_digits(return_X_y=True)
    chosen = [number for number in range(len(digits)) if number % 5 in fifths]
    return images[chosen].astype(int), digits[chosen]


def prepare(folder: pathlib.Path) -> None:
    """Fill the folder. What was there under the same names is written anew, to the same bytes."""
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    pack({"train.csv": table(TRAIN), "held-out.csv": table(HELD_OUT)}, folder / "digits.tar")
    (folder / "field.json").write_text(json.dumps({"instances": part(FIELD)[0].tolist()}))
    for name in PROGRAMS:
        shutil.copy(HERE / name, folder / name)
    manifests = sorted(HERE.glob("*.yaml"))
    for manifest in manifests:
        (folder / manifest.name).write_text(filled(manifest.read_text(), folder))
    print(f"{folder}: digits.tar, field.json, {len(PROGRAMS)} programs and {len(manifests)} manifests")


def filled(manifest: str, folder: pathlib.Path) -> str:
    """The manifest for this folder and this Python."""
    manifest = manifest.replace("file:///FOLDER", folder.as_uri())
    return manifest.replace("/FOLDER", str(folder)).replace('["python"', f'["{sys.executable}"')


def table(fifths: tuple[int, ...]) -> bytes:
    """A part as CSV: the digit, then its 64 pixels."""
    names = ["digit", *(f"pixel{number}" for number in range(64))]
    rows = [[digit, *image] for image, digit in zip(*part(fifths), strict=True)]
    return "".join(",".join(map(str, row)) + "\n" for row in [names, *rows]).encode()


def pack(files: dict[str, bytes], archive: pathlib.Path) -> None:
    """A tar without times and owners: the same files give the same SHA-256 everywhere."""
    with tarfile.open(archive, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    prepare(pathlib.Path(sys.argv[1]))
