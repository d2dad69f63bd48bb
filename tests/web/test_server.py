"""The command and its server: its start and end, clients that are slow, half open, too large or talk nonsense."""

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from support.page_server import serving
from support.small_machine import small_machine
from thermoment.cli import main
from thermoment.web import guard, server
from thermoment.web.app import Site

ROOT = Path(__file__).parents[2]
POST = b"POST /api/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    """An impatient server: what takes ten seconds with others takes a fifth of one here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server.Patient, "patience", 0.2)
        patch.setattr(guard, "PATIENCE", 0.2)
        with serving(Site(small_machine())) as found:
            host, _, port = found.removeprefix("http://").partition(":")
            yield host, int(port)


def test_a_machine_that_reads_no_raw_moments_is_refused() -> None:
    with pytest.raises(ValueError, match="The page shows raw moments, but this machine reads m1, mu2"):
        server.serve(replace(small_machine(), reads=("m1", "mu2")), port=0)


def answered(address: tuple[str, int], *sent: bytes) -> bytes:
    """Everything that the server says until it closes the connection."""
    with socket.create_connection(address, timeout=60) as connection:
        for part in sent:
            connection.sendall(part)
        said = b""
        while part := connection.recv(65536):
            said += part
        return said


def healthy(address: tuple[str, int]) -> bool:
    with urllib.request.urlopen(f"http://{address[0]}:{address[1]}/api/health", timeout=60) as found:
        return bool(found.status == 200)


def test_a_client_that_says_nothing_is_left(address: tuple[str, int]) -> None:
    assert answered(address) == b""
    assert healthy(address)


def test_a_client_that_never_ends_its_head_is_left(address: tuple[str, int]) -> None:
    assert answered(address, b"GET / HTTP/1.1\r\nHost: loc") == b""
    assert healthy(address)


def test_a_body_that_does_not_come_is_given_up(address: tuple[str, int]) -> None:
    said = answered(address, POST + b'Content-Length: 100\r\n\r\n{"pixels"')
    assert said.startswith(b"HTTP/1.1 408 ")
    assert b'{"error":"The body must arrive within' in said
    assert healthy(address)


def test_a_client_that_takes_no_answer_is_left(address: tuple[str, int]) -> None:
    """It asks for more than the buffers of the sockets hold, and reads only when the server has given up."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(20)
        connection.connect(address)
        with contextlib.suppress(ConnectionError):  # by RST: it was left
            while True:
                connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert healthy(address)


def test_clients_that_leave_in_the_middle_do_no_harm(address: tuple[str, int]) -> None:
    for sent in (
        b"",
        b"GET",
        POST,
        POST + b"Content-Length: 100\r\n\r\n{",
        b"GET /api/machine HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ):
        for reset in (False, True):
            connection = socket.create_connection(address, timeout=60)
            connection.sendall(sent)
            if reset:  # by RST instead of FIN
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
            connection.close()
    assert healthy(address)


@pytest.mark.parametrize("size", [2**20 + 1, 3 * 2**20])
def test_a_body_that_is_too_large_gets_its_refusal(address: tuple[str, int], size: int) -> None:
    connection = http.client.HTTPConnection(*address, timeout=60)
    connection.request("POST", "/api/predict", b" " * size, {"content-type": "application/json"})
    found = connection.getresponse()
    assert (found.status, found.read()) == (413, b'{"error":"The body must have at most 1048576 bytes."}')
    connection.close()
    assert healthy(address)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"400"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 70_000, b"400"),
        (b"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", b"404"),
        (b"GET /static/..%2f..%2fapp.py HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", b"404"),
        (b"GET / HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n", b"421"),
        (b"GET / HTTP/1.0\r\n\r\n", b"421"),
        (POST + b"Content-Length: -5\r\n\r\n", b"400"),
        (POST + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\n{} \r\n0\r\n\r\n", b"422"),
        (
            b"GET /api/predict HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: close, upgrade\r\n\r\n",
            b"405",
        ),
    ],
)
def test_nonsense_gets_its_status_and_no_traceback(address: tuple[str, int], sent: bytes, status: bytes) -> None:
    said = answered(address, sent)
    assert said.split(b" ")[1] == status, said
    assert b"Traceback" not in said
    assert healthy(address)


def started(*options: str) -> tuple[subprocess.Popen[str], str]:
    """The command in a process of its own, and the address that it says."""
    command = [sys.executable, "-m", "thermoment", "serve", "--port", "0", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src") + os.pathsep + os.environ.get("PYTHONPATH", "")}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    line = process.stderr.readline()
    while line.startswith("Warning"):
        line = process.stderr.readline()
    return process, line.partition("http://")[2].partition("/")[0]


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_starts_answers_and_ends_cleanly(number: signal.Signals) -> None:
    process, address = started()
    try:
        with urllib.request.urlopen(f"http://{address}/", timeout=60) as found:
            assert b"<title>thermoment" in found.read()
        host, _, port = address.partition(":")
        waiting = socket.create_connection((host, int(port)), timeout=60)  # a client that hangs is not waited for
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
        waiting.close()
    finally:
        process.kill()
    assert (process.returncode, said) == (0, "Stopped.\n")


def test_a_port_that_is_taken_is_told_in_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = CliRunner().invoke(main, ["serve", "--port", str(port)])
    assert found.exit_code == 1
    assert found.output == f"thermoment: Port {port} is taken: choose another with --port, or 0 for any.\n"


def test_an_address_that_is_not_here_is_told_in_one_sentence() -> None:
    found = CliRunner().invoke(main, ["serve", "--host", "192.0.2.1"])
    assert found.exit_code == 1
    assert found.output.startswith("thermoment: 192.0.2.1 port 8128 cannot be listened at: ")
    assert found.output.count("\n") == 1


@pytest.mark.parametrize("name", ["starlette", "uvicorn"])
def test_without_the_extra_it_says_how_to_get_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [one for one in sys.modules if one.split(".")[0] == name or one.startswith("thermoment.web")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)
    found = CliRunner().invoke(main, ["serve"])
    assert found.exit_code == 1
    assert found.output == (f"thermoment: The page needs {name}: pip install '.[web]' in a checkout of thermoment.\n")


def test_beyond_loopback_there_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_leave_on_signals", lambda: None)
    monkeypatch.setattr(server, "listen", lambda *_: socket.create_server(("127.0.0.1", 0)))
    monkeypatch.setattr(server._Server, "run", lambda *_: None)
    for host, warned in (("127.0.0.1", False), ("::1", False), ("0.0.0.0", True)):
        said: list[str] = []
        server.serve(small_machine(), host=host, note=said.append)
        assert [line.startswith("Warning: whoever can reach 0.0.0.0") for line in said] == [True] * warned


def test_a_name_that_is_no_machine_is_one_sentence() -> None:
    found = CliRunner().invoke(main, ["serve", "minst"])
    assert found.exit_code == 2
    assert "RUN must be a folder or one of mnist, mnist-frugal, mnist-one, but was 'minst'." in found.output


def test_connections_do_not_wait_for_acknowledgements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nagle's algorithm is off on a connection that asyncio serves: else every answer would be 40 ms late."""
    seen: list[int] = []
    made = server.Patient.connection_made

    def watched(self: Any, transport: Any) -> None:
        made(self, transport)
        found = transport.get_extra_info("socket")
        seen.append(found.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr(server.Patient, "connection_made", watched)
    with (
        serving(Site(small_machine())) as address,
        urllib.request.urlopen(f"{address}/api/health", timeout=30) as response,
    ):
        assert response.status == 200
    assert seen
    assert all(seen)
