"""The server of `thermoment serve`: its socket, its patience with slow clients, and its end on Ctrl-C."""

import asyncio
import errno
import os
import signal
import socket
import threading
import webbrowser
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from thermoment.machines.classifier import Classifier
from thermoment.web.app import Site, application
from thermoment.web.guard import LOOPBACK, PATIENCE
from thermoment.web.workers import give_way

PORT = 8128
_IDLE = 15
"""Seconds after which a connection without a question is closed."""
_MOST_CONNECTIONS = 512


def serve(
    machine: Classifier,
    *,
    run: Path | None = None,
    host: str = LOOPBACK[0],
    port: int = PORT,
    data_dir: str | None = None,
    open_page: bool = False,
    note: Callable[[str], None] = print,
) -> None:
    """Serves the page until Ctrl-C, which ends the process at once.

    Args:
        machine: what answers.
        run: the folder of the run that it comes from, for its report.
        host: the address to listen at; beyond loopback with a warning.
        port: 0 for any that is free.
        data_dir: where the machine's data set may be, for examples.
        open_page: whether to open the page in the browser.
        note: takes the sentences for the terminal.
    """
    if machine.reads:
        raise ValueError(f"The page shows raw moments, but this machine reads {', '.join(machine.reads)}.")
    listener = listen(host, port)
    site = Site(machine, run, data_dir)
    port = listener.getsockname()[1]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}/"

    def started() -> None:
        note(f"thermoment draws on {address} (Ctrl-C ends it)")
        threading.Thread(target=_warm_up, args=(site, note), name="warm-up", daemon=True).start()
        if open_page:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    if host not in LOOPBACK:
        note(f"Warning: whoever can reach {host} can use this server. It has no password and no encryption.")
    _leave_on_signals()
    with listener:
        _Server(configured(site, host), started).run([listener])


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. A port that is taken is told in one sentence."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio switches Nagle's algorithm off only for a socket that names its protocol. With it, the body of a response
    # waits for the client to acknowledge the head: 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":  # on Windows it would let two servers have one port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(256)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise RuntimeError(f"Port {port} is taken: choose another with --port, or 0 for any.") from None
        raise RuntimeError(f"{host} port {port} cannot be listened at: {error.strerror or error}.") from None
    except OverflowError:
        listener.close()
        raise RuntimeError(f"The port must be a number from 0 to 65535, but was {port}.") from None
    return listener


def configured(site: Site, host: str) -> uvicorn.Config:
    """uvicorn's settings: quiet, without extras, and with `Patient` connections."""
    return uvicorn.Config(
        application(site, host),
        http=Patient,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_level="error",
        access_log=False,
        server_header=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_keep_alive=_IDLE,
        h11_max_incomplete_event_size=2**15,
    )


class Patient(H11Protocol):
    """A connection that is closed where the head of a request does not come within seconds, or an answer is not taken.

    For a body the application waits, and no answer is waited for here: the queue of questions is bounded.
    """

    patience = PATIENCE

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline: asyncio.TimerHandle | None = None
        self._await(self.patience)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        if self._deadline is None and (before is None or before.response_complete):  # another request begins
            self._await(self.patience)
        super().data_received(data)
        if self.cycle is not before and not self.flow.write_paused:  # its head is here
            self._forget()

    def pause_writing(self) -> None:
        super().pause_writing()  # the client takes nothing for now
        self._await(self.patience)

    def resume_writing(self) -> None:
        self._forget()
        super().resume_writing()

    def on_response_complete(self) -> None:
        if not self.flow.write_paused:
            self._forget()  # from here on uvicorn's own timer runs, until the next bytes come
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _await(self, seconds: float) -> None:
        self._forget()
        self._deadline = self.loop.call_later(seconds, self._give_up)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.abort()


class _Server(uvicorn.Server):
    """uvicorn without its own signals, that says when it listens."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell = started

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._tell()


def _warm_up(site: Site, note: Callable[[str], None]) -> None:
    give_way()
    try:
        site.warm_up()
    except Exception as error:  # the questions themselves will say more
        note(f"Not everything could be prepared: {error}")


def _leave_on_signals() -> None:
    """Ctrl-C and SIGTERM end the process at once: nothing is half-written, and no thread is waited for."""

    def leave(*_: Any) -> None:
        with suppress(OSError):
            os.write(2, b"Stopped.\n")
        os._exit(0)

    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, leave)
