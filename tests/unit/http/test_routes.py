"""What paths ask for."""

from __future__ import annotations

import pytest

from modelwright.http import routes
from modelwright.http.routes import Route, route_of


@pytest.mark.parametrize(
    ("path", "route"),
    [
        (b"/v2/health/live", Route("live")),
        (b"/v2/models/m/versions/3/infer", Route("v2.infer", "m", "versions", "3")),
        (b"/v1/models/a%2Fb:predict", Route("v1.predict", "a/b")),
        (b"/v1/models/m/labels/stable/metadata", Route("v1.metadata", "m", "labels", "stable")),
        (b"/v2/models/" + b"m" * 5000 + b"/ready", Route("v2.ready", "m" * 5000)),
        (b"/v3", None),
        (b"/v2/health/%ff", None),
    ],
)
def test_a_path_says_what_is_asked_of_which_model(path: bytes, route: Route | None) -> None:
    assert route_of(path) == route


def test_long_paths_are_not_remembered() -> None:
    before = routes._remembered.cache_info().currsize
    for number in range(10):
        assert route_of(b"/v2/models/" + b"%d" % number * 1000) is not None
    assert routes._remembered.cache_info().currsize == before
