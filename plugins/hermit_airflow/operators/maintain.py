"""The tasks of the maintenance DAGs. None of them fences anybody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from hermit_airflow.operators.base import ends_without_retries, stores_behind

if TYPE_CHECKING:
    from airflow.sdk import Context

    from hermit.migration.stores import Stores


class CatalogOperator(BaseOperator):
    """A task about one catalog, which it finds by connections and an organization's ID."""

    template_fields = ("organization_id", "stash_conn_id", "persist_conn_id")
    ui_color = "#f3efe4"

    def __init__(
        self,
        *,
        organization_id: str = "{{ params.organization_id }}",
        stash_conn_id: str = "hermit_stash_default",
        persist_conn_id: str = "hermit_persist_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.organization_id = organization_id
        self.stash_conn_id = stash_conn_id
        self.persist_conn_id = persist_conn_id

    def stores(self) -> Stores:
        """The unopened catalogs that this task works on."""
        from hermit.identity import parse_organization_id

        return stores_behind(self, parse_organization_id(self.organization_id))


class MaintainOperator(CatalogOperator):
    """Does one action of `hermit.migration.maintenance`, if the run asks for it."""

    def __init__(self, *, action: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.action = action

    def execute(self, context: Context) -> Any:
        """Give what was done."""
        from hermit.migration import maintenance

        if self.action not in context["params"]["actions"]:
            raise AirflowSkipException(f"{self.action} was not asked for")
        with ends_without_retries():
            result = maintenance.run(self.stores(), self.action)
        self.log.info("%s: %s", self.action, result)
        return result


class UpgradeCheckOperator(CatalogOperator):
    """Fails if this release could not open the catalog as it is now."""

    def execute(self, context: Context) -> Any:
        """Give the format versions and the number of objects."""
        from hermit.migration import maintenance

        with ends_without_retries():
            result = maintenance.upgrade_check(self.stores())
        self.log.info("%s", result)
        return result
