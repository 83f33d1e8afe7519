"""The server answers every request, by its own question, or says why not."""

import base64
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import uvicorn

from launch.commands import serve
from launch.serving import app as serving
from launch.serving import draining
from launch.serving.worker import QUEUE, Worker
from research.contract.errors import UserError
from research.use.inference.completions import Completed
from research.use.inference.serving import Embedded
from research.use.inference.token_log_probs import TokenLogProbs

JSON = {"Content-Type": "application/json"}


def ask(port, path, body=None, *, headers=JSON, method="POST", timeout=20):
    """Status, headers and content of a response."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    body = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    data = response.read()
    if "json" in response.headers["Content-Type"]:
        data = json.loads(data)
    return response.status, response.headers, data


INFO = {
    "documents": 1,
    "passages": 1,
    "models": {"reader": "r", "encoder": "e", "generator": "g"},
}


@contextlib.contextmanager
def serving_at(functions, info=INFO):
    """The port of a server in a thread."""
    worker, listening = Worker(functions), serve.listen("127.0.0.1", 0)
    app = serving.make_app(worker, info, is_local=True)
    config = uvicorn.Config(app, http="h11", ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    run = {"target": server.run, "kwargs": {"sockets": [listening]}, "daemon": True}
    thread = threading.Thread(**run)
    thread.start()
    yield listening.getsockname()[1]
    server.should_exit = True
    thread.join(20)
    worker.close()


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    folder = tmp_path_factory.mktemp("documents")
    (folder / "in").mkdir()
    rivers = "The Elbe ends in the North Sea.\r\n\r\nThe Oder 🙂 ends in the Baltic."
    (folder / "in" / "rivers.md").write_bytes(rivers.encode())
    (folder / "zh.txt").write_text("黄河流入渤海。长江流入东海。", "utf-8")
    (folder / "other.json").write_text("{}")
    return folder


def arguments(documents, *flags):
    return serve.parser().parse_args([f"--documents={documents}", "--port=0", *flags])


@pytest.fixture(scope="module")
def server(documents):
    """Of documents without a model."""
    with serving_at(*serve.make_functions(arguments(documents))) as port:
        yield port


@pytest.mark.parametrize(
    ("question", "name", "expected"),
    [
        ("Where does the Oder end?", "in/rivers.md", "The Oder 🙂 ends in the Baltic."),
        ("长江流入哪里", "zh.txt", "长江流入东海。"),
    ],
)
def test_an_answer_is_a_slice_of_its_document(
    server, documents, question, name, expected
):
    status, headers, reply = ask(server, "/answer", {"question": question, "top_k": 1})
    assert status == 200 and reply["answer_type"] == "sentence"
    (answer,) = reply["answers"]
    text = (documents / name).read_bytes().decode()
    assert answer["text"] == expected and answer["document"] == name
    assert text[answer["start"] : answer["end"]] == expected
    assert answer["passage"] in text and 0 < answer["score"] <= 1
    assert "default-src 'none'" in headers["Content-Security-Policy"]


QUESTION = {"question": "q"}


@pytest.mark.parametrize(
    ("status", "path", "body", "words"),
    [
        (404, "/nothing", QUESTION, "Not Found"),
        (405, "/health", QUESTION, "Method Not Allowed"),
        (400, "/answer", b"{", "not JSON"),
        (400, "/answer", b"[" * 50_000, "not JSON"),
        (422, "/answer", [], "a JSON object"),
        (422, "/answer", b'{"question": "a \\ud83d b"}', "half of a surrogate pair"),
        (422, "/v1/completions", b'{"\\udc00": 1}', "half of a surrogate pair"),
        (413, "/answer", {"question": "a" * 2**16}, "at most 65536 bytes"),
        (422, "/answer", {"question": "a" * 1001}, "at most 1000 characters"),
        (422, "/answer", {"question": " "}, "not blank"),
        (422, "/answer", {"question": 5}, "question must be a text"),
        (422, "/answer", QUESTION | {"top_k": 51}, "from 1 to 50"),
        (422, "/answer", QUESTION | {"top_k": True}, "from 1 to 50"),
        (422, "/question-answering", {"inputs": QUESTION}, "context must be a text"),
        (501, "/question-answering", {"inputs": QUESTION | {"context": "c"}}, "reader"),
        (501, "/v1/embeddings", {"input": "a"}, "no encoder; start it with --encoder"),
        (501, "/v1/completions", {"prompt": "a"}, "start it with --generator"),
    ],
)
def test_a_wrong_request_gets_its_status(server, status, path, body, words):
    got, _, content = ask(server, path, body)
    assert got == status and words in content["error"]["message"]
    assert content["error"]["type"] == "invalid_request_error"


def test_a_form_of_another_site_is_refused(server):
    """A browser sends text/plain there without asking the server first."""
    for host in ("evil.example", "evil.example:80", ""):
        status, _, content = ask(
            server, "/health", headers={"Host": host}, method="GET"
        )
        assert status == 400 and "localhost" in content["error"]["message"]
        assert content["error"]["type"] == "invalid_request_error"
    for host in ("localhost:1", "[::1]:1"):
        assert ask(server, "/", headers={"Host": host}, method="GET")[0] == 200
    headers = {"Content-Type": "text/plain"}
    assert ask(server, "/answer", QUESTION, headers=headers)[0] == 415


def test_the_page_loads_nothing_and_finds_its_elements(server):
    status, headers, page = ask(server, "/", method="GET")
    page = page.decode()
    assert status == 200 and headers["Content-Type"].startswith("text/html")
    assert not re.search(r"https?:|src=|@import|innerHTML", page)
    used, there = (re.findall(p, page) for p in (r'byId\("(\w+)"\)', r'id="(\w+)"'))
    assert used and {*used} <= {*there}
    status, _, health = ask(server, "/health", method="GET")
    assert status == 200 and health["status"] == "ok" and health["documents"] == 2
    assert ask(server, "/secret", QUESTION)[0] == 404
    metrics = ask(server, "/metrics", method="GET")[2].decode()
    assert 'palimpsest_requests_total{path="/",status="200"}' in metrics
    assert 'path="other",status="404"' in metrics and "secret" not in metrics
    assert ask(server, "/v1/models", method="GET")[2]["object"] == "list"


def embed(lists):
    """Vectors that say which texts they are of."""
    return [Embedded(np.array([[float(t)] for t in each]), 3) for each in lists]


def test_embeddings_are_openais(server):
    with serving_at({"embed": embed}) as port:
        status, _, content = ask(port, "/v1/embeddings", {"input": ["1", "2"]})
        assert status == 200 and content["object"] == "list" and content["model"] == "e"
        assert [each["embedding"] for each in content["data"]] == [[1.0], [2.0]]
        assert [each["index"] for each in content["data"]] == [0, 1]
        assert content["usage"] == {"prompt_tokens": 3, "total_tokens": 3}
        body = {"input": "7", "encoding_format": "base64", "model": "e"}
        spelled = ask(port, "/v1/embeddings", body)[2]["data"][0]["embedding"]
        assert np.frombuffer(base64.b64decode(spelled), "<f4") == [7.0]
        for wrong, status, words in (
            ({"input": []}, 422, "a list of 1 to 16"),
            ({"input": ["a", " "]}, 422, "blank"),
            ({"encoding_format": "x"}, 422, "float or base64"),
            ({"dimensions": 3}, 422, "dimensions"),
            ({"model": "x"}, 404, "no model x; use e"),
        ):
            got, _, content = ask(port, "/v1/embeddings", {"input": "1"} | wrong)
            assert got == status and words in content["error"]["message"]


def test_completions_are_openais():
    seen = []
    log_probs = TokenLogProbs(
        ["a", "b"],
        np.log([0.5, 0.25]),
        [["a", "c"], ["d", "b"]],
        np.log([[0.5, 0.5], [0.5, 0.25]]),
    )

    def of(each):
        return log_probs if each.log_probs else None

    def complete(asked):
        seen.extend(asked)
        return [
            UserError("a prompt has at most 3 tokens")
            if each.prompt == "long"
            else Completed(
                f"-{each.prompt}-{each.choice}", "length", 2, 1, each.prompt, of(each)
            )
            for each in asked
        ]

    with serving_at({"complete": complete}) as port:

        def post(**body):
            return ask(port, "/v1/completions", {"prompt": "a"} | body)

        status, _, content = post(prompt=["a", "b"], n=2, echo=True, seed=4, stop="x")
        assert status == 200 and content["object"] == "text_completion"
        texts = [each["text"] for each in content["choices"]]
        assert texts == ["a-a-0", "a-a-1", "b-b-2", "b-b-3"]  # each has its samples
        assert [each["index"] for each in content["choices"]] == [0, 1, 2, 3]
        choice = content["choices"][0]
        assert choice["finish_reason"] == "length" and choice["logprobs"] is None
        usage = {"prompt_tokens": 4, "completion_tokens": 4, "total_tokens": 8}
        assert content["usage"] == usage and content["model"] == "g"
        assert {each.seed for each in seen} == {4} and seen[0].stop == ("x",)
        assert (seen[0].max_tokens, seen[0].temperature) == (16, 1.0)
        assert post(prompt="a", stream=False, logprobs=None, user="u")[0] == 200
        assert post(model=None)[2]["model"] == "g"
        half, quarter = np.log([0.5, 0.25]).tolist()
        for echo, first in ((True, 0), (False, 1)):
            choice = post(logprobs=1, echo=echo)[2]["choices"][0]
            assert choice["logprobs"] == {
                "tokens": ["a", "b"][first:],
                "token_logprobs": [half, quarter][first:],
                "top_logprobs": [{"a": half}, {"d": half}][first:],
                "text_offset": [0, 1][: 2 - first],
            }
        assert post(prompt=[[1, 2], [3]])[0] == 200 and seen[-1].prompt == (3,)
        assert post(prompt="b")[2]["choices"][0]["text"] == "-b-0"
        written = len(seen)
        for wrong, status, words in (
            ({"prompt": [1, "a"]}, 422, "prompt must be a text, or a list"),
            ({"logprobs": 6}, 422, "logprobs must be a whole number from 0 to 5"),
            ({"prompt": "long"}, 422, "at most 3 tokens"),
            ({"stream": True}, 422, "stream: this server does not support it"),
            ({"temprature": 1}, 422, "unknown field temprature"),
            ({"temperature": 2.5}, 422, "temperature must be a number from 0 to 2"),
            ({"top_p": True}, 422, "top_p must be a number"),
            ({"max_tokens": 0}, 422, "max_tokens must be a whole number from 1"),
            ({"n": 17}, 422, "n must be a whole number from 1 to 16"),
            ({"n": 9, "prompt": ["a", "b"]}, 422, "at most 16"),
            ({"stop": ["a"] * 5}, 422, "at most 4"),
            ({"echo": 1}, 422, "echo must be true or false"),
            ({"model": "x"}, 404, "no model x; use g"),
        ):
            got, _, content = post(**wrong)
            assert got == status and words in content["error"]["message"], content
        assert {each.prompt for each in seen[written:]} == {"long"}


def test_of_200_requests_at_once_each_gets_its_own_answer():
    sizes = []

    def counted(lists):
        sizes.append(len(lists))
        return embed(lists)

    def until_answered(number):
        while True:
            body = {"input": f"{number}"}
            status, headers, content = ask(port, "/v1/embeddings", body, timeout=60)
            if status != 503:
                return status, content["data"][0]["embedding"]
            assert headers["Retry-After"] == "1"

    with serving_at({"embed": counted}) as port, ThreadPoolExecutor(200) as pool:
        found = list(pool.map(until_answered, range(200)))
    assert found == [(200, [float(number)]) for number in range(200)]
    assert 1 < max(sizes) <= 16


def test_a_bug_in_one_request_fails_it_alone():
    """Those that wait beside it, and would be of one batch, have their answers."""
    go, sizes = threading.Event(), []

    def inverse(items):
        sizes.append(len(items))
        go.wait(20)
        return [1 / item for item in items]

    worker = Worker({"inverse": inverse})
    first = worker.submit("inverse", 1)
    while not sizes:
        time.sleep(0.001)
    others = [worker.submit("inverse", item) for item in (2, 0, 4)]
    go.set()
    worker.close()
    assert sizes[:2] == [1, 3] and first.result() == 1
    assert isinstance(others[1].exception(), ZeroDivisionError)
    assert [others[0].result(), others[2].result()] == [0.5, 0.25]


def test_a_full_queue_a_slow_answer_and_a_bug_are_reported(monkeypatch, capsys):
    go, started, contexts = threading.Event(), threading.Event(), []

    def read(asked):
        contexts.extend(each.context for each in asked)
        if asked[0].context == "bug":
            raise ZeroDivisionError("of a test")
        started.set()
        go.wait(20)
        return [[] for _ in asked]

    monkeypatch.setattr(serving, "TIMEOUT_S", 0.3)
    with serving_at({"read": read}) as port, ThreadPoolExecutor(QUEUE + 1) as pool:

        def status(context="c"):
            body = {"inputs": QUESTION | {"context": context}}
            return ask(port, "/question-answering", body)[0]

        assert status("bug") == 500
        assert "ZeroDivisionError: of a test" in capsys.readouterr().err
        first = pool.submit(status)
        assert started.wait(20)
        others = [pool.submit(status, "given up") for _ in range(QUEUE)]
        assert {first.result(), *(each.result() for each in others)} == {504}
        assert status() == 503  # those that were given up still wait
        go.set()
        assert status("last") in (200, 503)
    assert "given up" not in contexts  # nobody waits for them any more


def test_a_server_that_is_asked_to_end_answers_first(monkeypatch, capsys):
    """Requests in work, in the queue, and on connections that have sent nothing yet;
    it does not wait for a client that stops in the middle."""
    handlers = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)}
    ended = threading.Event()

    def slow(lists):
        if not ended.is_set():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1.5)  # longer than a server that does not wait takes to end
            ended.set()
        return embed(lists)

    monkeypatch.setattr(draining, "CLIENT_S", 2.5)
    worker, listening = Worker({"embed": slow}), serve.listen("127.0.0.1", 0)
    address = listening.getsockname()
    clients = [socket.create_connection(address, timeout=30) for _ in range(41)]
    head = b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\n"
    head += b"Content-Type: application/json\r\nContent-Length: 14\r\n\r\n"

    def send(numbers):
        for number in numbers:
            clients[number].sendall(head + b'{"input":"%2d"}' % number)

    def later():
        ended.wait(20)
        send(range(20, 40))

    send(range(20))
    clients[40].sendall(head + b"{")
    thread = threading.Thread(target=later)
    thread.start()
    begin = time.monotonic()
    try:
        app = serving.make_app(worker, INFO, is_local=True)
        serve.serve_until_asked_to_end(app, listening, INFO)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    thread.join(20)
    assert time.monotonic() - begin < draining.ANSWER_S / 2
    for number, client in enumerate(clients[:40]):
        with client:
            response = http.client.HTTPResponse(client)
            response.begin()
            (found,) = json.loads(response.read())["data"]
        assert response.status == 200 and found["embedding"] == [number]
    with clients[40]:
        assert clients[40].recv(1) == b""
    assert capsys.readouterr().err.endswith("answers from 1 documents, 1 passages\n")


def test_a_server_that_is_killed_starts_again_at_its_port(documents):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "launch.commands.serve",
        f"--documents={documents}",
    ]
    answers = []
    for end, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 0)):
        with subprocess.Popen(
            [*command, f"--port={port}"], stderr=subprocess.PIPE, text=True
        ) as process:
            assert f":{port}/ answers from 2" in process.stderr.readline()
            answers.append(ask(port, "/answer", {"question": "Where is the Oder?"})[2])
            process.send_signal(end)
            rest = process.stderr.read()
        assert process.returncode == code and (rest == "ended\n") == (code == 0)
    assert answers[0] == answers[1] and answers[0]["answers"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [("a.txt", b"\xff", "a.txt is not text in UTF-8"), ("a.txt", b" ", "has no text")],
)
def test_documents_that_cannot_be_read_are_told(tmp_path, name, content, words):
    from research.use.retrieval.documents import read_documents

    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=words):
        read_documents(str(tmp_path))


def test_documents_are_in_their_folder(tmp_path, capsys):
    """Links may be of who fills the folder, not of who may read what they lead to."""
    from research.use.retrieval.documents import read_documents

    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.md").write_text("inside")
    (folder / "again.md").symlink_to(folder / "a.md")
    for suffix in ("txt", "jsonl"):
        (tmp_path / f"b.{suffix}").write_text('{"text": "secret"}\n')
        (folder / f"b.{suffix}").symlink_to(tmp_path / f"b.{suffix}")
    found = [("a.md", "inside"), ("again.md", "inside")]
    assert read_documents(str(folder)) == found
    said = capsys.readouterr().err
    assert "1 links that lead out of the folder" in said and "b.txt" in said
    for name in ("a.md", "again.md", "b.txt"):
        (folder / name).unlink()
    with pytest.raises(UserError, match=r"b\.jsonl leads out of"):
        read_documents(str(folder))


def test_a_port_that_is_taken_is_reported(server, documents):
    args = arguments(documents, f"--port={server}")
    with pytest.raises(UserError, match=rf"--port={server}: Address already in use"):
        serve.run(args)


def test_a_host_without_a_name_is_refused(documents):
    """Sockets take it for all interfaces."""
    with pytest.raises(UserError, match="--host is empty; give an address"):
        serve.run(arguments(documents, "--host="))


def test_missing_packages_are_named(monkeypatch, documents):
    monkeypatch.delitem(sys.modules, "launch.serving.app")
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(UserError, match=r"pip install '\.\[serve\]'"):
        serve.run(arguments(documents))
