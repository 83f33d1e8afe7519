"""The HTTP side of `launch.serve`: paths, limits, errors, counts.

GET  /                     the page
GET  /health               {"status": "ok"}
GET  /v1/models            OpenAI's list of models
GET  /metrics              counts and latencies, Prometheus' text format
POST /answer               {"question", "top_k"} -> {"answers": [{"text", "score",
                           "passage", "document", "start", "end", "passage_start"}],
                           "kind", "passages"}
POST /question-answering   Hugging Face's task: {"inputs": {"question", "context"},
                           "parameters": {"top_k"}} -> [{"answer", "score", "start",
                           "end"}]
POST /v1/embeddings        OpenAI's: {"input": a text or several} -> vectors

An error is {"error": {"message", "type"}}: 400 no JSON, 403 another host's name where
the server is for this machine alone (a site whose name was made to lead here), 404,
405, 411 no length, 413 a body that is too long, 415 another type than JSON, 422 a value
that is not legal, 501 what this server lacks, 503 a full queue (Retry-After), 504 no
answer in time.
"""

import http.server
import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from launch.serving.worker import BusyError, Worker

MAX_BODY, MAX_QUESTION, MAX_TOP_K, MAX_INPUTS = 64 * 2**10, 1000, 50, 16
TIMEOUT_S, SOCKET_TIMEOUT_S, RETRY_AFTER_S = 30.0, 10.0, 1
PAGE = Path(__file__).with_name("page.html")
LOOPBACK = ("127.0.0.1", "localhost")
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


class HttpError(Exception):
    """A response that is an error."""

    def __init__(self, status: int, message: str, kind: str = "invalid_request_error"):
        super().__init__(message)
        self.status, self.message, self.kind = status, message, kind


class Asked(NamedTuple):
    """A question about a context of the request's own."""

    question: str
    context: str


class Counts:
    """Requests by path and status, and the seconds of those that were answered."""

    def __init__(self):
        self._lock = threading.Lock()
        self._requests: dict[tuple[str, int], int] = {}
        self._seconds: dict[str, float] = {}

    def add(self, path: str, status: int, seconds: float) -> None:
        with self._lock:
            key = path, status
            self._requests[key] = self._requests.get(key, 0) + 1
            self._seconds[path] = self._seconds.get(path, 0.0) + seconds

    def text(self) -> str:
        """Prometheus' text format."""
        with self._lock:
            lines = ["# TYPE palimpsest_requests_total counter"]
            for (path, status), count in sorted(self._requests.items()):
                labels = f'path="{path}",status="{status}"'
                lines.append(f"palimpsest_requests_total{{{labels}}} {count}")
            lines.append("# TYPE palimpsest_request_seconds_total counter")
            for path, seconds in sorted(self._seconds.items()):
                name = f'palimpsest_request_seconds_total{{path="{path}"}}'
                lines.append(f"{name} {seconds:.6f}")
        return "\n".join(lines) + "\n"


