"""What Events say of a Pod that is not made."""

from __future__ import annotations

import pytest

from modelwright.adapters.kubernetes.workloads.events import pod_refused

QUOTA = "exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1"


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (f'Error creating: pods "mv-3-build-1-x6fxv" is forbidden: {QUOTA}', f"forbidden: {QUOTA}"),
        (
            'Error creating: admission webhook "w.example" denied the request: no',
            'admission webhook "w.example" denied',
        ),
        ("connection refused", "connection refused"),
    ],
)
def test_what_is_told_of_a_pod_that_is_refused_is_the_same_at_each_try(message: str, told: str) -> None:
    failure = pod_refused("default", message)
    assert failure.reason == "PodNotCreated"
    assert failure.message.startswith(f"no Pod can be made for the build: {told}")


def test_a_namespace_that_does_not_admit_it_is_told_without_the_name_of_the_try() -> None:
    violated = 'violates PodSecurity "restricted:latest": runAsNonRoot != true'
    failure = pod_refused("strict", f'Error creating: pods "mv-3-build-1-x6fxv" is forbidden: {violated}')
    assert failure.reason == "PodSecurityForbids"
    assert "x6fxv" not in failure.message
    assert "kubectl label --overwrite ns strict pod-security.kubernetes.io/enforce=baseline" in failure.message
