"""Others who commit at the worst moment, as between a commit and the merge of files after it, are noticed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hermit.durable import init_persist_catalog_state
from hermit.durable.fence import Fence
from hermit.durable.shard import Shard
from hermit.errors import Fenced, Unavailable
from hermit.persist import compaction
from hermit.persist.compaction import Merge


@pytest.fixture
def before_merge(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], list[int]]:
    """Runs something once, right before files are merged; what it returns grows by one then."""
    plan = compaction.plan

    def arm(act: Callable[[], object]) -> list[int]:
        done: list[int] = []

        def planned(*arguments: object, **options: object) -> list[Merge]:
            merges = plan(*arguments, **options)  # type: ignore[arg-type]
            if not merges or done:
                # Whoever commits in between leaves the files to the one who was first.
                return [] if len(done) == 1 else merges
            done.append(1)
            act()
            done.append(2)
            return merges

        monkeypatch.setattr(compaction, "plan", planned)
        return done

    return arm


def test_a_holder_of_the_same_token_is_not_overlooked(
    tmp_path: Path, before_merge: Callable[[Callable[[], object]], list[int]]
) -> None:
    with (
        init_persist_catalog_state(tmp_path / "shard").open() as one,
        init_persist_catalog_state(tmp_path / "shard").resume(one.token) as two,
    ):
        done = before_merge(lambda: two.set_setting("contended", "two"))
        number = 0
        while not done:
            number += 1
            one.set_setting("own", str(number))
        found = one.get_setting_by_name("contended")
        assert found is not None
        assert found.value.value == "two"
        one.set_setting("contended", "one")
        assert {each.key.name: each.value.value for each in two.get_settings()}["contended"] == "one"


def test_an_opener_fences_also_then(
    tmp_path: Path, before_merge: Callable[[Callable[[], object]], list[int]]
) -> None:
    with init_persist_catalog_state(tmp_path / "shard").open() as one:
        opened = []
        done = before_merge(lambda: opened.append(init_persist_catalog_state(tmp_path / "shard").open()))
        number = 0
        while not done:
            number += 1
            one.set_setting("own", str(number))
        with pytest.raises(Fenced):
            one.set_setting("own", "late")
        with pytest.raises(Fenced):
            one.get_settings()
        with opened[0] as two:
            assert {each.key.name: each.value.value for each in two.get_settings()}["own"] == str(number)


@pytest.mark.parametrize("opened", [False, True])
def test_a_look_at_the_fence_that_failed_is_not_taken_for_one_that_succeeded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: bool
) -> None:
    with init_persist_catalog_state(tmp_path / "shard").open() as one:
        if opened:
            init_persist_catalog_state(tmp_path / "shard").open().close()

        def broken(self: Shard, upper: int) -> Fence | None:
            raise Unavailable("not now")

        with monkeypatch.context() as patch:
            patch.setattr(Shard, "fence", broken)
            with pytest.raises(Unavailable):
                one.confirm_leadership()
        if opened:
            with pytest.raises(Fenced):
                one.set_setting("own", "late")
        else:
            one.set_setting("own", "in time")
