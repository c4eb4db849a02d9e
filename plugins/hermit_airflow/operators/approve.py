"""The human gate before a cut-over, for those who want one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator, HITLOperator

from hermit_airflow.operators.base import timed

if TYPE_CHECKING:
    from airflow.sdk import Context

APPROVE_TASK = "approve"
VERIFY_TASK = "verify"
APPROVAL = "approval"


class ApproveOperator(ApprovalOperator):
    """Waits for a human when the run asks for one; otherwise lets the run pass.

    Both sides have been found equal when it asks, and the truth has not moved. A rejection skips the steps
    that would move it; the report comes all the same. Whoever opens the catalog while the gate waits fences
    the run, and the cut-over then refuses, whatever was approved.
    """

    def __init__(self, *, direction: str, report_task: str, **kwargs: Any) -> None:
        super().__init__(subject=f"Cut over: {direction} catalog {{{{ params.organization_id }}}}?", **kwargs)
        self.report_task = report_task

    def execute(self, context: Context) -> Any:
        """Ask, unless nobody wanted to be asked."""
        params = context["params"]
        if not params["approve_cut_over"] or params["dry_run"]:
            with timed(context):
                return None
        ti = context["ti"]
        self.body = _body(ti.xcom_pull(task_ids=VERIFY_TASK)["digests"])
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Go on, or skip to the report."""
        with timed(context):
            answer = HITLOperator.execute_complete(self, context, event)
            approved = answer["chosen_options"] == [self.APPROVE]
            user = answer["responded_by_user"] or {}
            approval = {
                "approved": approved,
                "by": user.get("name") or "the timeout",
                "at": answer["responded_at"].isoformat(),
            }
            context["ti"].xcom_push(key=APPROVAL, value=approval)
            if not approved:
                behind = context["task"].get_direct_relatives(upstream=False)
                self.skip(context["ti"], [task for task in behind if task.task_id != self.report_task])
            return approval


def _body(digests: dict[str, str]) -> str:
    """What the human sees: counts and digests, which are the same on both sides."""
    lines = ["Both sides hold the same rows:", "", "| collection | rows | digest |", "|---|---|---|"]
    for name, digest in digests.items():
        rows, _, sum_ = digest.partition(":")
        lines.append(f"| {name} | {int(rows):,} | `{sum_}` |")
    return "\n".join(lines)
