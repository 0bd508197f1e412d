"""The explorer: trained models, rows on which they are wrong or disagree, one page, and the requests of its script."""

from __future__ import annotations

import itertools
import socket
import threading
import time
import webbrowser
from collections.abc import Awaitable, Callable, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import numpy as np
import uvicorn
from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, Field

from sentattn.compare.comparison import read_comparisons
from sentattn.compare.report.summaries import errors, surest
from sentattn.compare.runs import EvaluatedRun, names, read_runs
from sentattn.console import plural
from sentattn.data.corpus import Split
from sentattn.data.pieces import PieceTokenizer
from sentattn.errors import Fault, RunError, UserError, require_packages, visible
from sentattn.insight.diagnostics import GRADIENT_STEPS, integrated_gradients
from sentattn.metrics import Floats, Ints
from sentattn.prediction.model import LoadedRun
from sentattn.prediction.prediction import Prediction, clipped, join_pieces
from sentattn.rendering.html import article, gradient_row, render
from sentattn.run import MODEL_FOLDER

MOST_MODELS = 8
MOST_TOKENS_OF_PAIRS = 1000
"""Of a longer text no weights from token to token are shown: their number is the square of its length."""
MOST_STEPS = 2 * GRADIENT_STEPS
"""Most points of the integral of integrated gradients: a page that waits shows its error instead."""
ROWS_SHOWN = 20
START = 160
"""Characters of a text that a list shows."""
HOSTS = ("127.0.0.1", "localhost", "::1")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
SCRIPTS = {"article.js": "sentattn.rendering", "explore.js": "sentattn.explore"}


@dataclass(frozen=True)
class Model:
    """A trained model; its name is the variant, and the settings in which it differs from the other models."""

    name: str
    run: LoadedRun

    def predict(self, text: str, *, pairs: bool) -> Prediction:
        """Predicts a text; a `DataError` if it has no token."""
        few = len(self.encoded_spans(text)) <= MOST_TOKENS_OF_PAIRS
        return self.run.classifier.explain(text, pairs=pairs and few)

    def encoded_spans(self, text: str) -> list[tuple[int, int]]:
        """Returns start and end of the tokens that this model reads, in characters."""
        return self.run.classifier.tokenizer.encode([text])[0].spans

    def integrated_gradients(self, prediction: Prediction) -> dict[str, object]:
        """Returns the row of what each word adds to the logit of the label; see `insight.diagnostics`."""
        classifier = self.run.classifier
        ids_L, label = classifier.tokenizer.encode([prediction.text])[0].ids, str(prediction.label)
        found = integrated_gradients(classifier.model, ids_L, classifier.labels.index(label), most_steps=MOST_STEPS)
        of_tokens = replace(prediction, attention=[found.of_tokens_L.tolist()], pairs=None)
        return gradient_row(of_tokens.in_words(), found.change, found.error)

    def edited(self, text: str, token: int, replacement: str = "") -> tuple[str, str]:
        """Returns a text with one of the words that this model reads replaced or, without a replacement, removed.

        The words on both sides of a removed one are separated by one space.

        Returns:
            The text, and the word that it had before.

        Raises:
            RunError: If there is no such word.
        """
        spans = self.encoded_spans(text)
        if isinstance(self.run.classifier.tokenizer, PieceTokenizer):
            spans, _ = join_pieces(text, spans)
        if not 0 <= token < len(spans):
            message = f"{self.name} reads {len(spans)} tokens of this text; there is no token {token}."
            raise RunError(Fault("token", "range", message))
        start, end = spans[token]
        before, after = text[:start], text[end:]
        if replacement:
            return before + replacement + after, text[start:end]
        return " ".join(filter(None, (before.rstrip(), after.lstrip()))), text[start:end]


