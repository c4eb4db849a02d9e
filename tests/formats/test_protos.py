"""The protos themselves: frozen copies, alone, with numbers that never change their meaning."""

from __future__ import annotations

import filecmp
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from hermit.formats import codegen
from hermit.formats.layout import Layout
from tests.formats import frozen

LAYOUT = Layout.here()


@pytest.mark.row("F-15")
def test_the_newest_snapshot_is_a_plain_copy_of_the_current_proto() -> None:
    assert LAYOUT.current.read_bytes() == LAYOUT.snapshot(frozen.PROTO_VERSIONS[-1]).read_bytes()


@pytest.mark.row("F-9")
@pytest.mark.row("F-40")
def test_every_version_since_15_has_a_snapshot_in_a_package_of_its_own() -> None:
    versions = LAYOUT.constants()
    assert list(LAYOUT.snapshots()) == list(range(15, versions["STASH_VERSION"] + 1))
    for version in frozen.PROTO_VERSIONS:
        assert frozen.module(version).DESCRIPTOR.package == f"hermit.objects_v{version}"
        assert not frozen.module(version).DESCRIPTOR.dependencies


def _fields(message: Descriptor) -> Iterator[tuple[str, FieldDescriptor]]:
    for field in message.fields:
        yield f"{message.name}.{field.number}", field


def _meaning(field: FieldDescriptor) -> tuple[object, ...]:
    of = field.message_type or field.enum_type
    return field.name, field.type, field.is_repeated, of.name if of else None


def test_a_field_number_means_the_same_in_all_versions() -> None:
    meanings: dict[str, tuple[object, ...]] = {}
    for version in frozen.PROTO_VERSIONS:
        for message in frozen.module(version).DESCRIPTOR.message_types_by_name.values():
            for place, field in _fields(message):
                assert meanings.setdefault(place, _meaning(field)) == _meaning(field), (
                    f"{place} in v{version}"
                )


def test_a_number_of_an_enum_means_the_same_in_all_versions() -> None:
    meanings: dict[tuple[str, int], str] = {}
    for version in frozen.PROTO_VERSIONS:
        for enum in frozen.module(version).DESCRIPTOR.enum_types_by_name.values():
            for value in enum.values:
                assert meanings.setdefault((enum.name, value.number), value.name) == value.name


def test_every_key_and_value_but_config_ends_in_its_checksum() -> None:
    for version in frozen.PROTO_VERSIONS:
        for key, value in frozen.types(version).values():
            for message in (key, value):
                assert message.DESCRIPTOR.fields[-1].name == "checksum"
                assert message.DESCRIPTOR.fields[-1].number == 15


@pytest.mark.slow
def test_the_generated_code_is_what_the_protos_say(tmp_path: Path) -> None:
    codegen.generate(LAYOUT, tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == sorted(path.name for path in LAYOUT.generated.iterdir() if path.is_file())
    _, different, errors = filecmp.cmpfiles(tmp_path, LAYOUT.generated, names, shallow=False)
    assert not different + errors, "run `hermit formats generate`"


@pytest.mark.row("F-10")
def test_a_proto_that_needs_another_file_does_not_compile(tmp_path: Path) -> None:
    proto = tmp_path / "objects.proto"
    proto.write_text(
        'syntax = "proto3";\npackage hermit.objects;\nimport "google/protobuf/empty.proto";\n'
        "message A { google.protobuf.Empty b = 1; }\n"
    )
    with pytest.raises(codegen.CodeGenerationFailed, match=r"empty\.proto"):
        codegen.check_compiles(proto)


def test_a_proto_without_the_package_line_does_not_compile(tmp_path: Path) -> None:
    proto = tmp_path / "objects.proto"
    proto.write_text('syntax = "proto3";\npackage mine;\n')
    with pytest.raises(codegen.CodeGenerationFailed, match="exactly once"):
        codegen.check_compiles(proto)
