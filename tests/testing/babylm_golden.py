"""Four tiny models with what BabyLM's pipeline scores of an invented mini set.

tests/goldens/babylm/golden.json.gz has their configs and tokenizers, the evaluation
data, and the scores and files of babylm-org/babylm-eval at 45fe2c1 (babylm_2025) and
3d57ddc (babylm_2026), computed in float32. Weights are a formula of their names.
"""

import functools
import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from research.evaluation.babylm.judge import PipelineJudge
from research.evaluation.babylm.tokenizer import Tokenizer
from research.use.inference.open_run import open_run

FILE = Path(__file__).parents[1] / "goldens" / "babylm" / "golden.json.gz"
BACKENDS = {
    "tiny-gpt2": ("causal",),
    "tiny-bert": ("mlm",),
    "tiny-mntp": ("mntp",),
    "tiny-t5": ("enc_dec_mask", "enc_dec_prefix"),
}
CASES = [(model, backend) for model, names in BACKENDS.items() for backend in names]


@functools.cache
def golden() -> dict:
    return json.loads(gzip.decompress(FILE.read_bytes()))


def write_golden(folder: Path) -> Path:
    """Writes models/NAME and evaluation_data; returns the folder."""
    for name, model in golden()["models"].items():
        at = folder / "models" / name
        at.mkdir(parents=True)
        for file, text in model["files"].items():
            (at / file).write_text(text, encoding="utf-8")
        tensors = {
            key: formula(number, shape, key)
            for number, (key, shape) in enumerate(model["parameters"])
        }
        save_file(tensors, at / "model.safetensors")
    for name, text in golden()["data"].items():
        path = folder / "evaluation_data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def formula(number: int, shape: list[int], name: str = "") -> np.ndarray:
    """The float32 values of the tensor of this number in the order of the names."""
    count, prime = int(np.prod(shape)), 2**31 - 1
    index = np.arange(count, dtype=np.int64)
    square = index % prime * index % prime
    bits = 7919 * square % prime + 104729 * index % prime
    u = (bits + (15485863 * (number + 1) + 12345)) % prime / prime - 0.5
    if len(shape) > 1:
        values = 0.6 * u
    else:
        values = 1 + 0.2 * u if name.endswith("weight") else 0.2 * u
    return values.reshape(shape).astype(np.float32)


def make_judge(folder: Path, model: str, backend: str) -> PipelineJudge:
    path = folder / "models" / model
    opened = open_run(f"hf:{path}", any_start=True)
    typed = model == "tiny-gpt2"
    return PipelineJudge(opened, Tokenizer(path), backend, types_are_tokens=typed)


def assert_equal(ours, expected):
    """Equal but for the last digits of numbers."""
    if isinstance(expected, dict):
        assert [*ours] == [*expected] or sorted(ours) == sorted(expected)
        for key in expected:
            assert_equal(ours[key], expected[key])
    elif isinstance(expected, list):
        assert len(ours) == len(expected)
        for pair in zip(ours, expected, strict=True):
            assert_equal(*pair)
    elif isinstance(expected, float):
        assert ours == pytest.approx(expected, rel=1e-4, abs=1e-4, nan_ok=True)
    else:
        assert ours == expected
