"""Config: readable before anything is known about the catalog, and never another encoding."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermit.errors import CorruptData, InvalidInput
from hermit.formats import config
from hermit.formats.generate import rows
from hermit.formats.versions import MIN_STASH_VERSION, STASH_VERSION
from tests.formats import frozen
from tests.formats.store import MemoryStore

KEYS = st.text(st.characters(codec="utf-8"), min_size=1)
VALUES = st.integers(0, 2**64 - 1)


@pytest.mark.row("M-6")
@pytest.mark.parametrize("value", [0, 1, 127, 128, 2**32, 2**63, 2**64 - 1])
def test_every_unsigned_number_comes_back(value: int) -> None:
    assert config.decode_value(config.encode_value(value)) == value


@given(KEYS, VALUES)
def test_the_bytes_are_those_of_protobuf_in_every_version(key: str, value: int) -> None:
    for version in frozen.PROTO_VERSIONS:
        messages = frozen.module(version)
        assert config.encode_key(key) == messages.ConfigKey(key=key).SerializeToString()
        assert config.encode_value(value) == messages.ConfigValue(value=value).SerializeToString()
    assert config.decode_key(config.encode_key(key)) == key
    assert config.decode_value(config.encode_value(value)) == value


def test_the_bytes_are_fixed() -> None:
    assert config.encode_key("user_version") == b"\x0a\x0cuser_version"
    assert config.encode_value(21) == b"\x08\x15"
    assert config.encode_value(0) == b""


@pytest.mark.row("M-7")
def test_booleans_are_zero_and_one() -> None:
    assert config.encode_value(True) == b"\x08\x01"
    assert config.encode_value(False) == b""


@given(st.binary(max_size=24))
def test_whatever_is_accepted_is_canonical(data: bytes) -> None:
    for decode, encode in (
        (config.decode_key, config.encode_key),
        (config.decode_value, config.encode_value),
    ):
        try:
            found = decode(data)
        except CorruptData:
            continue
        assert encode(found) == data


@pytest.mark.parametrize(
    "data",
    [
        b"\x08",
        b"\x08\x80",
        b"\x08\x00",
        b"\x08\x81\x00",
        b"\x08\x01\x08\x02",
        b"\x10\x01",
        b"\x08" + b"\xff" * 9 + b"\x02",
        b"\x08" + b"\xff" * 11,
        b'{"value": 14}',
    ],
)
def test_a_damaged_value_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptData, match="config value"):
        config.decode_value(data)


@pytest.mark.parametrize(
    "data", [b"", b"\x0a", b"\x0a\x00", b"\x0a\x02a", b"\x0a\x01ab", b"\x0a\x01\xff", b"x"]
)
def test_a_damaged_key_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptData, match="config key"):
        config.decode_key(data)


@pytest.mark.parametrize("value", [-1, 2**64])
def test_numbers_that_do_not_fit_are_refused(value: int) -> None:
    with pytest.raises(InvalidInput):
        config.encode_value(value)


@pytest.mark.parametrize("key", ["", "\ud800"])
def test_keys_that_are_no_text_are_refused(key: str) -> None:
    with pytest.raises(InvalidInput):
        config.encode_key(key)


@pytest.mark.row("M-4")
@pytest.mark.parametrize("version", range(MIN_STASH_VERSION, STASH_VERSION))
def test_upgrades_leave_config_alone_but_for_the_version(version: int) -> None:
    store = MemoryStore(rows(50, seed=1, version=version))
    own = frozen.Row("config", config.encode_key("deploy_generation"), config.encode_value(7))
    store.contents[own] += 1
    store.upgrade()
    assert store.config() == {"deploy_generation": 7, "user_version": STASH_VERSION}
    assert own in store.rows()


def test_reading_config_loads_no_generated_code() -> None:
    code = """
import sys, hermit.formats.config
sys.exit(any("protobuf" in name or ".gen" in name for name in sys.modules))
"""
    subprocess.run([sys.executable, "-c", code], check=True)
