"""Plans of a staging job: how work is cut and limited, and what an earlier attempt left on the shelf."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermit.errors import InvalidInput
from hermit.migration import parts, staging
from hermit.migration.parts import Part
from hermit.migration.shelf import Shelf
from hermit.migration.throttle import Limits, Pace, divide
from hermit.migration.work import cores_here


def test_notes_on_an_object_store_are_notes_as_well() -> None:
    shelf = Shelf("memory:notes")
    shelf.put("b/at/1", {"x": 1})
    shelf.put("b/plan", {"y": 2})
    assert shelf.names() == ["b/at/1", "b/plan"]
    assert shelf.all("b/at") == {"1": {"x": 1}}
    shelf.remove("b/plan")
    shelf.clear("b")
    assert (shelf.get("b/at/1"), shelf.names("b")) == (None, [])


def test_an_empty_plan_and_a_plan_of_other_contents_are_not_taken_over(tmp_path: Path) -> None:
    shelf = Shelf(str(tmp_path))
    plan = parts.Plan("migrate", 3, "1/2", 10, {"0-1": [0, 1]})
    assert parts.take_over(shelf, "b", plan) is None
    parts.begin(shelf, "b", plan)
    assert parts.take_over(shelf, "b", plan) == plan
    assert parts.find_unfinished(shelf, "migrate", 3) == "b"
    for other in (parts.Plan("rollback", 3, "1/2", 10, {}), parts.Plan("migrate", 4, "1/2", 10, {})):
        assert parts.take_over(shelf, "b", other) is None
        assert parts.find_unfinished(shelf, other.direction, other.version) is None
    shelf.put("b", {"manifest": True})
    assert parts.find_unfinished(shelf, "migrate", 3) is None


def test_work_is_cut_by_size_into_as_many_partitions_as_keep_all_cores_busy() -> None:
    def run(function: Any, items: Any) -> list[Part]:
        return []

    mib = 1 << 20
    workers = staging.Workers(run, lambda: 2)
    assert [workers.partitions(1, size * mib) for size in (0, 1, 60, 300, 1_200, 3_000)] == [
        1,
        1,
        2,
        4,
        6,
        12,
    ]
    assert workers.partitions(1, 60 * mib, here=True) == cores_here()
    assert [workers.stays_here(size * mib) for size in (0, 60, 70)] == [True, True, False]
    limited = staging.Workers(run, lambda: 2, Limits(rows_per_partition=100))
    assert not limited.stays_here(0)
    assert [limited.partitions(rows, mib) for rows in (0, 100, 101)] == [1, 1, 2]


def test_limits_are_positive_whole_numbers() -> None:
    assert Limits.parse({"max_parallelism": 3, "other": "x"}) == Limits(max_parallelism=3)
    for wrong in (0, -1, 1.5, "7", True):
        with pytest.raises(InvalidInput, match="max_rows_per_second"):
            Limits.parse({"max_rows_per_second": wrong})


def test_the_rate_is_divided_among_those_that_may_go_on() -> None:
    assert divide(Limits(), ["a", "b"], 2) == Pace()
    assert divide(Limits(max_rows_per_second=100), [], 4) == Pace(25)
    assert divide(Limits(max_rows_per_second=100), ["a", "b"], 4) == Pace(50)
    assert divide(Limits(None, 1, 100), ["a", "b", "c"], 4) == Pace(100, ("b", "c"))
