"""Others who commit between a commit and the merge of small files that it brings about are noticed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hermit.durable import init_persist_catalog_state
from hermit.errors import Fenced
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
