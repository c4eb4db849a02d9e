"""Commands: every modification that the catalog knows, with the rules that guard it."""

from __future__ import annotations

from hermit.service.commands.base import CatalogCommand
from hermit.service.commands.columns import UNCHANGED, AddColumns, AlterColumn, DropColumns, RenameColumn
from hermit.service.commands.definitions import ColumnDefinition
from hermit.service.commands.indexes import CreateIndex, DropIndex, RenameIndex
from hermit.service.commands.schemas import CreateSchema, DropSchema, RenameSchema
from hermit.service.commands.sequences import AlterSequence, CreateSequence, DropSequence, RenameSequence
from hermit.service.commands.tables import CreateTable, DropTable, RenameTable
from hermit.service.commands.views import AlterView, CreateView, DropView, RenameView
from hermit.service.commands.zones import AlterZone, CreateZone, DropZone, RenameZone, SetDefaultZone

__all__ = [
    "UNCHANGED",
    "AddColumns",
    "AlterColumn",
    "AlterSequence",
    "AlterView",
    "AlterZone",
    "CatalogCommand",
    "ColumnDefinition",
    "CreateIndex",
    "CreateSchema",
    "CreateSequence",
    "CreateTable",
    "CreateView",
    "CreateZone",
    "DropColumns",
    "DropIndex",
    "DropSchema",
    "DropSequence",
    "DropTable",
    "DropView",
    "DropZone",
    "RenameColumn",
    "RenameIndex",
    "RenameSchema",
    "RenameSequence",
    "RenameTable",
    "RenameView",
    "RenameZone",
    "SetDefaultZone",
]
