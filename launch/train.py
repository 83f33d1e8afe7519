"""Trains: `palimpsest train --config=F --workdir=D [--config.key=value]`.

The same command resumes from the newest checkpoint of the workdir. A run of several
processes is started by the same command on each machine. Under Slurm, Open MPI, Cloud
TPU, GKE and other Kubernetes (indexed jobs, with the package kubernetes) the processes
find each other. Elsewhere give --coordinator=HOST:PORT --num_processes=N
--process_id=I, where process 0 listens on HOST:PORT; these flags take precedence over
the environment, and --num_processes=1 always means a single process.

Exit codes: 0 done; 1 a bug; 2 a user error or a full disk; 3 the loss is not finite;
75 restart with the same command (after SIGTERM, or if another process was lost); 130
Ctrl-C. All processes of a run exit within ten seconds, with the code of the first one.
"""

import argparse
import os
import sys
import traceback
from typing import NoReturn

from launch import cli, signals
from launch.cli import Parser, main, whole
from launch.config import load_config


def run(args: argparse.Namespace) -> int:
    config = load_config(args.config, args.overrides, workdir=args.workdir)
    # After the config: a wrong key is reported without waiting for imports.
    from launch.run_summary import print_summary
    from research.distributed import processes
    from research.distributed.peers import Peers
    from research.program.setup import use_compilation_cache
    from research.train import train

    cluster = processes.find_cluster(
        args.coordinator, args.num_processes, args.process_id
    )
    use_compilation_cache(config.data.cache_dir)
    peers = Peers(lost_exit_code=cli.PREEMPTED)
    if cluster:
        from research.distributed.cluster import join_cluster

        with peers.handle_sigterm():  # only this process, until it is connected
            peers = join_cluster(
                cluster, timeout_s=args.wait, lost_exit_code=cli.PREEMPTED
            )
    try:
        signals.raise_interrupts()
        with peers.handle_sigterm():
            result = train(config, args.workdir, peers=peers)
        peers.leave()
    except BaseException as error:
        if peers.num_processes == 1:
            raise
        exit_with_error(error, peers)
    if peers.index == 0:
        for name, value in result["metrics"].items():
            print(f"{name} {value:.6g}", flush=True)
        print_summary(args.workdir, result, config)
    if peers.num_processes > 1:
        exit_now(cli.DONE)
    return cli.DONE


def exit_with_error(error: BaseException, peers) -> NoReturn:
    """Reports the error to the other processes and exits this one."""
    code, message = cli.exit_code_for(error) or (cli.FAILED, repr(error))
    if code == cli.PREEMPTED:
        peers.leave()  # all processes have saved the same step
    else:
        peers.announce_failure(code, message, await_cause=code == cli.FAILED)
    if code == cli.FAILED:
        traceback.print_exception(error)
    elif code != cli.PREEMPTED or peers.index == 0:
        cli.print_exit(code, message)
    exit_now(code)


def exit_now(code: int) -> NoReturn:
    """Exits immediately, without waiting for other threads.

    JAX's shutdown would wait for a process that was killed, and Python's for an Orbax
    thread that waits for a checkpoint that could not be written.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def parser() -> Parser:
    parser = Parser(__doc__)
    parser.add_path("--config", required=True, help="experiments/X.py[:size]")
    parser.add_path("--workdir", required=True, help="folder of the run")
    parser.add_argument("--coordinator", help="HOST:PORT of process 0")
    parser.add_argument("--num_processes", type=whole(1), help="number of processes")
    parser.add_argument("--process_id", type=whole(0), help="of this process, from 0")
    parser.add_argument(
        "--wait", type=whole(1), default=300, help="seconds to wait for all processes"
    )
    return parser


if __name__ == "__main__":
    main(run, parser(), resumes=True, leave=exit_now)
