"""The DAGs and tasks of Hermit by name, for those who need no more of Airflow than that."""

from __future__ import annotations

from hermit.migration.protocol import SINGLE, Direction

MOVES = {f"{direction}_catalog": direction for direction in Direction}
MAINTAIN = "maintain_catalog"
DAGS = (*MOVES, MAINTAIN)
WAIT, NOTHING_TO_DO, REPORT = "wait_for_stores", "nothing_to_do", "report"


def order(dag_id: str) -> dict[str, int]:
    """The tasks of a DAG by their place in the run."""
    steps = SINGLE.plans[MOVES[dag_id]].steps if dag_id in MOVES else ()
    return {name: place for place, name in enumerate((WAIT, *steps, NOTHING_TO_DO, REPORT))}
