"""Following a catalog: each commit once, in order, as it happens."""

from __future__ import annotations

import threading

import pytest

from hermit.durable.errors import Closed
from hermit.durable.subscription import ChangeBatch

from .conftest import Lab
from .samples import item, role


@pytest.mark.row("D-86")
def test_a_subscription_delivers_every_commit_once_and_in_order(lab: Lab) -> None:
    opened = lab.open()
    followers = [opened.subscribe(), lab.read_only().subscribe()]
    opened.set_objects("roles", [role(1)])
    for follower in followers:
        assert [len(batch.updates) for batch in follower.poll()] == [1]
    opened.set_objects("roles", [role(1, "other"), role(2)])
    opened.set_objects("items", [item(1)])
    opened.append_audit_log([])
    for follower in followers:
        first, second = follower.poll()
        assert [(change.diff, change.object.value.name) for change in first.objects()] in (
            [(-1, "role_1"), (1, "other"), (1, "role_2")],
            [(1, "other"), (-1, "role_1"), (1, "role_2")],
        )
        assert [(change.kind, change.diff) for change in second.objects()] == [("items", 1)]
        assert first.time < second.time
        assert follower.poll() == []


def test_a_subscription_begins_where_the_catalog_is(lab: Lab) -> None:
    opened = lab.open()
    opened.set_objects("roles", [role(1)])
    follower = opened.subscribe()
    assert follower.poll() == []
    opened.set_objects("roles", [role(2)])
    assert len(follower.poll()) == 1


def test_a_subscriber_that_waits_is_woken(lab: Lab) -> None:
    opened = lab.open()
    follower = lab.read_only().subscribe()
    delivered: list[ChangeBatch] = []
    wanted = 3

    def follow() -> None:
        for batch in follower:
            delivered.append(batch)
            if len(delivered) == wanted:
                follower.close()

    thread = threading.Thread(target=follow)
    thread.start()
    for number in range(wanted):
        opened.set_timestamp("epoch_ms", number)
    thread.join(timeout=30)
    assert not thread.is_alive()
    assert [len(batch.updates) for batch in delivered] == [2] * wanted


def test_waiting_for_a_commit_that_does_not_come_ends(lab: Lab) -> None:
    follower = lab.open().subscribe()
    assert follower.next(timeout_s=0.02) is None
    follower.close()
    assert follower.next() is None


def test_a_closed_catalog_ends_its_subscriptions(lab: Lab) -> None:
    opened = lab.open()
    follower = opened.subscribe()
    opened.close()
    with pytest.raises(Closed):
        follower.poll()


def test_commits_made_in_between_do_not_lose_anything_for_a_slow_follower(lab: Lab) -> None:
    opened = lab.open()
    reader = lab.read_only()
    follower = reader.subscribe()
    for number in range(1, 6):
        opened.set_objects("roles", [role(number)])
        reader.get_roles()
    assert [batch.objects()[0].object.value.name for batch in follower.poll()] == [
        f"role_{number}" for number in range(1, 6)
    ]
