"""The errors of Modelwright, a small tree.

    ModelwrightError
    ├── Retryable                 the world may mend it: try again, later
    │   ├── Conflict              somebody else wrote first: read again
    │   ├── Unavailable           no answer, a broken answer, a full disk
    │   └── Expired               a version to resume from is compacted away: list again
    └── Terminal                  nothing but a change by the user mends it
        ├── Invalid               a value breaks a rule
        ├── NotFound
        ├── AlreadyExists
        ├── Forbidden             refused by authentication, authorisation or policy
        ├── Mismatch              content is not what its digest, length or shape says
        └── Rejected              content that we refuse to touch (archives, links, bombs)

Every error carries a CamelCase `reason`, which becomes the reason of a condition,
and a message that says what was wrong, where, and what to do.
"""

from __future__ import annotations


class ModelwrightError(Exception):
    """An error whose message is meant for the user.

    `reason` is a CamelCase word for conditions and Events, by default the class's name.
    """

    retryable = False

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason or type(self).__name__


class Retryable(ModelwrightError):
    """The world may mend it; `after` is how many seconds to wait, where the other side said so."""

    retryable = True

    def __init__(self, message: str, *, reason: str = "", after: float | None = None) -> None:
        super().__init__(message, reason=reason)
        self.after = after


class Conflict(Retryable):
    """Somebody else wrote first: read the object again and decide anew."""


class Unavailable(Retryable):
    """The other side gave no answer, a broken one, or asked to be left alone."""


class Expired(Retryable):
    """The version to resume from has been compacted away: list again."""


class Terminal(ModelwrightError):
    """Nothing but a change by the user mends it."""


class Invalid(Terminal):
    """A value breaks a rule."""


class NotFound(Terminal):
    """The thing does not exist."""


class AlreadyExists(Terminal):
    """A thing of that name exists."""


class Forbidden(Terminal):
    """Refused by authentication, authorisation or policy."""


class Mismatch(Terminal):
    """Content is not what its digest, length or shape says."""


class Rejected(Terminal):
    """Content that we refuse to touch: hostile archives, links, bombs."""
