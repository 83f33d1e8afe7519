"""Counts the files and lines between reading a config and the first update.

    python -m tests.proofs.config_to_gradient --experiment=mlm

A file of research/, launch/ or experiments/ counts, with all its lines, if a function
of it runs in any thread of `launch.train`. What only an import of the file runs does
not count there; all files that the whole run imports are counted beside them. A file is
on the way to the gradient if, besides, a function of it waits for the objective's
`corrupt` or `loss`, or if it is of experiments/ or launch/config.py: a reader opens
these who follows the config to the batch and to `jax.grad`. The text is tokenised anew
unless --cache_dir names the cache of an earlier run.
"""

import argparse
import inspect
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType

import launch
from launch import train

ROOT = Path(launch.__file__).parents[1]
FOLDERS = tuple(f"{ROOT / name}/" for name in ("research", "launch", "experiments"))
OBJECTIVES = f"{ROOT}/research/objectives/"
KEYS = "data.length=32 data.vocabulary=bytebpe data.vocabulary_size=512 model.layers=2 "
KEYS += "train.steps=2 train.batch=8 train.eval_every=0 train.checkpoint_every=0 "
KEYS += "optimizer.warmup_steps=1"


class Recorder:
    """A profile function that records the files of functions that are called.

    It stops when the first call of the compiled train step returns.
    """

    def __init__(self):
        self.names: set[str] = set()
        self.on_the_way: set[str] = set()
        self.stopped = False

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if self.stopped:
            return
        is_call = event == "call" and code.co_flags & inspect.CO_OPTIMIZED  # a function
        caller = frame.f_back.f_code.co_name if frame.f_back else ""
        if is_call and caller != "<module>":
            self.names.add(code.co_filename)
            is_objective = code.co_filename.startswith(OBJECTIVES)
            if is_objective and code.co_name in ("corrupt", "loss"):
                self.on_the_way |= _files_of_stack(frame)
        if event == "return" and code.co_qualname == "Compiled.__call__":
            self.stopped = True


def _files_of_stack(frame: FrameType | None) -> set[str]:
    """The files of a frame and of those that wait for it."""
    files = set()
    while frame:
        files.add(frame.f_code.co_filename)
        frame = frame.f_back
    return files


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.config_to_gradient")
    parser.add_argument("--experiment", default="mlm", help="a file of experiments/")
    parser.add_argument("--cache_dir", help="reuse this cache of tokenised text")
    args = parser.parse_args()
    recorder = Recorder()
    with tempfile.TemporaryDirectory() as folder:
        keys = [*KEYS.split(), f"data.cache_dir={args.cache_dir or f'{folder}/cache'}"]
        flags = [f"--config={ROOT / 'experiments' / args.experiment}.py"]
        flags += [f"--workdir={folder}/run", *(f"--config.{key}" for key in keys)]
        train_args = train.parser().parse_args(flags)
        threading.setprofile(recorder)
        sys.setprofile(recorder)
        train.run(train_args)
        sys.setprofile(None)
        threading.setprofile(None)
    assert recorder.stopped, "the compiled step was not called"
    is_read = (f"{ROOT}/experiments/", f"{ROOT}/launch/config.py")
    read = {name for name in recorder.names if name.startswith(is_read)}
    way = (recorder.on_the_way | read) & recorder.names
    modules = [getattr(module, "__file__", None) for module in sys.modules.values()]
    imported = recorder.names | {name for name in modules if name}
    for title, names in (
        (" imported or run", imported),
        ("", recorder.names),
        (" on the way to the gradient", way),
    ):
        files = sorted(name for name in names if name.startswith(FOLDERS))
        num_lines = [Path(name).read_text().count("\n") for name in files]
        for name, count in zip(files, num_lines, strict=True):
            print(f"{count:5}  {Path(name).relative_to(ROOT)}")
        print(f"{len(files)} files, {sum(num_lines):,} lines{title}")


if __name__ == "__main__":
    main()