def load_models(paths: Sequence[Path], *, trust: bool = False) -> tuple[list[Model], list[Fault]]:
    """Loads the first run of each setting below some folders; trials of sweeps only where their directory is given.

    Returns at most `MOST_MODELS` models, the most accurate in validation first, and an error for each run that is left
    out; a `RunError` if none is left.
    """
    found, faults = read_runs(paths, split=None)
    by_setting: dict[str, list[EvaluatedRun]] = {}
    for evaluated in found:
        if (evaluated.path / MODEL_FOLDER).is_dir():  # a reference has no model to show
            by_setting.setdefault(evaluated.setting, []).append(evaluated)
    best_first = sorted(
        by_setting.values(), key=lambda runs: runs[0].result.get("metrics", {}).get("val/accuracy", 0), reverse=True
    )
    loaded: list[LoadedRun] = []
    for number, runs in enumerate(best_first):
        if len(loaded) == MOST_MODELS:
            left_out = f"{len(by_setting) - number} more settings are left out: the explorer shows {MOST_MODELS}"
            faults.append(Fault("runs", "range", f"{left_out}; name fewer folders."))
            break
        for evaluated in runs:
            run = LoadedRun(evaluated.path, trust=trust)
            if evaluated.reads_states:
                message = f"{run.path} reads states, and there is no encoder that makes them of texts: left out."
                faults.append(Fault("runs", "unsupported", message))
                break
            try:
                _ = run.classifier
            except UserError as error:
                faults += error.faults
            else:
                loaded.append(run)
                break
    if not loaded:
        raise RunError(*faults, Fault("runs", "not_found", "No finished run with a model is left."))
    return [Model(*of_run) for of_run in zip(names([run.settings for run in loaded]), loaded, strict=True)], faults


class Filter(BaseModel):
    """Which rows are listed, and from where.

    The order `errors` lists wrong predictions of a model, by its number among those with predictions, `disagreement`
    different predictions of two models, each the surest first; `rows` all rows.
    """

    order: Literal["errors", "disagreement", "rows"] = "errors"
    model: int = 0
    start: Annotated[int, Field(ge=0)] = 0


@dataclass(frozen=True)
class Rows:
    """The rows of a split, their texts, and the predictions of A models with numbers in the explorer."""

    data: str
    names: Sequence[str]
    texts: Split
    labels_N: Ints
    lengths_N: Ints
    models: Sequence[int]
    probabilities_ANC: Floats

    def chosen(self, wanted: Filter) -> Ints:
        """Returns the numbers of the rows of a filter, in its order."""
        score_N = np.ones(len(self.labels_N))
        if wanted.order == "errors":
            score_N = errors(self.probabilities_ANC[wanted.model], self.labels_N)
        elif wanted.order == "disagreement":
            score_N = -np.sort(-surest(self.probabilities_ANC)[0], axis=0)[1]
        order_N = np.argsort(-score_N, kind="stable")
        return order_N[score_N[order_N] > 0]

    def summary(self, row: int) -> dict[str, object]:
        """Returns the entry of a row in a list."""
        text, best_A = self.texts.texts(row), self.probabilities_ANC[:, row].argmax(axis=1)
        return {
            "row": row,
            "start": visible(text if len(text) <= START else f"{text[:START]}\u2026"),
            "label": self.names[self.labels_N[row]],
            "tokens": int(self.lengths_N[row]),
            "predicted": [
                {"label": self.names[c], "probability": float(self.probabilities_ANC[a, row, c])}
                for a, c in enumerate(best_A)
            ],
        }


