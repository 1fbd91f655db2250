"""What can be wrong with a request. What can be wrong with a model is in `modelwright.ports.errors`."""

from __future__ import annotations


class RequestError(Exception):
    """A request that is answered with an error; `message` is meant for the client.

    `status` is the HTTP status: 400 for a body that does not fit the model, 404, 405, 413, 503.
    """

    def __init__(self, message: str, status: int = 400, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.headers = headers
