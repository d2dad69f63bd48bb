"""The application: the page's files, and the JSON interface that the page and other programs use."""

import logging
import traceback
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

import thermoment
from thermoment.machines.classifier import Classifier
from thermoment.web import answer, examples, machine, openapi, paths
from thermoment.web.guard import REPORT_POLICY, Guard, accepted_hosts, as_json, body_of, refusal
from thermoment.web.question import Question, RefusedError, ask, node_of, parse
from thermoment.web.workers import Once, Tables, Workers

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
}
_log = logging.getLogger("thermoment.web")


class Site:
    """Everything the server has: the machine, what it can offer, and what it keeps between questions."""

    def __init__(self, classifier: Classifier, run: Path | None = None, data_dir: str | None = None) -> None:
        for reservoir in classifier.reservoirs.values():
            reservoir.dynamics.check_single("the page")
        self.machine, self.run, self.data_dir = classifier, run, data_dir
        self.workers, self.tables, self.recorder = Workers(), Tables(classifier), paths.Recorder(classifier)
        self.files = _files()
        self._offer = Once(machine.Offer)
        self._examples = Once(lambda: examples.examples(classifier, data_dir))

    @property
    def offer(self) -> machine.Offer:
        return self._offer()

    @property
    def examples(self) -> dict[str, Any]:
        return self._examples()

    @property
    def openapi(self) -> dict[str, Any]:
        return openapi.describe(self.machine, self.offer.names, self.offer.default)

    def question(self, given: dict[str, Any]) -> Question:
        return ask(given, self.machine, self.offer.names, self.offer.default)

    def predict(self, given: dict[str, Any]) -> dict[str, Any]:
        """The answer; sampled where `meanfield` has no tables yet."""
        asked = question = self.question(given)
        note = ""
        if question.engine == "meanfield" and not self.tables.ready(question):
            note = self.tables.sentence(question)
            question = replace(question, engine=self.offer.default)
        found = answer.answer(self.machine, question)
        return {**found, "asked": asked.engine, "note": note, "tables": self.tables.state(asked)}

    def paths(self, given: dict[str, Any]) -> dict[str, Any]:
        return paths.paths(self.recorder, self.question(given))

    def node(self, given: dict[str, Any]) -> dict[str, Any]:
        name, number = node_of(given, self.machine)
        return paths.node(self.recorder, self.question(given), name, number)

    def warm_up(self) -> None:
        """What makes the first questions slow, done before they come: imports, compilation, tables, examples."""
        blank = np.full(self.machine.n_inputs, 0.1)
        question = self.question({"pixels": blank.tolist()})
        self.tables.build(question)
        self.recorder.of(question)
        self._examples()


def application(site: Site, host: str = "127.0.0.1") -> ASGIApp:
    """The ASGI application of a site, for a server bound to `host`."""

    def posted(work: Any) -> Any:
        async def endpoint(request: Request) -> Response:
            given = parse(await body_of(request))
            return as_json(await site.workers.run(lambda: work(given), request.is_disconnected))

        return endpoint

    def got(work: Any) -> Any:
        async def endpoint(_: Request) -> Response:
            return as_json(await site.workers.run(work))

        return endpoint

    async def health(_: Request) -> Response:
        return as_json({"status": "ok", "version": thermoment.__version__})

    async def report(_: Request) -> Response:
        path = site.run / "report.html" if site.run else None
        if path is None or not path.is_file():
            return refusal(404, "This machine has no report.")
        headers = {"content-security-policy": REPORT_POLICY}
        return Response(await site.workers.run(path.read_bytes), 200, headers, media_type=_TYPES["html"])

    async def file(request: Request) -> Response:
        name = request.path_params.get("name") or "index.html"
        if name not in site.files:
            return refusal(404, "There is nothing here.")
        return Response(site.files[name], media_type=_TYPES[name.rpartition(".")[2]])

    routes = [
        Route("/api/predict", _guarded(posted(site.predict)), methods=["POST"]),
        Route("/api/paths", _guarded(posted(site.paths)), methods=["POST"]),
        Route("/api/node", _guarded(posted(site.node)), methods=["POST"]),
        Route("/api/machine", _guarded(got(lambda: machine.describe(site.machine, site.offer, site.run)))),
        Route("/api/results", _guarded(got(lambda: machine.results(site.machine, site.run)))),
        Route("/api/examples", _guarded(got(lambda: site.examples))),
        Route("/api/openapi.json", _guarded(got(lambda: site.openapi))),
        Route("/api/health", health),
        Route("/report", _guarded(report)),
        Route("/", file),
        Route("/static/{name}", file),
    ]
    handlers: Any = {HTTPException: _http_error}
    inner = Starlette(routes=routes, exception_handlers=handlers)
    inner.router.redirect_slashes = False
    return Guard(inner, accepted_hosts(host))


def _guarded(endpoint: Any) -> Any:
    """An endpoint whose refusals are sentences, and whose mistakes are told to the terminal, not to the client."""

    async def guarded(request: Request) -> Response:
        try:
            found: Response = await endpoint(request)
            return found
        except RefusedError as error:
            # Of a body that did not come, or not whole, the rest would be taken for the next request.
            headers = {408: {"connection": "close"}, 413: {"connection": "close"}, 503: {"retry-after": "1"}}.get(
                error.status, {}
            )
            return refusal(error.status, str(error), **headers)
        except Exception:
            _log.error("%s failed:\n%s", request.url.path, traceback.format_exc())
            return refusal(500, "A mistake of thermoment itself; its terminal says where.")

    return guarded


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentences = {404: "There is nothing here.", 405: "This path does not take this method."}
    return as_json(
        {"error": sentences.get(error.status_code, error.detail)}, error.status_code, dict(error.headers or {})
    )


def _files() -> dict[str, bytes]:
    """The page's files by name, all in memory: no path of a request ever reaches the disk."""
    folder = resources.files(__package__) / "static"
    return {one.name: one.read_bytes() for one in folder.iterdir() if one.name.rpartition(".")[2] in _TYPES}
