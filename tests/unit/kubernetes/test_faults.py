"""What a server refuses becomes the error that says whether trying again helps."""

from __future__ import annotations

import json

import pytest
from tests.unit.kubernetes.servers import refused

from modelwright.adapters.kubernetes.events import event_name
from modelwright.adapters.kubernetes.faults import InvalidResource, refusal
from modelwright.adapters.kubernetes.resource import NAMESPACES, Resource
from modelwright.ports.errors import (
    AlreadyExists,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    ModelwrightError,
    NotFound,
    Unavailable,
)
from modelwright.ports.store import Event


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [
        (400, "BadRequest", Invalid),
        (401, "Unauthorized", Forbidden),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (410, "Expired", Expired),
        (413, "RequestEntityTooLarge", Invalid),
        (415, "UnsupportedMediaType", Invalid),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", Unavailable),
        (500, "InternalError", Unavailable),
        (503, "ServiceUnavailable", Unavailable),
        (504, "Timeout", Unavailable),
    ],
)
def test_each_code_is_its_error(code: int, reason: str, error: type[ModelwrightError]) -> None:
    fault = refusal(code, {}, json.dumps(refused(code, reason, "because")).encode(), "GET /x")
    assert type(fault) is error or isinstance(fault, error)
    assert fault.reason == reason
    assert fault.message == "because"


def test_an_answer_that_is_no_status_says_what_was_asked() -> None:
    fault = refusal(502, {}, b"<html>Bad Gateway</html>", "GET /apis/x")
    assert isinstance(fault, Unavailable)
    assert fault.message == "GET /apis/x: HTTP 502 <html>Bad Gateway</html>"


def test_a_server_that_wants_to_be_left_alone_says_for_how_long() -> None:
    by_header = refusal(429, {"retry-after": "7"}, b"", "GET /x")
    status = refused(429, "TooManyRequests") | {"details": {"retryAfterSeconds": 9}}
    by_status = refusal(429, {}, json.dumps(status).encode(), "GET /x")
    assert isinstance(by_header, Unavailable)
    assert isinstance(by_status, Unavailable)
    assert (by_header.after, by_status.after) == (7.0, 9.0)


def test_every_fault_of_an_object_is_kept_with_its_field() -> None:
    causes = [{"field": "spec.a", "message": "Required", "reason": "FieldValueRequired"}, {"message": "whole"}]
    status = refused(422, "Invalid", "is invalid") | {"details": {"causes": causes}}
    fault = refusal(422, {}, json.dumps(status).encode(), "POST /x")
    assert isinstance(fault, InvalidResource)
    assert [(cause.field, cause.message) for cause in fault.causes] == [("spec.a", "Required"), ("", "whole")]


def test_a_name_never_leaves_its_place_in_a_path() -> None:
    models = Resource("model.kubedl.io", "v1alpha1", "models", "Model")
    assert models.path("a", "../b?c#d") == "/apis/model.kubedl.io/v1alpha1/namespaces/a/models/..%2Fb%3Fc%23d"
    assert models.path() == "/apis/model.kubedl.io/v1alpha1/models"
    assert models.path("a", "b", "status").endswith("/namespaces/a/models/b/status")
    assert NAMESPACES.path("ignored", "b") == "/api/v1/namespaces/b"


def test_equal_events_have_one_name_and_others_another() -> None:
    def event(uid: str = "u", reason: str = "Built", message: str = "m", name: str = "resnet") -> Event:
        return Event("v1", "Model", "a", name, uid, "Normal", reason, message)

    assert event_name(event()) == event_name(event())
    assert len({event_name(each) for each in (event(), event("v"), event(reason="R"), event(message="n"))}) == 4
    assert event_name(event(uid="ab", reason="c")) != event_name(event(uid="a", reason="bc"))
    assert len(event_name(event(name="n" * 253))) <= 253
