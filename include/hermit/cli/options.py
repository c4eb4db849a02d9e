"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

OrganizationId = Annotated[
    str | None, typer.Option("--organization-id", help="The catalog; by default this home's own.")
]
