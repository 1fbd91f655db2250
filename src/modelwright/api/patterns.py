"""Regular expressions of schemas and rules: those that RE2 and Python's re read alike."""

from __future__ import annotations

import re
from functools import lru_cache


@lru_cache(maxsize=256)
def regex(pattern: str) -> re.Pattern[str]:
    """A pattern of RE2, for Python: there a closing $ would also match before a line feed at the end."""
    return re.compile(re.sub(r"\$(?=$|\))", r"\\Z", pattern))
