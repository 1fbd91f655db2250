"""Write the locks anew: exact versions with hashes, and no download address."""

from __future__ import annotations

import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
OPTIONS = [
    "--universal",
    "--generate-hashes",
    "--python-version=3.11",
    "--no-emit-index-url",
    "--no-header",
    "--quiet",
    "--upgrade",
]
EXTRAS = ("--extra=onnx", "--extra=sklearn")
IMAGES = {"gateway": "demo", "server-onnx": "demo", "server-sklearn": "demo", "server-tensorflow": "tensorflow"}
"""Images with fewer dependencies than the program has: NAME.in says which, and another lock in which version."""


def compile_lock(name: str, *options: str, source: str = "pyproject.toml") -> None:
    """Write requirements/NAME."""
    command = ["uv", "pip", "compile", source, *OPTIONS, *options, "-o", f"requirements/{name}"]
    subprocess.run(command, cwd=ROOT, check=True)


def compile_image_locks() -> None:
    """Write the locks of the images."""
    for image, versions in IMAGES.items():
        within = f"--constraint=requirements/{versions}.txt"
        compile_lock(f"{image}.txt", within, source=f"requirements/{image}.in")


if __name__ == "__main__":
    if shutil.which("uv") is None:
        raise SystemExit("make lock needs uv: pip install uv")
    demo, within = "--group=demo", "--constraint=requirements/demo.txt"
    compile_lock("demo.txt", *EXTRAS, demo)
    compile_lock("operator.txt", within)
    compile_lock("dev.txt", *EXTRAS, demo, "--group=dev", within)
    # TensorFlow has an environment of its own: it is larger than all the rest, and its limits may be others.
    tensorflow = ("--extra=tensorflow", "--group=tensorflow-tests")
    compile_lock("tensorflow.txt", demo, *tensorflow, "--constraint=requirements/dev.txt")
    compile_image_locks()
