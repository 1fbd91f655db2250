"""The images that the recipe builds, all upon the same base."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from debian import PYTHON

REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements"
WHOLE_PROGRAM = f"""#!/usr/bin/python{PYTHON} -IB
from modelwright.__main__ import main

main()
"""
ONE_VERB = """#!/usr/bin/python{python} -IB
import sys

from modelwright import __version__

if sys.argv[1:] == ["--version"]:
    print(__version__)
elif sys.argv[1:2] == ["{verb}"]:
    from modelwright.{package}.__main__ import main

    sys.exit(main(sys.argv[2:]))
else:
    sys.exit("this image holds `modelwright {verb}` alone: the operator's image holds the rest")
"""


@dataclass(frozen=True)
class Variant:
    """One image: what is installed in it, from which lock, and its program."""

    name: str
    description: str
    program: str
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def lock(self) -> Path:
        return REQUIREMENTS / f"{self.name}.txt"


def _server(framework: str, name: str, **environment: str) -> Variant:
    program = _verb("server", "serve")
    return Variant(f"server-{framework}", f"Modelwright's model server for {name}", program, environment)


def _verb(verb: str, package: str) -> str:
    return ONE_VERB.format(python=PYTHON, verb=verb, package=package)


VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("operator", "Modelwright: the operator and its agents", WHOLE_PROGRAM),
        Variant("gateway", "Modelwright's gateway for joint inference", _verb("gateway", "gateway")),
        _server("onnx", "ONNX models", ORT_DISABLE_TELEMETRY="1"),
        _server("sklearn", "scikit-learn models"),
        _server("tensorflow", "TensorFlow models", TF_CPP_MIN_LOG_LEVEL="1"),
    )
}
