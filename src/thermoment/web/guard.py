"""HTTP around the answers: the body within its limits, the Host header, the headers that every response has."""

import asyncio
import ipaddress
import json
import socket
from collections.abc import Callable
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from thermoment.web.question import RefusedError

MOST_BYTES = 2**20
"""Bytes of a request's body."""
_DISCARDED = 2**24
"""Bytes of a larger body that are still read before it is refused, so that the client gets to see the refusal."""
PATIENCE = 10.0
"""Seconds within which a request must have arrived whole."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}


def as_json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A response of JSON without NaN."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return Response(text, status, headers, media_type="application/json")


def refusal(status: int, sentence: str, **headers: str) -> Response:
    """A response that says in one sentence why there is no other."""
    return as_json({"error": sentence}, status, headers)


async def body_of(request: Request) -> bytes:
    """The body of a request of JSON: at most 1 MB, within ten seconds."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RefusedError(415, "The Content-Type must be application/json.")
    parts, size = [], 0
    try:
        async with asyncio.timeout(PATIENCE):
            async for part in request.stream():
                size += len(part)
                if size <= MOST_BYTES:
                    parts.append(part)
                elif size > _DISCARDED:
                    break
    except TimeoutError:
        raise RefusedError(408, f"The body must arrive within {PATIENCE:g} seconds.") from None
    except ClientDisconnect:
        raise RefusedError(400, "The body was cut off.") from None
    if size > MOST_BYTES:
        raise RefusedError(413, f"The body must have at most {MOST_BYTES} bytes.")
    return b"".join(parts)


def accepted_hosts(host: str) -> Callable[[str], bool]:
    """Whether a server bound to `host` answers to a name: to loopback's names, and beyond loopback to its own too.

    A page of elsewhere whose name is made to point here has its own name in the Host header. An address cannot be made
    to point anywhere, so on a network every address is accepted.
    """
    names = {*LOOPBACK, host.lower()}
    if host in LOOPBACK:
        return names.__contains__
    names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
    return lambda name: name in names or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def hostname(header: str) -> str:
    """The name in a Host header, without port and brackets."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.rpartition(":")[0].lower() if header.count(":") == 1 else header.lower()


class Guard:
    """Refuses a Host header of elsewhere, and adds the headers that every response has."""

    def __init__(self, app: ASGIApp, accepts: Callable[[str], bool]) -> None:
        self.app, self.accepts = app, accepts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *((n.encode(), v.encode()) for n, v in _HEADERS.items() if n.encode() not in present),
                ]
            await send(message)

        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or not self.accepts(hostname(hosts[0])):
            response = refusal(421, "The Host header must name this server.")
            await response(scope, receive, with_headers)
            return
        await self.app(scope, receive, with_headers)
