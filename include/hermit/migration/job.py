"""How a Spark job is told what to do: a request as its only argument, the stash's URL in its environment.

The URL may hold a password. Arguments are seen by everybody who lists processes, and Spark shows them on its
pages.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from hermit.errors import InvalidInput

STASH_URL_VARIABLE = "HERMIT_JOB_STASH_URL"


def take_stash_url() -> str:
    """The stash's URL, which nothing that the job starts inherits any more."""
    found = os.environ.pop(STASH_URL_VARIABLE, "")
    if not found:
        raise InvalidInput(f"{STASH_URL_VARIABLE} is not set", hint="it holds the URL of the stash")
    return found


def read_request(arguments: Sequence[str], *required: str) -> dict[str, Any]:
    """The request, a JSON object that has at least the required fields."""
    if len(arguments) != 1:
        raise InvalidInput(f"{len(arguments)} arguments were given, not one", hint="give the request as JSON")
    try:
        request = json.loads(arguments[0])
    except ValueError as error:
        raise InvalidInput(f"the request is not JSON: {error}") from error
    if not isinstance(request, dict):
        raise InvalidInput(f"the request is not a JSON object: {arguments[0]}")
    if missing := [name for name in required if name not in request]:
        raise InvalidInput(f"the request has no {', '.join(missing)}")
    return request
