"""Generated catalogs: any size, any version, the same for the same seed, and like a real one on demand."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from hermit.errors import InvalidInput
from hermit.formats import codec
from hermit.formats.complete import missing
from hermit.formats.generate import GENERATED, rows
from hermit.formats.metrics import Size
from hermit.formats.versions import MIN_STASH_VERSION, STASH_VERSION
from hermit.rows import Row
from tests.formats import frozen

VERSIONS = range(MIN_STASH_VERSION, STASH_VERSION + 1)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("objects", [0, 1, 7, 1000])
def test_exactly_the_wanted_number_of_unique_objects_is_made(version: int, objects: int) -> None:
    made = [row for row in rows(objects, seed=1, version=version) if row.collection != "config"]
    update_log = objects * 8 // 1000 if version == 14 else 0
    assert len(made) == objects - update_log
    assert len({(row.collection, row.key) for row in made}) == len(made)


def test_the_same_seed_makes_the_same_catalog_and_another_seed_another() -> None:
    assert list(rows(500, seed=1)) == list(rows(500, seed=1))
    assert list(rows(500, seed=1)) != list(rows(500, seed=2))


@pytest.mark.parametrize("version", frozen.PROTO_VERSIONS)
def test_generated_objects_are_complete_in_their_version(version: int) -> None:
    for row in rows(1000, seed=3, version=version):
        if row.collection != "config":
            for message in frozen.parse(version, row):
                assert missing(message) is None


def test_every_kind_occurs() -> None:
    assert {row.collection for row in rows(2000, seed=1)} == {"config", *GENERATED}


@pytest.mark.row("F-52")
@pytest.mark.parametrize("version", VERSIONS)
def test_metrics_of_a_real_catalog_decide_number_and_size(version: int) -> None:
    like = {"items": {"rows": 400, "bytes": 400 * 900}, "roles": {"rows": 3, "bytes": 100}}
    made = list(rows(None, seed=1, version=version, like=like))
    assert Counter(row.collection for row in made) == {"config": 1, "items": 400, "roles": 3}
    size = sum(len(row.key) + len(row.value) for row in made if row.collection == "items")
    assert size == pytest.approx(400 * 900, rel=0.25)


def test_the_printed_status_of_a_catalog_is_understood() -> None:
    collections = {"items": {"rows": 5, "bytes": 900}, "config": {"rows": 2, "bytes": 30}}
    status = {"source_of_truth": "persist", "persist": {"rows": 7, "collections": collections}, "stash": {}}
    counts = Counter(row.collection for row in rows(None, seed=1, like=status))
    assert counts == {"config": 1, "items": 5}


def test_metrics_can_be_scaled_to_another_number_of_objects() -> None:
    like = {"items": Size(30, 9000), "audit_log": Size(10, 900)}
    counts = Counter(row.collection for row in rows(4000, seed=1, like=like))
    assert counts == {"config": 1, "items": 3000, "audit_log": 1000}


@pytest.mark.row("F-58")
def test_a_very_large_catalog_is_streamed() -> None:
    assert len(list(islice(rows(10**9, seed=1), 1000))) == 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"objects": 1, "version": 13}, "no format 13"),
        ({"objects": 1, "version": STASH_VERSION + 1}, f"no format {STASH_VERSION + 1}"),
        ({"objects": -1}, "cannot generate -1"),
        ({"objects": None}, "how many"),
        ({"objects": None, "like": {"tables": Size(1)}}, "no collection 'tables'"),
        ({"objects": None, "like": {"items": {"bytes": 1}}}, "need rows and bytes"),
        ({"objects": None, "like": {"items": {"rows": -1, "bytes": 1}}}, "need rows and bytes"),
        ({"objects": None, "like": {"items": 3}}, "need rows and bytes"),
        ({"objects": None, "like": {"source_of_truth": "stash", "stash": {}}}, "map collections"),
        ({"objects": 5, "like": {"items": Size(0)}}, "cannot generate 5"),
    ],
)
def test_what_cannot_be_generated_is_said(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        next(rows(seed=1, **arguments))


def test_current_rows_are_what_the_codec_writes() -> None:
    for row in rows(500, seed=6):
        key, value = codec.decode_key(row.collection, row.key), codec.decode_value(row.collection, row.value)
        again = Row(
            row.collection, codec.encode_key(row.collection, key), codec.encode_value(row.collection, value)
        )
        assert again == row
