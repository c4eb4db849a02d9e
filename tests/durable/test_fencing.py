"""Who owns a catalog: epochs, tokens, deploy generations. The rows of seed 000 on fencing and opening."""

from __future__ import annotations

from typing import Any

import pytest

from hermit.durable.errors import ConcurrentChange, GenerationTooOld
from hermit.durable.token import FenceToken
from hermit.errors import Fenced, InvalidInput

from .conftest import Lab


@pytest.mark.row("M-10", "M-12", "D-18")
def test_each_opener_gets_the_next_epoch_and_it_is_stored(lab: Lab) -> None:
    epochs = []
    for _ in range(3):
        with lab.open() as opened:
            epochs.append(opened.epoch)
        assert lab.unopened().epoch() == epochs[-1]
    assert epochs == [1, 2, 3]


@pytest.mark.row("M-11", "M-13", "M-14", "M-16")
def test_a_new_opener_fences_every_earlier_reader_and_writer(lab: Lab) -> None:
    first = lab.open()
    second = lab.open()
    reader = lab.read_only()
    third = lab.open()
    digests = third.digests()
    for fenced in (first, second, reader):
        with pytest.raises(Fenced) as caught:
            fenced.get_roles()
        assert (caught.value.epoch, caught.value.current) == (fenced.epoch, third.epoch)
        assert "pid" in caught.value.message
    for fenced in (first, second):
        with pytest.raises(Fenced):
            fenced.set_tombstone(True)
        with pytest.raises(Fenced):
            fenced.confirm_leadership()
    assert third.tombstone() is None
    assert third.digests() == digests


def test_a_fenced_writer_cannot_set_the_tombstone_even_as_its_first_call(lab: Lab) -> None:
    old = lab.open()
    new = lab.open()
    with pytest.raises(Fenced):
        old.set_tombstone(True)
    assert new.tombstone() is None


def test_a_lower_bound_lifts_the_epoch_and_never_lowers_it(lab: Lab) -> None:
    with lab.open(epoch_min=17) as opened:
        assert opened.epoch == 17
    with lab.open(epoch_min=3) as opened:
        assert opened.epoch == 18


def test_a_token_lets_another_process_go_on_as_the_same_opener(lab: Lab) -> None:
    with lab.open() as opened:
        token = FenceToken.from_json(opened.token.to_json())
        resumed = lab.resume(token)
        resumed.set_tombstone(True)
        assert opened.tombstone() is True
        assert lab.unopened().epoch() == opened.epoch


def test_a_token_that_is_not_current_any_more_resumes_nothing(lab: Lab) -> None:
    token = lab.open().token
    lab.open()
    with pytest.raises(Fenced):
        lab.resume(token)


@pytest.mark.parametrize("looks", [True, False])
def test_two_holders_of_one_token_cannot_overwrite_each_other(lab: Lab, looks: bool) -> None:
    one = lab.open()
    other = lab.resume(one.token)
    transaction = one.transaction()
    transaction.allocate_id("item")
    assert other.allocate_id("item") == [1]
    if looks:  # The handle knows by now what the other did; the transaction still does not.
        assert one.get_id_allocator_by_name("item") == other.get_id_allocator_by_name("item")
    with pytest.raises(ConcurrentChange):
        one.commit_transaction(transaction)
    assert one.allocate_id("item") == [2]
    assert other.allocate_id("item") == [3]


@pytest.mark.parametrize("data", [None, {}, {"store": "stash"}, {"store": "x", "epoch": "y", "nonce": ""}])
def test_what_is_no_token_is_refused(data: Any) -> None:
    with pytest.raises(InvalidInput):
        FenceToken.from_json(data)


def test_an_older_deploy_generation_cannot_open_and_changes_nothing(lab: Lab) -> None:
    newer = lab.open(deploy_generation=5)
    with pytest.raises(GenerationTooOld) as caught:
        lab.open(deploy_generation=4)
    assert (caught.value.given, caught.value.stored) == (4, 5)
    newer.confirm_leadership()
    assert newer.deploy_generation() == 5


def test_a_newer_deploy_generation_fences_an_older_one_and_an_equal_one_is_ordered_by_epoch(
    lab: Lab,
) -> None:
    old = lab.open(deploy_generation=1)
    new = lab.open(deploy_generation=2)
    assert new.token.deploy_generation == 2
    with pytest.raises(Fenced):
        old.get_config()
    equal = lab.open(deploy_generation=2)
    assert equal.epoch > new.epoch
    with pytest.raises(Fenced):
        new.get_config()


def test_opening_moves_the_epoch_and_not_the_content_version(lab: Lab) -> None:
    with lab.open() as opened:
        before, digests = opened.content_version(), opened.digests()
    with lab.open() as opened:
        assert (opened.content_version(), opened.digests()) == (before, digests)
        opened.set_tombstone(True)
        assert opened.content_version() > before
        assert opened.digests() == digests
