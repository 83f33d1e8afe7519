"""latency: a busy server is asked again, and what is lost is counted."""

import http.server
import itertools
import threading

import pytest

from experiments.studies import latency


@pytest.fixture
def answers_with():
    """Starts a server whose answers have these codes in turn; gives its URL."""
    servers = []

    def start(*codes):
        turn = itertools.cycle(codes)

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.send_response(code := next(turn))
                if code == 503:
                    self.send_header("Retry-After", "0.01")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        servers.append(server := http.server.HTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("codes", "answered", "tries"),
    [((200,), True, 1), ((503, 503, 200), True, 3), ((500,), False, 1)],
)
def test_a_busy_server_is_asked_again_and_an_error_is_lost(
    answers_with, codes, answered, tries
):
    reply = latency.ask(answers_with(*codes), "Where does the Elbe end?")
    assert (reply.answered, reply.tries) == (answered, tries)


def test_a_line_has_the_percentiles_of_its_replies():
    replies = [latency.Reply(n / 1000, n != 7, 1 + (n < 3)) for n in range(101)]
    assert latency.line(4, replies, 2.0) == "| 4 | 101 | 100 | 3 | 50 | 95 | 50 |"
