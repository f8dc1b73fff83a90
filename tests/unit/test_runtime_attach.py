"""A server that is up already: seen, never stopped."""

import socket
from pathlib import Path

import pytest

from breakeven.errors import ConfigError, LaunchError
from breakeven.runtime import LaunchSpec
from breakeven.runtime.attach import AttachRuntime
from breakeven.runtime.log import last_lines


def spec(tmp_path, **options):
    return LaunchSpec(
        "exp", "base", "cpu", "127.0.0.1", 1, [], tmp_path / "out" / "server.log", options=options
    )


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def url(listener):
    return f"http://127.0.0.1:{listener.getsockname()[1]}/"


def test_what_cannot_be_known_from_outside_is_unknown(tmp_path, listener):
    with AttachRuntime().launch(spec(tmp_path, url=url(listener))) as server:
        identity = server.identity
        assert server.alive() and server.base_url == url(listener).rstrip("/")
    assert (identity.program, identity.digest, identity.argv, identity.env, identity.mounts) == (None,) * 5
    assert server.alive(), "it was not ours to stop"


def test_a_server_that_goes_away_is_seen(tmp_path, listener):
    with AttachRuntime().launch(spec(tmp_path, url=url(listener))) as server:
        listener.close()
        assert not server.alive()
        assert "Connection refused" in server.exit_reason()


def test_the_servers_own_log_is_followed_through_a_rotation(tmp_path, listener):
    source = tmp_path / "own.log"
    source.write_text("one\n")
    with AttachRuntime().launch(spec(tmp_path, url=url(listener), log_file=str(source))) as server:
        assert server.log.read_text() == "one\n"
        with source.open("a") as file:
            file.write("two\n")
        server.drain()
        server.drain()
        assert server.log.read_text() == "one\ntwo\n"
        source.write_text("3\n")
    assert server.log.read_text() == "one\ntwo\n3\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "127.0.0.1:80"}, "not of the form"),
        ({"image": "x"}, "found image"),
        ({"log_file": "/no/such.log"}, "is not a file"),
    ],
)
def test_options_that_cannot_be_used_are_named(tmp_path, options, message):
    with pytest.raises(ConfigError, match=message), AttachRuntime().launch(spec(tmp_path, **options)):
        pass


def test_nothing_at_the_url_is_an_error(tmp_path):
    with (
        pytest.raises(LaunchError, match=r"no server answers at http://127\.0\.0\.1:1 "),
        AttachRuntime().launch(spec(tmp_path)),
    ):
        pass


def test_last_lines_survive_bytes_and_progress_bars(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"first\n" * 20000 + b"load 1%\rload 100%\r\n\n\xff broken\nlast")
    assert last_lines(log, 3) == ("load 100%", "\ufffd broken", "last")
    assert last_lines(Path(tmp_path / "none")) == ()
