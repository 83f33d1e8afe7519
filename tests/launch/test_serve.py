"""The server answers every request, by its own question, or says why not."""

import http.client
import json
import os
import re
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from launch import serve
from launch.serving import http as serving
from launch.serving.worker import QUEUE, Worker

JSON = {"Content-Type": "application/json"}


def ask(server, path, body=None, *, headers=JSON, method="POST"):
    """Status, headers and content of a response."""
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=20)
    body = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    data = response.read()
    if "json" in response.headers["Content-Type"]:
        data = json.loads(data)
    return response.status, response.headers, data


def run(server):
    threading.Thread(target=server.serve_forever, daemon=True).start()


def make_server(functions):
    facts = {"documents": 1, "passages": 1, "models": {"reader": "r", "encoder": ""}}
    worker = Worker(functions)
    return serving.Server(("127.0.0.1", 0), worker, frozenset(functions), facts)


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
    """Of documents without a reader."""
    from research.retrieval.documents import read_documents

    args = arguments(documents)
    functions, facts = serve.make_functions(read_documents(args.documents), args)
    worker = Worker(functions)
    made = serving.Server((args.host, 0), worker, frozenset(functions), facts)
    run(made)
    yield made
    made.shutdown()
    made.server_close()
    worker.close()


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
    assert status == 200 and reply["kind"] == "sentence"
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
        (404, "/nothing", QUESTION, "there is no /nothing"),
        (405, "/health", QUESTION, "takes another method"),
        (400, "/answer", b"{", "not JSON"),
        (400, "/answer", b"[" * 50_000, "not JSON"),
        (422, "/answer", [], "a JSON object"),
        (413, "/answer", {"question": "a" * 2**16}, "at most 65536 bytes"),
        (422, "/answer", {"question": "a" * 1001}, "at most 1000 characters"),
        (422, "/answer", {"question": " "}, "not blank"),
        (422, "/answer", {"question": 5}, "question is a text"),
        (422, "/answer", QUESTION | {"top_k": 51}, "from 1 to 50"),
        (422, "/answer", QUESTION | {"top_k": True}, "from 1 to 50"),
        (422, "/question-answering", {"inputs": QUESTION}, "context is a text"),
        (501, "/question-answering", {"inputs": QUESTION | {"context": "c"}}, "reader"),
        (501, "/v1/embeddings", {"input": "a"}, "no encoder; start it with --encoder"),
        (422, "/v1/embeddings", {"input": []}, "a list of 1 to 16"),
    ],
)
def test_a_wrong_request_gets_its_status(server, status, path, body, words):
    got, _, content = ask(server, path, body)
    assert got == status and words in content["error"]["message"]
    assert content["error"]["type"] == "invalid_request_error"


def test_a_form_of_another_site_is_refused(server):
    """A browser sends text/plain there without asking the server first."""
    for host in ("evil.example", "evil.example:80", ""):
        assert ask(server, "/health", headers={"Host": host}, method="GET")[0] == 403
    assert ask(server, "/", headers={"Host": "localhost:1"}, method="GET")[0] == 200
    headers = {"Content-Type": "text/plain"}
    assert ask(server, "/answer", QUESTION, headers=headers)[0] == 415
    assert ask(server, "/answer", b"", headers=JSON | {"Content-Length": "x"})[0] == 411


def test_the_page_loads_nothing_and_finds_its_elements(server):
    status, headers, page = ask(server, "/", method="GET")
    page = page.decode()
    assert status == 200 and headers["Content-Type"].startswith("text/html")
    assert not re.search(r"https?:|src=|@import|innerHTML", page)
    used, there = (re.findall(p, page) for p in (r'byId\("(\w+)"\)', r'id="(\w+)"'))
    assert used and {*used} <= {*there}
    status, _, health = ask(server, "/health", method="GET")
    assert status == 200 and health["status"] == "ok" and health["documents"] == 2
    metrics = ask(server, "/metrics", method="GET")[2].decode()
    assert 'palimpsest_requests_total{path="/",status="200"}' in metrics
    assert ask(server, "/v1/models", method="GET")[2]["object"] == "list"


def test_of_200_requests_at_once_each_gets_its_own_answer():
    sizes = []

    def embed(lists):
        sizes.append(len(lists))
        return [[texts] for texts in lists]

    server = make_server({"embed": embed})
    run(server)

    def until_answered(number):
        while True:
            status, headers, content = ask(
                server, "/v1/embeddings", {"input": f"{number}"}
            )
            if status != 503:
                return status, content["data"][0]["embedding"]
            assert headers["Retry-After"] == "1"

    with ThreadPoolExecutor(200) as pool:
        found = list(pool.map(until_answered, range(200)))
    assert found == [(200, [f"{number}"]) for number in range(200)]
    assert 1 < max(sizes) <= 16
    server.shutdown()


def test_a_full_queue_a_slow_answer_and_a_bug_are_told(monkeypatch, capsys):
    go, started = threading.Event(), threading.Event()

    def read(asked):
        if asked[0].context == "bug":
            raise ZeroDivisionError("of a test")
        started.set()
        go.wait(20)
        return [[] for _ in asked]

    monkeypatch.setattr(serving, "TIMEOUT_S", 0.3)
    server = make_server({"read": read})
    run(server)

    def status(context="c"):
        body = {"inputs": QUESTION | {"context": context}}
        return ask(server, "/question-answering", body)[0]

    assert status("bug") == 500
    assert "ZeroDivisionError: of a test" in capsys.readouterr().err
    with ThreadPoolExecutor(QUEUE + 1) as pool:
        first = pool.submit(status)
        assert started.wait(20)
        others = [pool.submit(status) for _ in range(QUEUE)]
        assert {first.result(), *(each.result() for each in others)} == {504}
    assert status() == 503  # those that were given up still wait
    go.set()
    server.shutdown()


def test_a_server_that_is_asked_to_end_answers_first(monkeypatch, capsys):
    handlers = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)}

    def answer(lists):
        os.kill(os.getpid(), signal.SIGTERM)
        ended.wait(0.2)
        return [[["late"]] for _ in lists]

    def send_slowly(handler, *args):
        ended.wait(0.5)
        send(handler, *args)
        sent.append(args)

    ended, found, sent = threading.Event(), [], []
    send = serving._Handler._send
    monkeypatch.setattr(serving._Handler, "_send", send_slowly)
    server = make_server({"embed": answer})

    def client():
        found.append(ask(server, "/v1/embeddings", {"input": "a"}))

    thread = threading.Thread(target=client)
    thread.start()
    try:
        serve.serve_until_asked_to_end(server, server.worker)
        assert sent
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    thread.join(20)
    assert found[0][0] == 200 and found[0][2]["data"][0]["embedding"] == ["late"]
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith("answers from 1 documents, 1 passages")
    assert lines[-1] == "ended"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [("a.txt", b"\xff", "a.txt is not text in UTF-8"), ("a.txt", b" ", "has no text")],
)
def test_documents_that_cannot_be_read_are_told(tmp_path, name, content, words):
    from research.errors import UserError
    from research.retrieval.documents import read_documents

    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=words):
        read_documents(str(tmp_path))


def test_a_port_that_is_taken_is_told(server, documents):
    from research.errors import UserError

    port = server.server_address[1]
    args = arguments(documents, f"--port={port}")
    with pytest.raises(UserError, match=rf"--port={port}: Address already in use"):
        serve.run(args)
