"""A server of the page in a thread of its own, on a free port of loopback."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from thermoment.web.app import Site
from thermoment.web.server import configured, listen


@contextmanager
def serving(site: Site, host: str = "127.0.0.1") -> Iterator[str]:
    """The address of a server of `site`, which ends with the block."""
    listener = listen(host, 0)
    server = uvicorn.Server(configured(site, host))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.005)  # uvicorn has no event to wait for
    try:
        yield f"http://{host}:{listener.getsockname()[1]}"
    finally:
        server.should_exit = server.force_exit = True
        thread.join(10)
        listener.close()
        site.tables.rest()
