"""A key and its token."""

from __future__ import annotations

from edgeserve.keys.key import NAME, PREFIX, Key, digest_of, make_token


def test_a_token_is_new_each_time_and_fits_into_a_header() -> None:
    tokens = {make_token() for _ in range(100)}
    assert len(tokens) == 100
    for one in tokens:
        assert one.startswith(PREFIX)
        assert len(one) == 46
        assert one.isascii()
        assert one.isprintable()
        assert " " not in one


def test_a_key_shows_no_hash() -> None:
    key = Key("phone", digest_of(b"sesame"))
    assert key.digest not in repr(key)
    assert key.group == key.digest[:16]


def test_names() -> None:
    assert all(NAME.fullmatch(one) for one in ("a", "phone-2", "Ada.L_1", "x" * 64))
    assert not any(NAME.fullmatch(one) for one in ("", "-a", "a b", "x" * 65, "ä", "a\n", "../a"))
