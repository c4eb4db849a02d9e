"""The codec: what goes in comes out, equal objects have equal bytes, and damage is noticed."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermit.errors import CorruptData, InvalidInput
from hermit.formats import codec
from hermit.formats.gen import objects_pb2 as pb
from hermit.formats.generate import rows
from hermit.formats.upgrade import upgrade
from hermit.formats.versions import STASH_VERSION
from hermit.objects import KINDS
from tests.formats import frozen
from tests.formats.strategies import messages

NAMES = sorted(set(KINDS) - {"config"})
ITEM = pb.ItemValue(
    schema_id=pb.SchemaId(user=1),
    name="orders",
    create_sql="CREATE TABLE orders (a int)",
    owner_id=pb.RoleId(user=1),
    item_type=pb.ITEM_TYPE_TABLE,
    privileges=[
        pb.AclItem(grantee=pb.RoleId(public=pb.Unit()), grantor=pb.RoleId(user=1), mode=pb.AclMode(bits=3))
    ],
)


@pytest.mark.row("D-2")
def test_there_are_the_seventeen_kinds_of_the_catalog_and_the_update_log() -> None:
    assert len(KINDS) == 18
    assert [kind.name for kind in KINDS.values() if kind.append_only] == ["audit_log", "storage_usage"]
    assert [kind.name for kind in KINDS.values() if not kind.cached] == [
        "audit_log",
        "storage_usage",
        "update_log",
    ]
    assert len({kind.tag for kind in KINDS.values()}) == 18


def test_naming_the_kinds_does_not_import_protobuf() -> None:
    code = "import sys, hermit.objects; sys.exit('google.protobuf.descriptor' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_any_object_survives_bytes_and_json(name: str, data: st.DataObject) -> None:
    kind = KINDS[name]
    types = {"key": kind.key, "value": kind.value}
    for part, decode, encode in (
        ("key", codec.decode_key, codec.encode_key),
        ("value", codec.decode_value, codec.encode_value),
    ):
        # Built from the current types: the strategies follow any descriptor.
        message = types[part].FromString(data.draw(messages(_current(name, part))).SerializeToString())
        stored = encode(name, message)
        assert decode(name, stored) == message
        assert decode(kind, stored) == message
        assert encode(name, decode(name, stored)) == stored
        assert codec.from_json(name, part, codec.to_json(name, message)) == message


def _current(name: str, part: str) -> Any:
    return frozen.types(STASH_VERSION)[name][part == "value"]


@pytest.mark.row("F-8")
@pytest.mark.row("D-38")
def test_stored_bytes_are_plain_protobuf_of_the_published_schema() -> None:
    stored = codec.encode_value("items", ITEM)
    found = pb.ItemValue.FromString(stored)
    assert found.checksum
    found.ClearField("checksum")
    assert found == ITEM


def test_every_flipped_bit_is_noticed() -> None:
    for name, part in (("items", "value"), ("items", "key"), ("roles", "value"), ("update_log", "value")):
        stored = _some(name, part)
        decode = codec.decoder(name, part)
        decode(stored)
        for bit in range(len(stored) * 8):
            damaged = bytearray(stored)
            damaged[bit // 8] ^= 1 << bit % 8
            with pytest.raises(CorruptData) as failure:
                decode(bytes(damaged))
            assert failure.value.facts["collection"] == name


def test_every_truncation_is_noticed() -> None:
    stored = _some("items", "value")
    for length in range(len(stored)):
        with pytest.raises(CorruptData):
            codec.decode_value("items", stored[:length])


def _some(name: str, part: str) -> bytes:
    row = next(row for row in rows(1000, seed=9) if row.collection == name)
    return row.key if part == "key" else row.value


@pytest.mark.parametrize("name", NAMES)
@given(data=st.binary(max_size=200))
def test_garbage_is_refused(name: str, data: bytes) -> None:
    with pytest.raises(CorruptData):
        codec.decode_key(name, data)
    with pytest.raises(CorruptData):
        codec.decode_value(name, data)


def test_bytes_with_a_fitting_checksum_that_are_another_message_are_refused() -> None:
    # The text of field 1 would have to be a SchemaId, and 0x07 cannot begin any message.
    with pytest.raises(CorruptData, match="it is no ItemValue"):
        codec.decode_value("items", frozen.seal(pb.SettingKey(name="\x07")))


@pytest.mark.parametrize(
    ("message", "path"),
    [
        (pb.ItemValue(), "schema_id"),
        (pb.ItemValue(schema_id=pb.SchemaId(), owner_id=pb.RoleId(user=1), item_type=1), "schema_id.id"),
        (pb.ItemValue(schema_id=pb.SchemaId(user=0), owner_id=pb.RoleId(user=1)), "item_type"),
        (pb.ItemValue(schema_id=pb.SchemaId(user=0), owner_id=pb.RoleId(user=1), item_type=99), "item_type"),
    ],
)
def test_an_incomplete_object_is_never_written(message: pb.ItemValue, path: str) -> None:
    with pytest.raises(InvalidInput, match=f"no value of items: {path} is not set"):
        codec.encode_value("items", message)


def test_an_incomplete_element_of_a_list_is_named() -> None:
    broken = pb.ItemValue()
    broken.CopyFrom(ITEM)
    broken.privileges.add().mode.bits = 1
    with pytest.raises(InvalidInput, match=r"privileges\[1\]\.grantee is not set"):
        codec.encode_value("items", broken)


def test_a_checksum_from_outside_is_refused() -> None:
    with pytest.raises(InvalidInput, match="codec alone"):
        codec.encode_value("items", pb.ItemValue.FromString(codec.encode_value("items", ITEM)))


def test_a_message_of_another_kind_is_refused() -> None:
    with pytest.raises(InvalidInput, match="ItemKey is needed, not RoleKey"):
        codec.encode_key("items", pb.RoleKey(id=pb.RoleId(user=1)))
    with pytest.raises(InvalidInput, match="neither key nor value"):
        codec.to_json("items", pb.RoleKey())


def test_an_unknown_collection_is_named_with_those_that_exist() -> None:
    with pytest.raises(InvalidInput) as failure:
        codec.decode_key("tables", b"")
    assert "items" in str(failure.value)


@pytest.mark.parametrize(
    ("obj", "reason"),
    [
        ([], "list"),
        (None, "NoneType"),
        ({"name": "x", "nickname": "y"}, "nickname"),
        ({"name": 7}, "name"),
        ({"oid": "many"}, "oid"),
        ({"oid": -1}, "oid"),
        ({"schema_id": {"user": "1", "system": "1"}}, "oneof"),
        ({"item_type": "ITEM_TYPE_SONG"}, "item_type"),
        ({"name": "x"}, "schema_id is not set"),
        ({"checksum": 5}, "schema_id is not set"),
    ],
)
def test_json_that_is_no_object_is_refused_with_the_reason(obj: Any, reason: str) -> None:
    with pytest.raises(InvalidInput, match="no value of items") as failure:
        codec.from_json("items", "value", obj)
    assert reason in str(failure.value)


def test_config_goes_through_the_codec_as_well() -> None:
    key, value = pb.ConfigKey(key="tombstone"), pb.ConfigValue(value=1)
    assert codec.encode_key("config", key) == b"\x0a\x09tombstone"
    assert codec.encode_value("config", value) == b"\x08\x01"
    assert codec.decode_key("config", b"\x0a\x09tombstone") == key
    assert codec.decode_value("config", b"\x08\x01") == value
    with pytest.raises(InvalidInput):
        codec.encode_key("config", value)


@pytest.mark.row("F-46")
def test_there_is_no_switch_between_formats() -> None:
    """Objects are written in the current version only, and upgraded to nothing but the current version."""
    for function in (codec.encode_key, codec.encode_value, codec.from_json):
        assert not {"version", "format"} & set(inspect.signature(function).parameters)
    assert not {"target", "to", "until"} & set(inspect.signature(upgrade).parameters)
