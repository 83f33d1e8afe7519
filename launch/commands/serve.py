"""Answers questions from documents over HTTP: `palimpsest serve --documents=D`.

D is a folder whose .txt and .md files are the documents, or any value of data.corpus:
files, a data set, or embedded, the documentation of Python's standard library. Passages
are retrieved by BM25, and with --encoder=R also by embeddings. --reader=R extracts the
answer from them; without it the answer is the sentence that shares most with the
question. --generator=R continues prompts. R is a run, or hf:DIR, a model in Hugging
Face's layout; a reader is a question_answering model, a generator a causal one.

The page is at http://127.0.0.1:PORT/; programs use POST /answer
{"question": Q, "top_k": K}, and launch/serving/app.py has the other paths. Only this
machine can connect, unless --host names an address of it. All shapes are compiled
before the line with the address is printed. After SIGTERM or Ctrl-C the server answers
pending requests and exits. It needs the packages of the extra serve.
"""

import argparse
import dataclasses
import signal
import socket
import sys
from typing import Any

from launch import cli

BACKLOG = 512


def run(args: argparse.Namespace) -> None:
    from research.contract.errors import missing_package

    try:
        from launch.serving.app import LOOPBACK, make_app
    except ModuleNotFoundError as error:
        raise missing_package("palimpsest serve", "starlette") from error
    from launch.serving.worker import Worker

    listening = listen(args.host, args.port)
    with listening:
        functions, info = make_functions(args)
        worker = Worker(functions)
        app = make_app(worker, info, is_local=url_host(args.host) in LOOPBACK)
        serve_until_asked_to_end(app, listening, info)
        worker.close()
    print("ended", file=sys.stderr)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket.

    Raises:
      UserError: the port is taken; or the address is not one of this machine; or it is
        empty, which for sockets means all addresses.
    """
    from research.contract.errors import UserError, os_reason

    if not host:
        raise UserError(
            "--host is empty; give an address of this machine: 127.0.0.1 accepts only "
            "this machine, 0.0.0.0 all machines in its network"
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        reason = os_reason(error)
        raise UserError(f"--host={host} --port={port}: {reason}") from error


def url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def make_functions(args: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """The worker's functions, with all shapes compiled, and the content of /health."""
    from launch.serving.bodies import MAX_TOP_K
    from research.contract.errors import renamed_keys
    from research.use.inference.bot import Bot
    from research.use.inference.completions import Completer
    from research.use.inference.open_run import open_run
    from research.use.inference.serving import embed_function, embedder, span_function
    from research.use.inference.span_reader import SpanReader
    from research.use.retrieval.documents import read_documents
    from research.use.retrieval.passages import cut_document
    from research.use.retrieval.search import make_index

    with renamed_keys({"data.corpus": "--documents"}):
        documents = read_documents(args.documents)
    functions: dict[str, Any] = {}
    encode, encode_one, reader = None, None, None
    if args.encoder:
        model = open_run(args.encoder)
        encode, encode_one = embedder(model, _report)
        functions["embed"] = embed_function(model, encode_one)
    if args.reader:
        reader = SpanReader(open_run(args.reader))
        _report("reader: compiling all shapes")
        reader.warm_up()
        functions["read"] = span_function(reader)
    if args.generator:
        completer = Completer(open_run(args.generator), args.method)
        _report("generator: compiling all shapes")
        completer.warm_up()
        functions["complete"] = completer.complete
    passages = [p for name, text in documents for p in cut_document(name, text)]
    if encode:
        _report(f"encoder: encoding {len(passages)} passages")
    index = make_index(passages, encode)
    if encode_one:
        index = dataclasses.replace(index, encode=encode_one)
    bot = Bot(index, reader, args.threshold)
    functions["answer"] = lambda questions: bot.ask(questions, top_k=MAX_TOP_K)
    models = {name: getattr(args, name) for name in ("reader", "encoder", "generator")}
    info = {"documents": len(documents), "passages": len(passages), "models": models}
    return functions, info


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def serve_until_asked_to_end(
    app: Any, listening: socket.socket, info: dict[str, Any]
) -> None:
    """Serves until SIGTERM or Ctrl-C, then answers the pending requests."""
    import uvicorn

    from launch.serving.draining import DrainingServer

    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=1,
    )
    server = DrainingServer(config)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, server.handle_exit)
    host, port = listening.getsockname()[:2]
    print(
        f"http://{url_host(host)}:{port}/ answers from {info['documents']} documents, "
        f"{info['passages']} passages",
        file=sys.stderr,
        flush=True,
    )
    server.run(sockets=[listening])


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__, overrides=False)
    parser.add_path(
        "--documents",
        required=True,
        help="folder of .txt and .md, or a corpus",
    )
    parser.add_path(
        "--reader", default="", models=True, help="run, or hf:DIR, that finds answers"
    )
    parser.add_path(
        "--encoder", default="", models=True, help="run, or hf:DIR, for embeddings"
    )
    parser.add_path(
        "--generator",
        default="",
        models=True,
        help="run, or hf:DIR, that continues prompts",
    )
    parser.add_argument(
        "--method",
        default="",
        help="sampler of --generator, e.g. confidence for a masked model",
    )
    parser.add_argument(
        "--threshold",
        type=cli.fraction,
        default=0.05,
        help="minimum score of an answer, 0 to 1",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument(
        "--port", type=cli.whole(0, 65535), default=8080, help="0: any free port"
    )
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
