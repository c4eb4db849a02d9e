"""What the operators of a move share: the stores behind their connections, and how errors end a task.

A step that was fenced fails at once, without retries: trying again cannot help, and the message says
which epoch took over and which task to clear. Other errors of ours that cannot heal do the same;
`Unavailable` is left to Airflow's retries.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from hermit.errors import Fenced, HermitError, Unavailable

if TYPE_CHECKING:
    from uuid import UUID

    from airflow.sdk import Context

    from hermit.migration.move import Move
    from hermit.migration.stores import Stores

FENCE_TASK = "fence_epoch"
TIMES = "times"


class MoveOperator(BaseOperator):
    """A step of a move. Subclasses implement `step`; its result is the task's XCom."""

    template_fields = ("organization_id", "stash_conn_id", "persist_conn_id")
    ui_color = "#e8f0ef"

    def __init__(
        self,
        *,
        direction: str,
        organization_id: str = "{{ params.organization_id }}",
        stash_conn_id: str = "hermit_stash_default",
        persist_conn_id: str = "hermit_persist_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.direction = direction
        self.organization_id = organization_id
        self.stash_conn_id = stash_conn_id
        self.persist_conn_id = persist_conn_id

    def execute(self, context: Context) -> Any:
        """Run the step and turn what cannot heal into a failure without retries."""
        with timed(context), ends_without_retries():
            return self.step(context, move_of(self, context))

    @abstractmethod
    def step(self, context: Context, move: Move) -> Any:
        """The work of this task."""

    def stores(self, move: Move) -> Stores:
        """The unopened catalogs that this task works on."""
        return stores_of(self, move)


def move_of(operator: Any, context: Context) -> Move:
    """What the run was asked to do, from its params."""
    from hermit.migration.move import Move

    params = context["params"]
    return Move.parse(
        direction=operator.direction,
        organization_id=operator.organization_id,
        protocol=params.get("protocol"),
        dry_run=bool(params.get("dry_run")),
        run_id=str(context["run_id"]),
        limits=params,
    )


def stores_of(operator: Any, move: Move) -> Stores:
    """The unopened catalogs that a step of a move works on."""
    return stores_behind(operator, move.organization_id)


def stores_behind(operator: Any, organization_id: UUID) -> Stores:
    """The unopened catalogs behind the operator's connections."""
    from hermit.migration.stores import connect
    from hermit_airflow.hooks.persist import HermitPersistHook
    from hermit_airflow.hooks.stash import HermitStashHook

    return connect(
        HermitStashHook(operator.stash_conn_id).url(),
        HermitPersistHook(operator.persist_conn_id).location(),
        organization_id,
    )


@contextmanager
def timed(context: Context) -> Iterator[None]:
    """Leave in XCom when the work of this task began and ended, for the report."""
    started = datetime.now(UTC)
    try:
        yield
    finally:
        # Always with fractions: the names of reports are made of such times, and must sort.
        began, ended = (time.isoformat(timespec="microseconds") for time in (started, datetime.now(UTC)))
        context["ti"].xcom_push(key=TIMES, value={"started": began, "ended": ended})


@contextmanager
def ends_without_retries() -> Iterator[None]:
    """Errors that trying again cannot heal end the task for good."""
    try:
        yield
    except Unavailable:
        raise
    except Fenced as error:
        raise AirflowFailException(
            f"{error} — another run took over; clear {FENCE_TASK!r} of this run to take the catalog back"
        ) from error
    except HermitError as error:
        raise AirflowFailException(str(error)) from error
