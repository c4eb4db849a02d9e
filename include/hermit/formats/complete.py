"""Is a message complete? The rules that proto3 cannot say, checked before anything is written.

A singular message field is set unless it is declared `optional`; every oneof is set; an enum holds one
of its named numbers, and not 0; nobody but the frame writes a checksum. The rules are read from the
descriptor once per type, so that they hold for the messages of every version without a line of code per
message. No message may contain itself.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message


class _Rules(NamedTuple):
    required: tuple[str, ...]
    oneofs: tuple[str, ...]
    enums: tuple[tuple[str, frozenset[int]], ...]
    nested: tuple[tuple[str, _Rules], ...]
    nested_lists: tuple[tuple[str, _Rules], ...]
    has_checksum: bool

    def __bool__(self) -> bool:
        return any(tuple(self))


def missing(message: Message) -> str | None:
    """The path of the first part that a complete message would have, or None."""
    return _missing(message, _rules(message.DESCRIPTOR))


def _missing(message: Message, rules: _Rules) -> str | None:
    required, oneofs, enums, nested, nested_lists, has_checksum = rules
    for name in required:
        if not message.HasField(name):
            return name
    for name in oneofs:
        if message.WhichOneof(name) is None:
            return name
    for name, numbers in enums:
        if getattr(message, name) not in numbers:
            return name
    if has_checksum and message.checksum:  # type: ignore[attr-defined]
        return "checksum"
    return _missing_inside(message, nested, nested_lists) if nested or nested_lists else None


def _missing_inside(
    message: Message, nested: tuple[tuple[str, _Rules], ...], nested_lists: tuple[tuple[str, _Rules], ...]
) -> str | None:
    for name, rules in nested:
        if message.HasField(name) and (path := _missing(getattr(message, name), rules)):
            return f"{name}.{path}"
    for name, rules in nested_lists:
        for index, element in enumerate(getattr(message, name)):
            if path := _missing(element, rules):
                return f"{name}[{index}].{path}"
    return None


@cache
def _rules(descriptor: Descriptor) -> _Rules:
    fields = descriptor.fields
    messages = [field for field in fields if field.type == FieldDescriptor.TYPE_MESSAGE]
    checked = [(field, rules) for field in messages if (rules := _rules(field.message_type))]
    return _Rules(
        required=tuple(f.name for f in messages if not f.is_repeated and f.containing_oneof is None),
        oneofs=tuple(oneof.name for oneof in descriptor.oneofs if not _is_optional(oneof.fields[0])),
        enums=tuple(
            (f.name, frozenset(f.enum_type.values_by_number) - {0})
            for f in fields
            if f.enum_type is not None and not f.is_repeated
        ),
        nested=tuple((f.name, rules) for f, rules in checked if not f.is_repeated),
        nested_lists=tuple((f.name, rules) for f, rules in checked if f.is_repeated),
        has_checksum="checksum" in descriptor.fields_by_name,
    )


def _is_optional(field: FieldDescriptor) -> bool:
    """`optional` is a oneof of one field, whose name begins with an underscore."""
    oneof = field.containing_oneof
    return oneof is not None and oneof.name == f"_{field.name}"
