"""How long a server of answers takes, by the number of clients, as a Markdown table.

    palimpsest serve --documents=folder --port=8000 &
    python -m experiments.studies.latency \\
        --url=http://127.0.0.1:8000 --questions=xquad.en.json

Each client asks the next question of the file (SQuAD's JSON, or a question a line) when
it has the answer to the one before. The last line asks --burst questions at once, each
on a connection of its own. A request that ends with another code than 200 is lost,
after it was tried again as often as `Retry-After` says, up to a minute.
"""

import argparse
import concurrent.futures
import itertools
import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.studies.answers import read_questions
from launch import cli
from research.contract.errors import UserError

PATIENCE_S = 60.0


class Reply(NamedTuple):
    """The seconds until a request has ended, and whether it was answered."""

    seconds: float
    answered: bool
    tries: int


def ask(url: str, question: str) -> Reply:
    """Sends one question, again while the server is busy."""
    body = json.dumps({"question": question, "top_k": 1}).encode()
    headers = {"Content-Type": "application/json"}
    began = time.perf_counter()
    for tries in itertools.count(1):
        request = urllib.request.Request(f"{url}/answer", body, headers)
        wait = 0.0
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
                reply.read()
                return Reply(time.perf_counter() - began, True, tries)
        except urllib.error.HTTPError as error:
            wait = float(error.headers.get("Retry-After", 0))
        except OSError:
            pass
        spent = time.perf_counter() - began
        if not wait or spent + wait > PATIENCE_S:
            return Reply(spent, False, tries)
        time.sleep(wait)


def measure(
    url: str, questions: Iterator[str], clients: int, count: int
) -> list[Reply]:
    """The replies to `count` questions of so many clients."""
    asked = list(itertools.islice(questions, count))
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        return list(pool.map(lambda question: ask(url, question), asked))


def run(args: argparse.Namespace) -> None:
    try:
        with urllib.request.urlopen(f"{args.url}/health", timeout=5) as reply:
            reply.read()
    except OSError as error:
        raise UserError(
            f"--url={args.url}: no server answers there ({error})"
        ) from error
    questions = itertools.cycle(_questions(args.questions))
    measure(args.url, questions, 1, 5)
    print("| clients | asked | answered | tried again | p50, ms | p95, ms | a second |")
    print("|--:|--:|--:|--:|--:|--:|--:|")
    for clients, count in (
        *((n, args.count) for n in args.clients),
        (args.burst, args.burst),
    ):
        began = time.perf_counter()
        replies = measure(args.url, questions, clients, count)
        print(line(clients, replies, time.perf_counter() - began), flush=True)


def line(clients: int, replies: Sequence[Reply], seconds: float) -> str:
    half, most = np.percentile([1000 * reply.seconds for reply in replies], [50, 95])
    answered = sum(reply.answered for reply in replies)
    again = sum(reply.tries > 1 for reply in replies)
    words = (clients, len(replies), answered, again, f"{half:.0f}", f"{most:.0f}")
    return f"| {' | '.join(map(str, words))} | {answered / seconds:.0f} |"


def _questions(file: str) -> list[str]:
    if file.endswith(".json"):
        return [each["question"] for each in read_questions(file)[1]]
    lines = Path(file).read_text("utf-8").splitlines()
    if not (found := [each for each in lines if each.strip()]):
        raise UserError(f"--questions={file} has no question")
    return found


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__, overrides=False)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--questions", required=True, help="SQuAD's JSON, or lines")
    parser.add_argument("--clients", type=cli.whole(1), nargs="+", default=[1, 16])
    parser.add_argument("--count", type=cli.whole(1), default=200, help="of questions")
    parser.add_argument("--burst", type=cli.whole(1), default=200, help="at once")
    return parser


if __name__ == "__main__":
    sys.exit(cli.main(run, parser()))
