"""The server of the explorer: one page, and the requests of its script. Other pages and hosts are refused."""

from __future__ import annotations

import itertools
import secrets
import socket
import threading
import time
import webbrowser
from collections.abc import Awaitable, Callable, Sequence, Sized
from contextlib import suppress
from importlib.resources import files
from ipaddress import ip_address
from typing import Annotated
from urllib.parse import urlsplit

import uvicorn
from fastapi import FastAPI, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel

from sentattn.errors import Fault, RunError, UserError, require_packages
from sentattn.explore.content import ROWS_SHOWN, Filter, Model, Rows
from sentattn.prediction.prediction import clipped
from sentattn.rendering.html import article, render

LOOPBACK = ("127.0.0.1", "localhost", "::1")
MOST_BYTES = 2_000_000  # of a request; a text of 20,000 words has about 120,000
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
SCRIPTS = {"article.js": "sentattn.rendering", "explore.js": "sentattn.explore"}


class PredictionRequest(BaseModel):
    """A text to predict, or a text in which a word of a model is first replaced or, without a replacement, removed."""

    text: str
    pairs: bool = False
    gradients: bool = False
    model: int = 0
    token: int | None = None
    replacement: str = ""


class Explorer:
    """Handles the requests of the page; predictions run one after another, since each uses all threads."""

    def __init__(self, models: Sequence[Model], rows: Rows | None) -> None:
        self.models, self.rows = models, rows
        self._one_at_a_time = threading.Lock()
        self._ids = itertools.count()

    def page(self) -> str:
        """Returns the page."""
        return render("sentattn.explore", "page.html", models=self.models, rows=self.rows, page=ROWS_SHOWN)

    def predict(self, wanted: PredictionRequest) -> dict[str, object]:
        """Returns the predicted text, the word that was edited, and an article for each model."""
        if wanted.gradients:
            require_packages("gradients", "Integrated gradients", ("captum",), "sentattn[insight]")
        with self._one_at_a_time:
            started = time.perf_counter()
            text, word, replacement = wanted.text, None, wanted.replacement.strip()
            if wanted.token is not None:
                _require("model", wanted.model, self.models)
                text, token = self.models[wanted.model].edited(text, wanted.token, replacement)
                word = clipped(token)
            articles = []
            for model in self.models:
                prediction = model.predict(text, pairs=wanted.pairs)
                attributed = model.integrated_gradients(prediction) if wanted.gradients else None
                shown = article(prediction, attributed=attributed)
                articles.append(render("sentattn.explore", "answer.html", shown=shown, id=f"{next(self._ids)}"))
            milliseconds = 1000 * (time.perf_counter() - started)
        edit = {"word": word, "replacement": clipped(replacement)}
        return {"text": text, **edit, "articles": articles, "milliseconds": milliseconds}

    def listed(self, wanted: Annotated[Filter, Query()]) -> dict[str, object]:
        """Returns a page of the rows of a filter, and how many there are."""
        if self.rows is None:
            return {"total": 0, "rows": []}
        _require("model", wanted.model, self.rows.models)
        chosen_K = self.rows.chosen(wanted)
        shown = [self.rows.summary(int(row)) for row in chosen_K[wanted.start : wanted.start + ROWS_SHOWN]]
        return {"total": len(chosen_K), "rows": shown}

    def text(self, row: int) -> dict[str, object]:
        """Returns a row with its whole text."""
        _require("row", row, () if self.rows is None else self.rows.labels_N)
        assert self.rows is not None
        return self.rows.summary(row) | {"text": self.rows.texts.texts(row)}


def _require(key: str, number: int, things: Sized) -> None:
    """Refuses the number of a model or row that does not exist with a `RunError`."""
    if not 0 <= number < len(things):
        raise RunError(Fault(key, "range", f"There is no {key} {number}."))


def app(explorer: Explorer, hosts: Sequence[str], token: str = "") -> FastAPI:
    """Returns the web application that passes requests to an explorer.

    A request's Host header is one of `hosts` or the address that the request has reached, so that no foreign page
    reaches it through its own host name (DNS rebinding). A `token` is named by a request for the page (`/?token=...`),
    and is the bearer token of one for data; empty where none is needed.
    """
    application = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @application.middleware("http")
    async def guard(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        """Refuses requests of other pages and large ones, and sets the headers that confine the page."""
        headers = request.headers
        length = headers.get("content-length", "0" if request.method in ("GET", "HEAD") else "")
        sent = request.query_params.get("token") or headers.get("authorization", "").removeprefix("Bearer ")
        needs_token = token and not request.url.path.endswith(".js")
        response: Response
        if _host_name(headers.get("host", "")) not in {*hosts, request.scope["server"][0]}:
            response = _error(400, "This host is not served here.")
        elif headers.get("origin", address := f"http://{headers.get('host')}") != address:
            response = _error(403, f"Requests from {headers['origin']} are not answered.")
        elif needs_token and not secrets.compare_digest(sent.encode(), token.encode()):
            response = _error(401, "The address needs the token that the server printed: http://...:PORT/?token=...")
        elif "transfer-encoding" in headers or not length.isdigit():  # a chunked body may be of any length
            response = _error(411, "A request states its length, and is not chunked.")
        elif int(length) > MOST_BYTES:
            response = _error(413, f"The text is too long: {int(length):,} bytes of at most {MOST_BYTES:,}.")
        else:
            response = await answer(request)
        response.headers.update(HEADERS)
        return response

    @application.exception_handler(UserError)
    async def refuse(_: Request, error: UserError) -> Response:
        return _error(422, str(error))

    @application.get("/{name}.js")
    def script(name: str) -> Response:
        if (package := SCRIPTS.get(f"{name}.js")) is None:
            return _error(404, f"There is no {name}.js.")
        return Response(files(package).joinpath(f"{name}.js").read_text(encoding="utf-8"), media_type="text/javascript")

    application.get("/", response_class=HTMLResponse)(explorer.page)
    application.post("/api/predict")(explorer.predict)
    application.get("/api/rows")(explorer.listed)
    application.get("/api/rows/{row}")(explorer.text)
    return application


def serve(models: Sequence[Model], rows: Rows | None, listening: socket.socket, *, opens: bool) -> None:
    """Serves the page on a listening socket until it is interrupted, and `opens` it in the browser."""
    host, port = listening.getsockname()[:2]
    hosts, token, query = list(LOOPBACK), "", ""
    if not ip_address(host).is_loopback:
        hosts += [socket.gethostname(), socket.getfqdn()]
        token = secrets.token_urlsafe(16)
        query = f"/?token={token}"
    shown = socket.gethostname() if ip_address(host).is_unspecified else f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{port}{query}"
    names = "; ".join(model.name for model in models)
    print(f"{len(models)} model{'s' * (len(models) > 1)}: {names}\n{address}  (Ctrl-C ends it)", flush=True)
    if token:
        print("warning: everyone who has this address can use these models and read the texts.", flush=True)
    server = uvicorn.Server(uvicorn.Config(app(Explorer(models, rows), hosts, token), log_level="warning"))
    if opens:
        threading.Timer(0.5, webbrowser.open, [address]).start()
    with suppress(KeyboardInterrupt):  # Ctrl-C is how it ends
        server.run(sockets=[listening])


def _host_name(host: str) -> str | None:
    """Returns the name in a Host header, without a port; None where there is none."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _error(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": message}, status)
