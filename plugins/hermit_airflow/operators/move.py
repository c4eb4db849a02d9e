"""The steps of a move that write or read a few rows: each is one call into `hermit.migration.steps`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.branch import BranchMixIn

from hermit_airflow import assets
from hermit_airflow.operators.approve import APPROVAL, APPROVE_TASK
from hermit_airflow.operators.base import FENCE_TASK, TIMES, MoveOperator

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from hermit.migration.manifest import Manifest
    from hermit.migration.move import Fencing, Move
    from hermit.migration.stores import Stores

CHECK_TASK = "check_tombstone"


def fencing_of(context: Context) -> Fencing:
    """The run's fencing token, from the task that took it."""
    from hermit.migration.move import Fencing

    return Fencing.from_json(context["ti"].xcom_pull(task_ids=FENCE_TASK))


def batch_of(context: Context) -> str:
    """The staged batch that this run uses: its own, or one of an earlier attempt that is still good."""
    return str(context["ti"].xcom_pull(task_ids=CHECK_TASK, key="batch"))


def steps_of(move: Move) -> Any:
    """The step functions: those that write, or those that tell what they would write."""
    from hermit.migration import dry_run, steps

    return dry_run if move.dry_run else steps


class OpenOperator(MoveOperator):
    """Looks at both stores without writing: reachable, which epoch, which format, which tombstone."""

    def step(self, context: Context, move: Move) -> Any:
        """Give what was found."""
        steps = steps_of(move)
        return steps.look(self.stores(move), move)


class FenceEpochOperator(MoveOperator):
    """Opens the stash, then persist, each above the other's epoch: whoever held them is fenced out."""

    def step(self, context: Context, move: Move) -> Any:
        """Give the run's fencing token."""
        steps = steps_of(move)
        return steps.fence_epoch(self.stores(move), move).to_json()


class AnnounceOperator(MoveOperator):
    """Sets the tombstone that the protocol sets first, if it is one of those that do."""

    def step(self, context: Context, move: Move) -> Any:
        """Give what was announced."""
        steps = steps_of(move)
        return steps.announce(self.stores(move), move, fencing_of(context))


class CheckTombstoneOperator(MoveOperator, BranchMixIn):
    """Reads the state and goes on where the protocol's table says: the one branch of a move."""

    inherits_from_skipmixin = True

    def __init__(self, *, tasks: dict[str, str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tasks = tasks

    def step(self, context: Context, move: Move) -> Any:
        """Choose the next task; what was found goes to the report."""
        steps = steps_of(move)
        decision = steps.check_tombstone(self.stores(move), move, fencing_of(context))
        self.log.info("%s: %s", decision.next, decision.reason)
        context["ti"].xcom_push(key="batch", value=decision.batch)
        context["ti"].xcom_push(key="decision", value=decision.to_json())
        return self.do_branch(context, self.tasks[decision.next])


class ReplaceOperator(MoveOperator):
    """Makes the staged snapshot the contents of the target, by one atomic write."""

    written: tuple[Stores, int, int] | None = None

    def step(self, context: Context, move: Move) -> Any:
        """Give what was written."""
        steps, self.written = steps_of(move), None
        result = steps.replace(self.stores(move), move, fencing_of(context), batch_of(context))
        if not move.dry_run:
            self.written = (self.stores(move), result["rows"], result["bytes"])
        return result

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """What OpenLineage's provider asks for, where it is installed; a dry run wrote nothing."""
        from hermit_airflow import lineage

        if self.written is None:
            return None
        stores, rows, size = self.written
        return lineage.of_move(stores, self.direction == "migrate", rows, size)


class VerifyOperator(MoveOperator):
    """Compares count and digest per collection on both sides; a difference stops the run."""

    def __init__(self, *, steps: tuple[str, ...], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.steps = steps

    def step(self, context: Context, move: Move) -> Any:
        """Give the digests; where both sides differ, leave a report that says in which keys."""
        from hermit.migration.steps import DigestMismatch

        steps, stores = steps_of(move), self.stores(move)
        try:
            return steps.verify(stores, move, fencing_of(context), batch_of(context))
        except DigestMismatch as error:
            report = report_of(context, self.steps, stores, move, differences=error.sample)
            context["ti"].xcom_push(key="report", value=report)
            raise


class SetTombstoneOperator(MoveOperator):
    """The cut-over: one tombstone, one atomic write, checked against the epoch."""

    def step(self, context: Context, move: Move) -> Any:
        """Give where the truth is now, and tell those who wait for this catalog."""
        steps, stores = steps_of(move), self.stores(move)
        batch, fencing = batch_of(context), fencing_of(context)
        result = steps.set_tombstone(stores, move, fencing, batch)
        if not move.dry_run:
            assets.publish(context, move, fencing, result, steps.staged(stores, batch))
        return result


class ReportOperator(MoveOperator):
    """Puts together what the run did. It is the run's result, for the CLI, the UI and other DAGs."""

    def __init__(self, *, steps: tuple[str, ...], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.steps = steps

    def step(self, context: Context, move: Move) -> Any:
        """Give the report."""
        stores, steps = self.stores(move), steps_of(move)
        decision = context["ti"].xcom_pull(task_ids=CHECK_TASK, key="decision")
        batch: str | None = decision["batch"] if decision else None
        manifest = steps.staged(stores, batch) if batch else None
        result = report_of(context, self.steps, stores, move, manifest=manifest)
        # A batch that was rejected stays: the next run finds it and goes on at verify.
        if result["outcome"] != "rejected":
            steps.finish(stores, move, batch)
        return result


def report_of(
    context: Context,
    steps: tuple[str, ...],
    stores: Stores,
    move: Move,
    *,
    manifest: Manifest | None = None,
    differences: Sequence[Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """What the run did so far, from what its tasks left in XCom; kept unless the run is dry."""
    from hermit.migration import report
    from hermit.migration.history import History

    ti = context["ti"]
    ran = report.Ran(
        results={step: ti.xcom_pull(task_ids=step) for step in steps},
        times={step: ti.xcom_pull(task_ids=step, key=TIMES) for step in steps},
        decision=ti.xcom_pull(task_ids=CHECK_TASK, key="decision"),
        approval=ti.xcom_pull(task_ids=APPROVE_TASK, key=APPROVAL),
        differences=differences,
    )
    result = report.build(stores, move, ran, manifest)
    if not move.dry_run:
        History(stores.location).write(result)
    return result
