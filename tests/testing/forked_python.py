"""A `python` for shell commands without the seconds of imports: it is a fork of one
process that has made them.

    python tests/testing/forked_python.py FOLDER MODULE ...

imports the modules and serves FOLDER/python, a program that takes what python takes
of `-m MODULE ...`, `-c CODE ...`, `- ...` and `FILE ...`, until the process is ended.
What a fork starts by `sys.executable` is a fork, too.
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
import traceback
from pathlib import Path
from typing import NoReturn

CLIENT = """#!{python} -ISE
import array, json, os, signal, socket, sys
peer = socket.socket(socket.AF_UNIX)
peer.connect({address!r})
request = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
fds = array.array("i", [0, 1, 2]).tobytes()
rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)]
peer.sendmsg([len(request).to_bytes(4, "big")], rights)
peer.sendall(request)
process = int.from_bytes(peer.recv(4, socket.MSG_WAITALL), "big")
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, _: os.kill(process, number))
code = peer.recv(1)
os._exit(code[0] if code else 1)
"""
"""FOLDER/python: gives its arguments, folder, environment and streams to the server,
passes signals on to the fork, and exits with its exit code."""


def main() -> NoReturn:
    folder = Path(sys.argv[1])
    sys.path[0] = os.getcwd()
    for module in sys.argv[2:]:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # forks need not look at what is imported
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(folder / "socket"))
    server.listen(64)
    client = folder / "python"
    text = CLIENT.format(python=sys.executable, address=str(folder / "socket"))
    client.write_text(text)
    client.chmod(0o755)
    sys.executable = str(client)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks here
    print("ready", flush=True)
    while True:
        peer, _ = server.accept()
        if os.fork() == 0:
            server.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _answer(peer)
        peer.close()


def _answer(peer: socket.socket) -> NoReturn:
    """Starts the program that a client asks for, and gives it the exit code."""
    size, streams, _, _ = socket.recv_fds(peer, 4, 3)
    request = peer.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
    arguments, folder, environment = json.loads(request)
    program = os.fork()
    if program == 0:
        peer.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.chdir(folder)
        sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
        sys.stderr = os.fdopen(2, "w", buffering=1)
        os.environ.clear()
        os.environ.update(environment)
        _run(*arguments)
    for stream in streams:
        os.close(stream)
    peer.sendall(program.to_bytes(4, "big"))
    ended = os.pidfd_open(program)
    if ended not in select.select([peer, ended], [], [])[0]:
        os.kill(program, signal.SIGKILL)  # the client is gone
    _, status, usage = os.wait4(program, 0)
    seconds = usage.ru_utime + usage.ru_stime
    print(f"{seconds:6.1f} s of a core:", *arguments, file=sys.stderr, flush=True)
    code = os.waitstatus_to_exitcode(status)
    peer.sendall(bytes([code if code >= 0 else 128 - code]))
    os._exit(0)


def _run(*arguments: str) -> NoReturn:
    """What python does with its arguments; ends as it ends, without taking the modules
    apart, which takes most of a second."""
    try:
        _execute(*arguments)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def _execute(first: str, *rest: str) -> None:
    if first == "-m":
        sys.argv = list(rest)
        sys.path[0] = os.getcwd()
        sys.modules.pop(rest[0], None)  # runpy warns of one that was imported
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first in ("-", "-c"):
        code, *rest = [sys.stdin.read(), *rest] if first == "-" else rest
        sys.argv = [first, *rest]
        sys.path[0] = os.getcwd()
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = [first, *rest]
        sys.path[0] = str(Path(first).resolve().parent)
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    main()
