"""The port for Wyoming: who may reach it."""

from __future__ import annotations

import contextlib
import socket

import pytest

from edgeserve import ports
from edgeserve.config import Config, ServerSettings
from edgeserve.errors import ConfigError
from edgeserve.listening import listen
from edgeserve.wyoming import bind


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port: int = one.getsockname()[1]
        return port


def settings(**server: object) -> Config:
    return Config(ServerSettings(wyoming=free_port(), **server))  # type: ignore[arg-type]


def test_this_machine_alone_by_default() -> None:
    config = settings()
    with contextlib.closing(bind(config, insecure=False)) as bound:
        assert bound.getsockname() == ("127.0.0.1", config.server.wyoming)


@pytest.mark.parametrize("key", ["", "sesame"])
def test_other_machines_are_let_in_only_where_that_is_said(key: str, caplog: pytest.LogCaptureFixture) -> None:
    """Also beside a key: the protocol has none."""
    config = settings(host="0.0.0.0", api_key=key)
    with pytest.raises(ConfigError, match=r"for Wyoming, which has no keys.*--insecure"):
        bind(config, insecure=False)
    with contextlib.closing(bind(config, insecure=True)):
        assert "Wyoming has no keys" in caplog.text


def test_a_port_that_is_taken() -> None:
    with contextlib.closing(listen("127.0.0.1", 0)) as other:
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port}: Address already in use; choose another with --wyoming$"):
            bind(Config(ServerSettings(wyoming=port)), insecure=False)


def test_no_port_unless_the_settings_name_one() -> None:
    with ports.further(Config(), None, insecure=False) as found:  # type: ignore[arg-type]
        assert found == []
