"""A training step of CLIP beside open_clip's, on one thread of a CPU, in turns.

    python -m experiments.studies.clip_speed --python=other/bin/python

The Python is one that has torch and open_clip. Both have the same towers, batch and
AdamW with clipping, and random pictures and captions of full length; each turn is some
steps of one of them, in a process of its own that waits while the other works. Rates
are pairs by CPU second of the process; the ratio is the median of the turns'.
"""

import argparse
import json
import os
import subprocess
import sys

import numpy as np

from launch import cli
from launch.measure.processor import processor_name
from research.contract.errors import UserError

SIZES = {
    "layers": 3,
    "width": 128,
    "heads": 4,
    "side": 72,
    "patch": 12,
    "length": 32,
    "vocabulary": 4096,
    "batch": 64,
    "steps": 3,
}

LOOP = """
print("ready", flush=True)
for _ in sys.stdin:
    began = time.process_time()
    for _ in range(size["steps"]):
        loss = step()
    print(json.dumps([time.process_time() - began, loss]), flush=True)
"""

OURS = """
import json, sys, tempfile, time
import jax, numpy as np
from launch.config import load_config
from launch.measure.placeholder_vocab import placeholder_vocab
from launch.measure.random_batch import random_batch
from research.data.store import pictures
from research.distributed import sharding
from research.program.compiled_phases import compile_step
from research.program.setup import build_program, initial_state
size = json.loads(sys.argv[1])
side = size["side"]
pixels = np.random.default_rng(0).integers(0, 256, (256, side, side, 3), np.uint8)
boxes, classes = np.zeros((256, 0, 4), np.float32), np.zeros((256, 0), np.int32)
store = pictures.Store(pixels, boxes, classes, (), 256)
pictures.open_store = lambda _: store
model = {name: size[name] for name in ("layers", "width", "heads")}
keys = {f"model.{name}": value for name, value in model.items()}
keys |= {"model.feedforward": 4 * size["width"], "objective.width": size["width"]}
keys |= {"objective.patch": size["patch"], "objective.images": "random"}
keys |= {"data.length": size["length"], "train.batch": size["batch"]}
keys |= {"data.vocabulary_size": size["vocabulary"], "optimizer.clip_norm": 1}
keys |= {"mesh.data": 1}
texts = {name: str(value) for name, value in keys.items()}
config = load_config("experiments/clip.py:tiny", texts)
vocab = placeholder_vocab(config)
program = build_program(config, jax.devices()[:1], vocab=vocab)
compiled, _ = compile_step(program)
batch = random_batch(program.objective, vocab, size["batch"], size["length"])
batch = sharding.to_devices(batch, program.abstract_batch) | program.constants.zeros
held = [initial_state(program, 0)]
def step():
    with sharding.context(program.mesh):
        held[0] = compiled(held[0], batch)
    jax.block_until_ready(held[0])
    return 0.0
step()
"""

THEIRS = """
import json, sys, time
import torch
from open_clip.loss import ClipLoss
from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg
size = json.loads(sys.argv[1])
torch.set_num_threads(1)
own = {"layers": size["layers"], "width": size["width"]}
model = CLIP(
    size["width"],
    CLIPVisionCfg(**own, head_width=size["width"] // size["heads"],
                  patch_size=size["patch"], image_size=size["side"]),
    CLIPTextCfg(**own, heads=size["heads"], context_length=size["length"],
                vocab_size=size["vocabulary"]),
    quick_gelu=True,
)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, betas=(0.9, 0.98),
                              eps=1e-6, weight_decay=0.2)
image = torch.randn(size["batch"], 3, size["side"], size["side"])
text = torch.randint(5, size["vocabulary"], (size["batch"], size["length"]))
criterion = ClipLoss()
def step():
    optimizer.zero_grad()
    loss = criterion(*model(image, text))
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()
step()
"""


class Worker:
    """A process that takes some steps for each `turn`."""

    def __init__(self, python: str, code: str):
        one = {"OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
        flags = "--xla_cpu_multi_thread_eigen=false --xla_force_host_platform_device_"
        one["XLA_FLAGS"] = f"{flags}count=1"
        self.process = subprocess.Popen(
            [python, "-c", code + LOOP, json.dumps(SIZES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | one,
        )
        self.read()

    def read(self) -> str:
        """Raises UserError: the process ended."""
        if line := self.process.stdout.readline():
            return line
        raise UserError(f"{self.process.args[0]} ended; its error is above")

    def turn(self) -> float:
        """CPU seconds of the steps."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.read())[0]


def run(args: argparse.Namespace) -> None:
    workers = [Worker(sys.executable, OURS), Worker(args.python, THEIRS)]
    seconds = np.array([[w.turn() for w in workers] for _ in range(args.turns)])
    for worker in workers:
        worker.process.communicate()
    pairs = SIZES["batch"] * SIZES["steps"] / np.median(seconds, axis=0)
    ratio = seconds[:, 1] / seconds[:, 0]
    print(f"{processor_name()}, one thread, {args.turns} turns: {SIZES}")
    print(f"pairs a CPU second: {pairs[0]:.0f} here, {pairs[1]:.0f} of open_clip")
    spread = f"[{ratio.min():.2f}, {ratio.max():.2f}]"
    print(f"ratio, median of turns: {np.median(ratio):.2f} {spread}")


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__, overrides=False)
    parser.add_path("--python", required=True, help="that has torch and open_clip")
    parser.add_argument("--turns", type=cli.whole(1), default=5, help="of each")
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
