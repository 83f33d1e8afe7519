"""One run: `python -m launch.train --config=F --workdir=D [--config.key=value]`.

It starts again where it stopped. On several machines the same command is started on
each: under Slurm, Open MPI, Cloud TPU, GKE and other Kubernetes (indexed jobs, with the
package kubernetes) the processes find each other; elsewhere, and before the other ways,
--coordinator=HOST:PORT --num_processes=N --process_id=I say where process 0 listens
(--num_processes=1: alone, whatever the environment shows).

Exit codes: 0 done; 1 a bug; 2 something given was wrong, or the disk is full; 3 the
loss is not a number; 75 the same command is to be started again (it was asked to stop
by SIGTERM, or lost another process); 130 Ctrl-C. All processes of a run end with the
code of the first that ended, within seconds.
"""

import logging
import os
import sys
import traceback
from typing import Any, NoReturn

from launch import cli
from launch.cli import Parser, main
from launch.config import load


def run(args) -> int:
    config = load(args.config, args.overrides)
    import jax  # only now: a wrong key is told at once

    from research.data import cache
    from research.distributed import processes
    from research.train import train

    place = processes.find_cluster(
        args.coordinator, args.num_processes, args.process_id
    )
    jax.config.update(
        "jax_compilation_cache_dir", str(cache.root(config.data.cache_dir) / "xla")
    )
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    hush()
    peers = processes.join_cluster(
        place, timeout_s=args.wait, lost_exit_code=cli.PREEMPTED
    )
    try:
        with peers.handle_sigterm():
            result = train(config, args.workdir, peers=peers)
        peers.leave()
    except BaseException as error:
        if peers.num_processes == 1:
            raise
        give_up(error, peers)
    if peers.index == 0:
        for name, value in result["metrics"].items():
            print(f"{name} {value:.6g}")
    if peers.num_processes > 1:
        end(cli.DONE)
    return cli.DONE


def hush() -> None:
    """Where a disk is full, Orbax's threads tell at length what it then raises."""

    def hook(what: Any) -> None:
        if str(what.exc_value) != "Event loop is closed":
            sys.__unraisablehook__(what)

    sys.unraisablehook = hook
    for name in ("absl", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def give_up(error: BaseException, peers) -> NoReturn:
    """Ends one process of several: the others hear why, and wait for nothing more."""
    code, line = cli.verdict(error) or (cli.FAILED, repr(error))
    if code == cli.PREEMPTED:
        peers.leave()  # all of them have saved the same step
    else:
        peers.announce_failure(code, line, await_cause=code == cli.FAILED)
    if code == cli.FAILED:
        traceback.print_exception(error)
    elif code != cli.PREEMPTED or peers.index == 0:
        cli.say(code, line)
    end(code)


def end(code: int) -> NoReturn:
    """Without JAX's own goodbye, which waits for one that is killed meanwhile."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def parser() -> Parser:
    parser = Parser(__doc__)
    parser.add_argument("--config", required=True, help="experiments/X.py[:size]")
    parser.add_argument("--workdir", required=True, help="the run's folder")
    parser.add_argument("--coordinator", help="HOST:PORT of process 0")
    parser.add_argument("--num_processes", type=int, help="of the run")
    parser.add_argument("--process_id", type=int, help="of this one, from 0")
    parser.add_argument(
        "--wait", type=int, default=300, help="seconds for all processes to come"
    )
    return parser


if __name__ == "__main__":
    main(run, parser())
