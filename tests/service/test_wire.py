"""The bytes of the log: layout, round trips, and a named error for everything that cannot be read."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermit.service import errors
from hermit.service.clock import hybrid
from hermit.service.descriptors import SchemaDescriptor, TableDescriptor
from hermit.service.entries import DropEntry, NewSchemaEntry, RenameEntry, UpdateEntry
from hermit.service.marshallable import MarshalledType
from hermit.service.update import NOBODY, Origin, VersionedUpdate
from hermit.service.wire.io import Input, Output
from hermit.service.wire.marshaller import UpdateLogMarshaller
from hermit.service.wire.registry import default_registry
from hermit.service.wire.samples import SAMPLES, SCHEMA, TABLE, ZONE

MARSHALLER = UpdateLogMarshaller()
UPDATE = VersionedUpdate(5, hybrid(9), (RenameEntry(3, "new"), DropEntry(300)), Origin(7, 8))


@pytest.mark.row("I-36", "I-34")
def test_an_entry_is_protocol_type_version_and_payload_and_so_is_each_object_within_it() -> None:
    data = MARSHALLER.marshal(UPDATE)
    assert data[:-4].hex(" ") == (
        "00 02 "  # protocol version 2
        "00 01 02 "  # a versioned update, serializer version 2
        "05 00 00 00 00 00 09 00 00 "  # version 5, at 9 ms
        "00 00 00 00 00 00 00 07 08 "  # node 7, its 8th command
        "02 "  # two entries
        "00 28 01 03 03 6e 65 77 "  # rename, serializer version 1: object 3, "new"
        "00 29 01 ac 02"  # drop, serializer version 1: object 300
    )


@pytest.mark.row("I-34")
def test_a_serializer_version_takes_one_to_three_bytes() -> None:
    for version, size in ((1, 1), (127, 1), (128, 2), (2**14 - 1, 2), (2**14, 3), (2**21 - 1, 3)):
        out = Output(default_registry())
        out.varint(version)
        assert len(out.buffer) == size
        assert Input(bytes(out.buffer), default_registry()).varint() == version


@pytest.mark.row("I-31", "I-32")
@pytest.mark.parametrize("type_", MarshalledType, ids=lambda each: each.name)
def test_every_type_has_a_serializer_and_comes_back_as_it_was(type_: MarshalledType) -> None:
    value = SAMPLES[type_]
    data = MARSHALLER.marshal(value)
    assert value.marshalled_type is type_
    assert MARSHALLER.unmarshal(data, type(value)) == value
    assert data[2:4] == type_.to_bytes(2, "big")


@pytest.mark.row("I-30")
def test_a_new_schema_holds_its_tables_with_columns_and_schema_versions_and_its_indexes() -> None:
    found = MARSHALLER.unmarshal(MARSHALLER.marshal(NewSchemaEntry(SCHEMA)), NewSchemaEntry).descriptor
    assert isinstance(found, SchemaDescriptor)
    assert found == SCHEMA
    table = found.tables.named("orders")
    assert table == TABLE
    assert table.schema_versions.past == TABLE.schema_versions.past
    assert [index.name for index in found.indexes] == ["orders_by_count"]


@pytest.mark.row("I-40")
def test_bytes_of_the_first_serializers_are_read_and_the_newest_are_written() -> None:
    first = UpdateLogMarshaller(default_registry().pinned({}))
    old = first.marshal(TABLE)
    assert old[4] == 1
    assert MARSHALLER.marshal(TABLE)[4] == 2
    found = MARSHALLER.unmarshal(old, TableDescriptor)
    assert found.colocation == found.primary_key == TABLE.primary_key
    assert [column.name for column in found.columns] == [column.name for column in TABLE.columns]
    without_origin = MARSHALLER.unmarshal(first.marshal(UPDATE), VersionedUpdate)
    assert (without_origin.origin, without_origin.entries) == (NOBODY, UPDATE.entries)


def test_protocol_version_1_is_read() -> None:
    data = MARSHALLER.marshal(UPDATE, protocol=1)
    assert data.hex(" ") == (
        "00 01 00 01 05 00 00 00 00 00 09 00 00 02 "  # no serializer version anywhere
        "00 28 03 03 6e 65 77 00 29 ac 02"
    )
    found = MARSHALLER.unmarshal(data, VersionedUpdate)
    assert (found.version, found.time, found.entries) == (5, hybrid(9), UPDATE.entries)
    assert MARSHALLER.unmarshal(MARSHALLER.marshal(TABLE, protocol=1), TableDescriptor).name == "orders"


@pytest.mark.row("I-41")
@pytest.mark.parametrize("protocol", [0, 3, 0xFFFF])
def test_another_protocol_version_is_refused_by_name(protocol: int) -> None:
    data = protocol.to_bytes(2, "big") + MARSHALLER.marshal(UPDATE)[2:]
    with pytest.raises(errors.UnsupportedProtocol) as refused:
        MARSHALLER.unmarshal(data, VersionedUpdate)
    assert refused.value.found == protocol


@pytest.mark.row("I-41")
def test_an_unknown_type_is_refused_by_name() -> None:
    with pytest.raises(errors.UnknownObjectType) as refused:
        MARSHALLER.unmarshal(bytes.fromhex("0002 7fff 01"), object)
    assert refused.value.type_id == 0x7FFF


@pytest.mark.row("I-41")
def test_a_serializer_from_the_future_is_refused_by_name() -> None:
    with pytest.raises(errors.SerializerFromTheFuture) as refused:
        MARSHALLER.unmarshal(bytes.fromhex("0002 0028 02 01"), UpdateEntry)  # type: ignore[type-abstract]
    assert (refused.value.found, refused.value.newest) == (2, 1)
    with pytest.raises(errors.SerializerFromTheFuture):
        MARSHALLER.unmarshal(bytes.fromhex("0002 0028 00 01"), object)


@pytest.mark.parametrize("type_", MarshalledType, ids=lambda each: each.name)
def test_truncated_bytes_are_refused_by_name(type_: MarshalledType) -> None:
    data = MARSHALLER.marshal(SAMPLES[type_])
    for length in range(len(data)):
        with pytest.raises(errors.WireError):
            MARSHALLER.unmarshal(data[:length], object)
    with pytest.raises(errors.WireError):
        MARSHALLER.unmarshal(data + b"\0", object)


@pytest.mark.parametrize(
    "type_", [MarshalledType.VERSIONED_UPDATE, MarshalledType.SNAPSHOT, MarshalledType.SNAPSHOT_PART]
)
def test_any_flipped_bit_of_what_the_log_holds_is_refused_by_name(type_: MarshalledType) -> None:
    data = MARSHALLER.marshal(SAMPLES[type_])
    for position in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            with pytest.raises(errors.WireError):
                MARSHALLER.unmarshal(bytes(flipped), type(SAMPLES[type_]))


@given(st.data())
def test_damaged_bytes_without_a_checksum_give_an_object_or_a_named_error(data: st.DataObject) -> None:
    value: Any = SAMPLES[data.draw(st.sampled_from(sorted(SAMPLES)))]
    first = UpdateLogMarshaller(default_registry().pinned({}))
    damaged = bytearray(first.marshal(value))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with suppress(errors.WireError):
        MARSHALLER.unmarshal(bytes(damaged), object)


@given(st.binary(max_size=40))
def test_arbitrary_bytes_give_an_object_or_a_named_error(data: bytes) -> None:
    with suppress(errors.WireError):
        MARSHALLER.unmarshal(data, object)


def test_an_object_of_another_type_than_expected_is_refused() -> None:
    with pytest.raises(errors.MalformedBytes, match="ZoneDescriptor"):
        MARSHALLER.unmarshal(MARSHALLER.marshal(ZONE), VersionedUpdate)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**64 - 1), st.text(), st.binary(), st.floats())
def test_every_field_comes_back_as_it_was(
    signed: int, unsigned: int, text: str, blob: bytes, double: float
) -> None:
    out = Output(default_registry())
    out.signed(signed)
    out.varint(unsigned)
    out.long(unsigned)
    out.optional(None)
    out.optional(unsigned % 2**63)
    out.text(text)
    out.blob(blob)
    out.double(double)
    inp = Input(bytes(out.buffer), default_registry())
    assert (inp.signed(), inp.varint(), inp.long()) == (signed, unsigned, unsigned)
    assert (inp.optional(), inp.optional()) == (None, unsigned % 2**63)
    assert (inp.text(), inp.blob()) == (text, blob)
    found = inp.double()
    assert found == double or (found != found and double != double)
    inp.finish()


@pytest.mark.parametrize("data", ["8000", "ff00", "ffffffffffffffffff7f", "ffffffffffffffffffff01"])
def test_a_number_in_another_than_its_shortest_form_is_refused(data: str) -> None:
    with pytest.raises(errors.MalformedBytes):
        Input(bytes.fromhex(data), default_registry()).varint()


@pytest.mark.row("I-35")
def test_versions_beside_the_updates_pass_through_the_marshaller_too() -> None:
    assert MARSHALLER.marshal_number(258).hex() == "0000000000000102"
    assert MARSHALLER.unmarshal_number(MARSHALLER.marshal_number(2**64 - 1)) == 2**64 - 1
    with pytest.raises(errors.Truncated):
        MARSHALLER.unmarshal_number(b"\0" * 7)
    with pytest.raises(errors.MalformedBytes):
        MARSHALLER.unmarshal_number(b"\0" * 9)
