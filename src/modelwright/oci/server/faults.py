"""Errors as distribution-spec writes them ("Error Codes"): a status, a code and a message."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from modelwright.ports.errors import ModelwrightError, Unavailable


class Fault(Exception):
    """An error whose answer is known."""

    def __init__(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.headers = headers or {}

    def response(self) -> Response:
        """The answer."""
        body = msgspec.json.encode({"errors": [{"code": self.code, "message": self.message}]})
        return Response(body, self.status, self.headers, "application/json")


_BY_REASON = {
    "BlobNotFound": (404, "BLOB_UNKNOWN"),
    "ConfigUnknown": (400, "MANIFEST_INVALID"),
    "DigestMismatch": (400, "DIGEST_INVALID"),
    "DiskFull": (507, "INSUFFICIENT_STORAGE"),
    "ImageNotFound": (404, "MANIFEST_UNKNOWN"),
    "ImageTagTaken": (412, "TAG_TAKEN"),
    "InvalidDigest": (400, "DIGEST_INVALID"),
    "InvalidReference": (400, "NAME_INVALID"),
    "ManifestBlobUnknown": (404, "MANIFEST_BLOB_UNKNOWN"),
    "ManifestChildUnknown": (404, "MANIFEST_UNKNOWN"),
    "ManifestConfusing": (400, "MANIFEST_INVALID"),
    "ManifestTooLarge": (413, "MANIFEST_INVALID"),
    "ManifestUnknown": (400, "MANIFEST_INVALID"),
    "RepositoryNotFound": (404, "NAME_UNKNOWN"),
    "SizeMismatch": (400, "SIZE_INVALID"),
    "StillReferenced": (405, "UNSUPPORTED"),
    "UploadBusy": (409, "BLOB_UPLOAD_INVALID"),
    "UploadUnknown": (404, "BLOB_UPLOAD_UNKNOWN"),
}


def fault_of(error: ModelwrightError) -> Fault:
    """The answer to one of our errors."""
    default = (503, "UNAVAILABLE") if isinstance(error, Unavailable) else (400, "UNSUPPORTED")
    status, code = _BY_REASON.get(error.reason, default)
    return Fault(status, code, error.message)
