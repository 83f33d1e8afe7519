"""Installs `palimpsest`, `research`, `experiments` and `launch`, with their extras."""

import re
from pathlib import Path

from setuptools import find_namespace_packages, setup

ROOT = Path(__file__).parent


def requirements_of_parts(folder: str) -> dict[str, list[str]]:
    """Name of each part of a folder that states what it `requires` -> that."""
    stated = re.compile(r'^    requires\b.* = "(.+)"$', re.MULTILINE)
    found = {f.stem: stated.findall(f.read_text("utf-8")) for f in ROOT.glob(folder)}
    return {name: packages for name, packages in sorted(found.items()) if packages}


setup(
    name="palimpsest-lm",  # PyPI has another palimpsest
    version="0.2.0",
    description="One train loop, every language-model pretraining objective.",
    long_description=(ROOT / "README.md").read_text("utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_namespace_packages(
        include=["research*", "experiments*", "launch*"],
    ),
    py_modules=["palimpsest"],
    entry_points={"console_scripts": ["palimpsest=palimpsest:main"]},
    package_data={
        "experiments": [
            "claims/*.toml",
            "claims/results/*.json",
            "leaderboard/**/*.json",
            "tables/*.toml",
        ],
        "launch": ["serving/page.html"],
    },
    install_requires=[
        "absl-py>=2.1",
        "etils[epath]>=1.9",
        "flax>=0.12,<0.13",
        "huggingface_hub>=1.0",
        "jax>=0.9,<0.13",
        "matplotlib>=3.8",
        "ml_collections>=1.1",
        "numpy>=2.0",
        "optax>=0.2.6,<0.3",
        "orbax-checkpoint>=0.11,<0.13",
        "packaging>=24",
        "pillow>=10",
        "pyarrow>=16",
        "pyyaml>=6.0",
        "rich>=13",
        "rouge-score>=0.1.2",
        "sacrebleu>=2.4",
        "safetensors>=0.6",
        "scikit-learn>=1.5",
        "scipy>=1.13",
        "sentencepiece>=0.2",
        "seqeval>=1.2",
        "tensorboardX>=2.6",
        "tokenizers>=0.21",
    ],
    extras_require={
        "aot": ["jax[tpu]"],  # the libtpu that this JAX asks for
        "cuda": ["jax[cuda13]"],
        "dev": [
            "codespell>=2.4",
            "hypothesis>=6.100",
            "import-linter>=2.1",
            "mypy>=2.0",
            "pre-commit>=4.0",
            "pytest>=8.0",
            "pytest-xdist>=3.6",
            "ruff>=0.9",
            "trackio>=0.20",
        ],
        "harness": ["lm_eval>=0.4.9"],
        "mteb": ["mteb>=2.0"],
        "seqio": [
            "importlib_resources>=6.0",  # tensorflow-datasets imports it, undeclared
            "seqio>=0.0.20",
            "tensorflow>=2.20",
            "tensorflow-datasets>=4.9",
            "tensorflow-text>=2.20",
        ],
        "serve": [
            "bm25s>=0.3",
            "prometheus-client>=0.20",
            "starlette>=1.0",
            "uvicorn>=0.40",
        ],
        "tpu": ["jax[tpu]"],
        **requirements_of_parts("launch/backends/*.py"),
        **requirements_of_parts("research/record/trackers/*.py"),
    },
)
