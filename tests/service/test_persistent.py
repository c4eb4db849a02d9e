"""The persistent map, compared with a plain dictionary."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermit.service.persistent import PersistentMap

_KEYS = st.integers(0, 20)
_CHANGES = st.lists(st.tuples(st.sampled_from(["set", "remove"]), _KEYS, st.integers()))


@given(st.dictionaries(_KEYS, st.integers()), _CHANGES)
def test_every_version_of_the_map_keeps_what_it_had(
    base: dict[int, int], changes: list[tuple[str, int, int]]
) -> None:
    found = PersistentMap(base)
    versions = [(found, dict(base))]
    for change, key, value in changes:
        wanted = dict(versions[-1][1])
        if change == "set":
            wanted[key] = value
            found = found.set(key, value)
        elif key in wanted:
            del wanted[key]
            found = found.remove(key)
        else:
            with pytest.raises(KeyError):
                found.remove(key)
        versions.append((found, wanted))
    for version, wanted in versions:
        assert dict(version.items()) == wanted
        assert sorted(version) == sorted(wanted)
        assert len(version) == len(wanted)
        assert all((key in version) == (key in wanted) for key in range(21))
        assert all(version.get(key, "none") == wanted.get(key, "none") for key in range(21))


def test_a_missing_key_is_an_error() -> None:
    with pytest.raises(KeyError):
        PersistentMap({1: 1}).remove(1)[1]


def test_a_key_of_the_base_is_unchanged_until_it_is_set_or_removed() -> None:
    found = PersistentMap({1: "a", 2: "b"})
    assert found.unchanged(1)
    assert not found.set(1, "a").unchanged(1)
    assert not found.remove(1).unchanged(1)
    assert not found.set(3, "c").unchanged(3)
    assert found.set(1, "a").unchanged(2)
