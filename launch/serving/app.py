"""The ASGI application of `palimpsest serve`: paths, limits, errors, counts.

GET  /                     the page
GET  /health               {"status": "ok"}, and what the server answers from
GET  /v1/models            OpenAI's list of models
GET  /metrics              counts and latencies, Prometheus' text format
POST /answer               {"question", "top_k"} -> {"answers": [{"text", "score",
                           "passage", "document", "start", "end", "passage_start"}],
                           "answer_type", "passages"}
POST /question-answering   Hugging Face's task: {"inputs": {"question", "context"},
                           "parameters": {"top_k"}} -> [{"answer", "score", "start",
                           "end"}]
POST /v1/embeddings        OpenAI's: {"input": a text or several} -> vectors
POST /v1/completions       OpenAI's: {"prompt": a text or several} -> texts after them

An error is {"error": {"message", "type"}}: 400 no JSON, or another host's name where
the server is for this machine alone (a site whose name was made to lead here), 404,
405, 413 a body that is too long, 415 another type than JSON, 422 a value that is not
legal, 501 what this server lacks, 503 a full queue (Retry-After), 504 no answer in
time.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
)
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from launch.serving import bodies
from launch.serving.worker import BusyError, Worker
from research.contract.errors import UserError

MAX_BODY, TIMEOUT_S, RETRY_AFTER_S = 64 * 2**10, 30.0, 1
PAGE = Path(__file__).with_name("page.html")
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
ERROR_TYPES = {500: "server_error", 503: "overloaded_error", 504: "timeout_error"}
FLAGS = {"read": "reader", "embed": "encoder", "complete": "generator"}
"""The flag whose model a function of the worker needs."""


def make_app(worker: Worker, info: Mapping[str, Any], *, is_local: bool) -> ASGIApp:
    """The application.

    Args:
      info: what /health and /v1/models say: model names, number of documents.
      is_local: requests to other host names than those of loopback are refused.
    """
    api = _Api(worker, info)
    hosts = LOOPBACK if is_local else ("*",)
    routes = [
        Route("/", _page),
        Route("/health", api.health),
        Route("/v1/models", api.models),
        *(
            Route(path, _json_endpoint(handler), methods=["POST"])
            for path, handler in {
                "/answer": api.answer,
                "/question-answering": api.question_answering,
                "/v1/embeddings": api.embeddings,
                "/v1/completions": api.completions,
            }.items()
        ),
    ]
    measured = _Measured([route.path for route in routes])
    app = Starlette(
        routes=[*routes, Route("/metrics", measured.metrics)],
        middleware=[Middleware(_TrustedHosts, hosts=hosts)],
        exception_handlers={HTTPException: _error_response},
    )
    measured.app = app
    return measured


class _TrustedHosts:
    """Starlette's check of the host's name, whose refusal is an error as all others."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str]):
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked: ASGIApp = _refuse_host

        async def trusted(*_: Any) -> None:
            nonlocal asked
            asked = self._app

        async def ignore(_: Message) -> None:
            pass

        check = TrustedHostMiddleware(trusted, self._hosts, www_redirect=False)
        await check(scope, receive, ignore)
        await asked(scope, receive, send)


async def _refuse_host(scope: Scope, receive: Receive, send: Send) -> None:
    error = HTTPException(400, f"the host is none of {', '.join(LOOPBACK)}")
    response = await _error_response(Request(scope), error)
    await response(scope, receive, send)