def read_rows(models: Sequence[Model], split: str) -> tuple[Rows | None, list[Fault]]:
    """Reads the texts and the predictions of the models' runs on them, of the rows that most of the models share.

    None, and why, where no run has predictions or the texts cannot be read.
    """
    numbers = {model.run.path: number for number, model in enumerate(models)}
    try:
        comparisons, faults = read_comparisons(list(numbers), split=split)
        comparison = comparisons[0]
        _, texts = comparison.read_texts()
    except UserError as error:
        return None, list(error.faults)
    runs = {numbers[setting.runs[0].path]: setting.runs[0] for setting in comparison.settings}
    shown = sorted(runs)
    rows = Rows(
        data=comparison.data,
        names=models[shown[0]].run.classifier.labels,
        texts=texts,
        labels_N=comparison.rows.labels_N,
        lengths_N=comparison.rows.lengths_N,
        models=shown,
        probabilities_ANC=np.stack([runs[number].probabilities_NC for number in shown]),
    )
    return rows, faults


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
                shown = article(prediction, [model.integrated_gradients(prediction)] if wanted.gradients else [])
                articles.append(render("sentattn.explore", "answer.html", shown=shown, id=f"{next(self._ids)}"))
            milliseconds = 1000 * (time.perf_counter() - started)
        edit = {"word": word, "replacement": clipped(replacement)}
        return {"text": text, **edit, "articles": articles, "milliseconds": milliseconds}

    def listed(self, wanted: Annotated[Filter, Query()]) -> dict[str, object]:
        """Returns a page of the rows of a filter, and how many there are."""
        assert self.rows is not None
        _require("model", wanted.model, self.rows.models)
        chosen_K = self.rows.chosen(wanted)
        shown = [self.rows.summary(int(row)) for row in chosen_K[wanted.start : wanted.start + ROWS_SHOWN]]
        return {"total": len(chosen_K), "rows": shown}

    def text(self, row: int) -> dict[str, object]:
        """Returns a row with its whole text."""
        assert self.rows is not None
        _require("row", row, self.rows.labels_N)
        return self.rows.summary(row) | {"text": self.rows.texts.texts(row)}


def _require(key: str, number: int, things: Sized) -> None:
    """Refuses the number of a model or row that does not exist with a `RunError`."""
    if not 0 <= number < len(things):
        raise RunError(Fault(key, "range", f"There is no {key} {number}."))


def app(explorer: Explorer) -> FastAPI:
    """Returns the web application that passes requests to an explorer.

    A request's Host header is one of `HOSTS`, so that no foreign page reaches it through its own host name (DNS
    rebinding).
    """
    application = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @application.middleware("http")
    async def guard(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        """Refuses requests of other pages, and sets the headers that confine the page."""
        headers = request.headers
        response: Response
        if _host_name(headers.get("host", "")) not in HOSTS:
            response = _error(400, "This host is not served here.")
        elif headers.get("origin", address := f"http://{headers.get('host')}") != address:
            response = _error(403, f"Requests from {headers['origin']} are not answered.")
        else:
            response = await answer(request)
        response.headers.update(HEADERS)
        return response

    @application.exception_handler(UserError)
    async def refuse(_: Request, error: UserError) -> Response:
        return _error(422, str(error))

    @application.exception_handler(RequestValidationError)
    async def refuse_values(_: Request, error: RequestValidationError) -> Response:
        # FastAPI's own answer repeats the values, and fails for those that JSON lacks, such as NaN
        faults = (f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
        return _error(422, "; ".join(faults))

    @application.get("/{name}.js")
    def script(name: str) -> Response:
        if (package := SCRIPTS.get(f"{name}.js")) is None:
            return _error(404, f"There is no {name}.js.")
        return Response(files(package).joinpath(f"{name}.js").read_text(encoding="utf-8"), media_type="text/javascript")

    application.get("/", response_class=HTMLResponse)(explorer.page)
    application.post("/api/predict")(explorer.predict)
    if explorer.rows is not None:
        application.get("/api/rows")(explorer.listed)
        application.get("/api/rows/{row}")(explorer.text)
    return application


def serve(models: Sequence[Model], rows: Rows | None, listening: socket.socket, *, opens: bool) -> None:
    """Serves the page on a listening socket until it is interrupted, and `opens` it in the browser."""
    host, port = listening.getsockname()
    address = f"http://{host}:{port}"
    shown_names = "; ".join(model.name for model in models)
    print(f"{plural(len(models), 'model')}: {shown_names}\n{address}  (Ctrl-C ends it)", flush=True)
    server = uvicorn.Server(uvicorn.Config(app(Explorer(models, rows)), log_level="warning"))
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
