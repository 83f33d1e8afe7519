"""Two writers of a workdir, and a checkpoint folder that can no longer be written.

    python -m tests.proofs.lost_folders --workdir=runs/lost --times=20

Each time a second run of a workdir must be refused with exit code 2 and a line that
names the first; then the checkpoint folder becomes read-only, and the first must end
with exit code 2 within 10 seconds. Prints the seconds of both, median and worst.
"""

import statistics
import time
from pathlib import Path

from launch import cli
from launch.cli import Parser, main
from research.checkpoints.checkpoint import FOLDER
from research.contract.errors import UserError
from research.distributed.file_lock import is_locked
from research.record.workdir import LOCK_FILE
from tests.proofs import permissions
from tests.proofs.fault_injection import SMALL
from tests.proofs.run_process import ProcessGroup, Run

END_TIMEOUT_S = 10.0
"""Within which a run whose checkpoints cannot be written has to end."""


def refuse_second(run: Run) -> float:
    """Seconds until a second run of the same workdir is refused.

    Raises:
      UserError: it is not refused, or not in words.
    """
    start = time.monotonic()
    log = run.workdir / "log0.txt"
    known = log.read_text()
    codes = run.start().wait()
    seconds, said = time.monotonic() - start, log.read_text()[len(known) :]
    if codes != [cli.MISTAKE] or "another run writes" not in said:
        raise UserError(f"{run.workdir}: the second run ended with {codes}: {said}")
    return seconds


def end_unwritable(group: ProcessGroup) -> float:
    """Seconds until a run whose checkpoint folder becomes read-only ends.

    Raises:
      UserError: it ends late, or with another exit code.
    """
    folder = group.run.workdir / FOLDER
    start = time.monotonic()
    folder.chmod(0o555)
    try:
        codes = group.wait()
    finally:
        folder.chmod(0o755)
    seconds = time.monotonic() - start
    if codes != [cli.MISTAKE] or seconds > END_TIMEOUT_S:
        raise UserError(f"{folder}, read-only: exit codes {codes} in {seconds:.1f} s")
    return seconds


def run(args) -> int:
    """Prints the seconds of both.

    Raises:
      UserError: a run did not end as it should.
    """
    permissions.obey()
    folder = Path(args.workdir).resolve()
    values = SMALL | {"train.steps": 100_000, "data.cache_dir": folder / "cache"}
    flags = [f"--config.{k}={v}" for k, v in (values | args.overrides).items()]
    refused, ended = [], []
    for number in range(args.times):
        one = Run(folder / f"{number}", [f"--config={args.config}", *flags], fork=True)
        group = one.start()
        try:
            group.wait_until(lambda one=one: is_locked(one.workdir / LOCK_FILE))
            refused.append(refuse_second(one))
            if not group.wait_until(one.last_checkpoint):
                raise UserError(f"{one.workdir} has failed; see its log0.txt")
            ended.append(end_unwritable(group))
        finally:
            group.kill()
        print(f"{number + 1} of {args.times}: {refused[-1]:.1f} s, {ended[-1]:.1f} s")
    for name, seconds in (("second writer", refused), ("unwritable folder", ended)):
        median, worst = statistics.median(seconds), max(seconds)
        count = f"{len(seconds)} of {args.times}"
        print(f"{name}: {count}, median {median:.1f} s, worst {worst:.1f} s")
    return cli.DONE


def parser() -> Parser:
    parser = Parser(__doc__)
    parser.add_argument("--workdir", required=True, help="a new folder for the runs")
    parser.add_argument("--config", default="experiments/mlm.py", help="of the runs")
    parser.add_argument("--times", type=int, default=20)
    return parser


if __name__ == "__main__":
    main(run, parser())
