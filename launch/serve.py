"""Answers questions from documents over HTTP: `python -m launch.serve --documents=D`.

D is a folder whose .txt and .md files are the documents, or what data.corpus may name:
files, tfds:NAME, or embedded, the documentation of Python's standard library. Passages
are found by BM25; with --encoder=R by vectors, too. --reader=R reads the answer off
them; without it the answer is the sentence that has most of the question. R is a run,
or hf:DIR, a model in Hugging Face's layout; a reader is one of question_answering.

The page is at http://127.0.0.1:PORT/, answers to programs at POST /answer
{"question": Q, "top_k": K}; launch/serving/http.py has the other paths. Only this
machine can ask, unless --host names an address of it. All shapes are compiled before
the first line is printed. SIGTERM and Ctrl-C end the server when it has answered what
it was asked.
"""

import argparse
import dataclasses
import signal
import sys
import threading
from typing import Any

from launch import cli


def run(args: argparse.Namespace) -> None:
    from research.errors import UserError
    from research.retrieval.documents import read_documents

    documents = read_documents(args.documents)

    from launch.serving.http import Server
    from launch.serving.worker import Worker

    functions, facts = make_functions(documents, args)
    worker = Worker(functions)
    try:
        server = Server((args.host, args.port), worker, frozenset(functions), facts)
    except OSError as error:
        worker.close()
        raise UserError(
            f"--host={args.host} --port={args.port}: {error.strerror}"
        ) from error
    serve_until_asked_to_end(server, worker)


def make_functions(
    documents: list[tuple[str, str]], args: argparse.Namespace
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the worker can do, with all shapes compiled, and what /health says."""
    from research.inference.bot import Bot
    from research.inference.open_run import open_run
    from research.inference.serving import embedder, span_function
    from research.inference.span_reader import SpanReader
    from research.retrieval.passages import cut_document
    from research.retrieval.search import make_index

    encode, encode_one, reader = None, None, None
    if args.encoder:
        encode, encode_one = embedder(open_run(args.encoder))
    if args.reader:
        reader = SpanReader(open_run(args.reader))
        reader.warm_up()
    passages = [p for name, text in documents for p in cut_document(name, text)]
    index = make_index(passages, encode)
    if encode_one:
        index = dataclasses.replace(index, encode=encode_one)
    bot = Bot(index, reader, args.threshold)

    from launch.serving.http import MAX_TOP_K

    functions: dict[str, Any] = {
        "answer": lambda questions: bot.ask(questions, top_k=MAX_TOP_K)
    }
    if reader:
        functions["read"] = span_function(reader)
    if encode_one:
        functions["embed"] = lambda lists: [encode_one(t).tolist() for t in lists]
    facts = {
        "documents": len(documents),
        "passages": len(passages),
        "models": {"reader": args.reader, "encoder": args.encoder},
    }
    return functions, facts


def serve_until_asked_to_end(server: Any, worker: Any) -> None:
    """Serves until SIGTERM or Ctrl-C, then answers what was asked before."""
    asked = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: asked.set())
    poll = {"poll_interval": 0.05}  # how soon it hears that it ends, in seconds
    thread = threading.Thread(target=server.serve_forever, kwargs=poll, daemon=True)
    thread.start()
    host, port = server.server_address[:2]
    facts = server.facts
    print(
        f"http://{host}:{port}/ answers from {facts['documents']} documents, "
        f"{facts['passages']} passages",
        file=sys.stderr,
        flush=True,
    )
    asked.wait()
    server.shutdown()
    server.server_close()
    worker.close()
    print("ended", file=sys.stderr)


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__, overrides=False)
    parser.add_argument(
        "--documents", required=True, help="folder of .txt and .md, or a corpus"
    )
    parser.add_argument("--reader", default="", help="run, or hf:DIR, that reads spans")
    parser.add_argument("--encoder", default="", help="run, or hf:DIR, for vectors")
    parser.add_argument(
        "--threshold",
        type=_fraction,
        default=0.05,
        help="least score of an answer, 0 to 1",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at")
    parser.add_argument(
        "--port", type=cli.whole(0, 65535), default=8080, help="0: any that is free"
    )
    return parser


def _fraction(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"it is a number from 0 to 1, not {text}")
    return value


if __name__ == "__main__":
    cli.main(run, parser())