class _Measured:
    """Counts the requests of an application by path and status, and their seconds.

    Its responses get `HEADERS`. Questions are the user's own and are not logged.
    """

    app: ASGIApp

    def __init__(self, paths: list[str]):
        self._paths = frozenset(paths)
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "palimpsest_requests",
            "Requests that got a response.",
            ("path", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "palimpsest_request_seconds",
            "Seconds until the response began.",
            ("path",),
            registry=self._registry,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begin = time.perf_counter()

        async def measured_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
                path = scope["path"] if scope["path"] in self._paths else "other"
                self._requests.labels(path, message["status"]).inc()
                self._seconds.labels(path).observe(time.perf_counter() - begin)
            await send(message)

        await self.app(scope, receive, measured_send)

    async def metrics(self, _: Request) -> Response:
        text = generate_latest(self._registry)
        return Response(text, media_type=CONTENT_TYPE_LATEST)


class _Api:
    """What each path does with the JSON object of a request."""

    def __init__(self, worker: Worker, info: Mapping[str, Any]):
        self._worker, self._info = worker, info

    async def health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok", **self._info})

    async def models(self, _: Request) -> Response:
        names = dict.fromkeys(name for name in self._info["models"].values() if name)
        data = [{"id": n, "object": "model", "owned_by": "user"} for n in names]
        return JSONResponse({"object": "list", "data": data})

    async def answer(self, body: Mapping[str, Any]) -> dict[str, Any]:
        question, top_k = bodies.question(body), bodies.top_k(body, 5)
        reply = await self._do("answer", question)
        return {
            "answers": [each._asdict() for each in reply.answers[:top_k]],
            "answer_type": reply.answer_type,
            "passages": [
                {**hit.passage._asdict(), "score": hit.score}
                for hit in reply.passages[:top_k]
            ],
        }

    async def question_answering(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        asked, top_k = bodies.question_answering(body)
        return (await self._do("read", asked))[:top_k]

    async def embeddings(self, body: Mapping[str, Any]) -> dict[str, Any]:
        model = self._check_model("embed", body)
        texts, form = bodies.embeddings(body)
        embedded = await self._do("embed", texts)
        return bodies.embeddings_response(model, embedded, form)

    async def completions(self, body: Mapping[str, Any]) -> dict[str, Any]:
        model = self._check_model("complete", body)
        requests, count, echo = bodies.completions(body)
        jobs = [asyncio.ensure_future(self._do("complete", each)) for each in requests]
        try:
            completions = await asyncio.gather(*jobs)
        finally:
            for job in jobs:
                job.cancel()
        return bodies.completions_response(
            model,
            completions,
            count=count,
            echo=echo,
            most=bodies.num_log_probs(body),
        )

    def _check_model(self, function: str, body: Mapping[str, Any]) -> str:
        """The name of the model that does it, which `model` may say."""
        if function not in self._worker.functions:
            flag = FLAGS[function]
            message = f"this server has no {flag}; start it with --{flag}"
            raise HTTPException(501, message)
        name = self._info["models"].get(FLAGS.get(function, ""), "")
        if body.get("model") not in (None, name):
            raise HTTPException(404, f"there is no model {body['model']}; use {name}")
        return name

    async def _do(self, function: str, item: Any) -> Any:
        self._check_model(function, {})
        try:
            future = self._worker.submit(function, item)
        except BusyError as error:
            wait = {"Retry-After": str(RETRY_AFTER_S)}
            message = "the queue is full; ask again"
            raise HTTPException(503, message, wait) from error
        return await asyncio.wrap_future(future)


def _json_endpoint(
    handler: Callable[[Mapping[str, Any]], Awaitable[Any]],
) -> Callable[[Request], Awaitable[Response]]:
    """A function of JSON objects as one of requests: what goes wrong has a status."""

    async def endpoint(request: Request) -> Response:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return JSONResponse(await handler(await _body(request)))
        except HTTPException:
            raise
        except UserError as error:
            raise HTTPException(422, str(error)) from error
        except TimeoutError as error:
            message = f"there is no answer within {TIMEOUT_S:g} seconds"
            raise HTTPException(504, message) from error
        except ClientDisconnect as error:
            raise HTTPException(400, "the body ends too soon") from error
        except Exception as error:
            name = f"{request.url.path}: {type(error).__name__}"
            print(f"{name}: {error}", file=sys.stderr)
            raise HTTPException(500, "this is a bug of the server") from error

    return endpoint


async def _body(request: Request) -> dict[str, Any]:
    media_type = request.headers.get("Content-Type", "").partition(";")[0]
    if media_type.strip().lower() != "application/json":
        raise HTTPException(415, "send Content-Type: application/json")
    received = bytearray()
    async for part in request.stream():
        received += part
        if len(received) > MAX_BODY:
            raise HTTPException(413, f"a body has at most {MAX_BODY} bytes")
    try:
        content = json.loads(received)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, "the body is not JSON") from error
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        message = "a text of the body has half of a surrogate pair, which is no Unicode"
        raise HTTPException(422, message) from error
    if not isinstance(content, dict):
        raise HTTPException(422, "the body is a JSON object")
    return content


async def _page(_: Request) -> Response:
    return FileResponse(PAGE, media_type="text/html")


async def _error_response(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    error_type = ERROR_TYPES.get(error.status_code, "invalid_request_error")
    content = {"error": {"message": error.detail, "type": error_type}}
    return JSONResponse(content, error.status_code, error.headers)