class Server(http.server.ThreadingHTTPServer):
    """A thread for each connection, which waits for the worker.

    Args:
      kinds: what the worker can do: answer, and read or embed.
      facts: what the page and /v1/models say: model names, number of documents.
    """

    request_queue_size = 512
    daemon_threads = False  # server_close waits for the responses that are being made

    def __init__(
        self,
        address: tuple[str, int],
        worker: Worker,
        kinds: frozenset[str],
        facts: Mapping[str, Any],
    ):
        self.worker, self.kinds, self.facts = worker, kinds, facts
        self.counts, self.page = Counts(), PAGE.read_bytes()
        self.hosts = LOOPBACK if address[0] in LOOPBACK else ()
        super().__init__(address, _Handler)


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Server
    timeout = SOCKET_TIMEOUT_S
    server_version, sys_version = "palimpsest", ""

    def do_GET(self) -> None:
        self._respond(GET, other=POST)

    def do_POST(self) -> None:
        self._respond(POST, other=GET)

    def log_message(self, *_: Any) -> None:
        """Requests are counted, not logged: questions are the user's own."""

    def _respond(self, routes: Mapping[str, Callable], other: Mapping) -> None:
        begin, path = time.perf_counter(), self.path.partition("?")[0]
        known = path if path in GET or path in POST else "other"
        headers = {"Content-Type": "application/json; charset=utf-8"}
        try:
            hosts, host = self.server.hosts, self.headers.get("Host", "")
            if hosts and host.partition(":")[0] not in hosts:
                raise HttpError(403, f"this server is none of {host}")
            if path not in routes:
                if path in other:
                    raise HttpError(405, f"{path} takes another method")
                raise HttpError(404, f"there is no {path}")
            status, content = 200, routes[path](self)
        except HttpError as error:
            status, content = error.status, _error(error.message, error.kind)
        except BusyError:
            status, headers["Retry-After"] = 503, str(RETRY_AFTER_S)
            content = _error("the queue is full; ask again", "overloaded_error")
        except TimeoutError:
            message = f"there is no answer within {TIMEOUT_S:g} seconds"
            status, content = 504, _error(message, "timeout_error")
        except (ConnectionError, OSError):
            return
        except Exception as error:
            print(f"{path}: {type(error).__name__}: {error}", file=sys.stderr)
            status, content = 500, _error("this is a bug of the server", "server_error")
        if isinstance(content, tuple):
            headers["Content-Type"], body = content
        else:
            body = json.dumps(content, ensure_ascii=False).encode()
        self.server.counts.add(known, status, time.perf_counter() - begin)
        try:
            self._send(status, headers, body)
        except (ConnectionError, OSError):  # whoever asked is gone
            return

    def _send(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def _body(self) -> dict[str, Any]:
        """The JSON object of the request."""
        kind = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise HttpError(415, "send Content-Type: application/json")
        length = self.headers.get("Content-Length", "")
        if not length.isdigit():
            raise HttpError(411, "send Content-Length")
        if int(length) > MAX_BODY:
            raise HttpError(413, f"a body has at most {MAX_BODY} bytes")
        try:
            content = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError) as error:
            raise HttpError(400, "the body is not JSON") from error
        if not isinstance(content, dict):
            raise HttpError(422, "the body is a JSON object")
        return content

    def _do(self, kind: str, item: Any) -> Any:
        if kind not in self.server.kinds:
            raise HttpError(501, LACKS[kind])
        return self.server.worker.do(kind, item, TIMEOUT_S)

    def _page(self) -> tuple[str, bytes]:
        return "text/html; charset=utf-8", self.server.page

    def _health(self) -> dict[str, Any]:
        return {"status": "ok", **self.server.facts}

    def _models(self) -> dict[str, Any]:
        names = [name for name in self.server.facts["models"].values() if name]
        models = [{"id": n, "object": "model", "owned_by": "user"} for n in names]
        return {"object": "list", "data": models}

    def _metrics(self) -> tuple[str, bytes]:
        return "text/plain; version=0.0.4", self.server.counts.text().encode()

    def _answer(self) -> dict[str, Any]:
        body = self._body()
        question, top_k = _question(body), _top_k(body, 5)
        reply = self._do("answer", question)
        return {
            "answers": [each._asdict() for each in reply.answers[:top_k]],
            "kind": reply.kind,
            "passages": [
                {**hit.passage._asdict(), "score": hit.score}
                for hit in reply.passages[:top_k]
            ],
        }

    def _question_answering(self) -> list[dict[str, Any]]:
        body = self._body()
        inputs, parameters = body.get("inputs"), body.get("parameters", {})
        if not isinstance(inputs, dict) or not isinstance(parameters, dict):
            raise HttpError(422, 'inputs is an object, as in {"question", "context"}')
        context = inputs.get("context")
        if not isinstance(context, str) or not context.strip():
            raise HttpError(422, "inputs.context is a text")
        top_k = _top_k(parameters, 1)
        return self._do("read", Asked(_question(inputs), context))[:top_k]

    def _embeddings(self) -> dict[str, Any]:
        texts = self._body().get("input")
        texts = [texts] if isinstance(texts, str) else texts
        is_list = isinstance(texts, list) and 0 < len(texts) <= MAX_INPUTS
        if not is_list or not all(isinstance(t, str) and t.strip() for t in texts):
            raise HttpError(422, f"input is a text, or a list of 1 to {MAX_INPUTS}")
        vectors = self._do("embed", texts)
        data = [
            {"object": "embedding", "index": n, "embedding": vector}
            for n, vector in enumerate(vectors)
        ]
        model = self.server.facts["models"]["encoder"]
        return {"object": "list", "model": model, "data": data}


LACKS = {
    "read": "this server has no reader; start it with --reader",
    "embed": "this server has no encoder; start it with --encoder",
}
GET = {
    "/": _Handler._page,
    "/health": _Handler._health,
    "/v1/models": _Handler._models,
    "/metrics": _Handler._metrics,
}
POST = {
    "/answer": _Handler._answer,
    "/question-answering": _Handler._question_answering,
    "/v1/embeddings": _Handler._embeddings,
}


def _error(message: str, kind: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind}}


def _question(body: Mapping[str, Any]) -> str:
    question = body.get("question")
    if not isinstance(question, str) or not question.strip():
        raise HttpError(422, "question is a text that is not blank")
    if len(question) > MAX_QUESTION:
        raise HttpError(422, f"a question has at most {MAX_QUESTION} characters")
    return question


def _top_k(body: Mapping[str, Any], default: int) -> int:
    top_k = body.get("top_k", default)
    if type(top_k) is not int or not 1 <= top_k <= MAX_TOP_K:
        raise HttpError(422, f"top_k is a whole number from 1 to {MAX_TOP_K}")
    return top_k
