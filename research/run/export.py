"""Writes a run in Hugging Face's layout: network, tokenizer and model card."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from etils import epath

from research import networks, objectives
from research.checkpoints.checkpoint import FOLDER, finished_steps, path_name
from research.checkpoints.huggingface.export import Network, write_network
from research.checkpoints.huggingface.restore import DISCRIMINATOR, GENERATOR
from research.checkpoints.partial_restore import load_on_host
from research.data.tokenizers.export_tokenizer import write_tokenizer
from research.data.tokenizers.vocabulary import Vocabulary, load_vocabulary
from research.errors import UserError
from research.files.json_files import read_json
from research.files.output_files import new_folder
from research.networks.modules.electra import generator_options
from research.run.identity import read_run_config
from research.run.metric_writer import BEST_STEP, latest_metrics, read_metrics
from research.run.restored import run_checkpoint

CARD = "README.md"
BY_TOKENIZER = {
    "bytebpe": ("roberta",),
    "unigram": ("xlm-roberta",),
    "bpe": ("xlm-roberta",),
}
"""Tokenizer type -> the family to choose where several have the same network."""
SHARED_WITH_GENERATOR = {
    "none": (),
    "token": ("token/",),
    "embedding": ("token/", "embeddings/"),
    "all": ("token/", "embeddings/", "stack/"),
}
"""`objective.tie` -> the parameters that discriminator and generator share."""


def export_run(
    workdir: epath.PathLike, to: epath.PathLike, *, all_steps: bool = False
) -> list[str]:
    """Exports the checkpoint that opens a run to a folder.

    A run of ELECTRA becomes two folders, one for each network.

    Args:
      all_steps: every checkpoint is exported, each to a folder step_N in `to`.

    The folder appears once all is written.

    Returns:
      lines for the user: which class loads the model, and which parameters are left
      out since the class does not have them.

    Raises:
      UserError: there is no run, Hugging Face has no such network, or `to` cannot be
        written.
    """
    workdir, to = epath.Path(workdir).expanduser(), Path(to).expanduser()
    config = read_run_config(workdir)
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise UserError(f"--to={to} exists and is not an empty folder; give a new one")
    checkpoints = {"": run_checkpoint(workdir)}
    if all_steps:
        folder = workdir / FOLDER
        steps = finished_steps(folder)
        checkpoints = {f"step_{step}": folder / str(step) for step in steps}
    lines = []
    with new_folder(to) as unfinished:
        for name, checkpoint in checkpoints.items():
            exported = _export(workdir, checkpoint, unfinished / name, config)
            for part, (first, *others) in exported.items():
                lines += [f"{to / name / part}: {first}", *others]
    return lines


def _export(
    workdir: epath.Path, checkpoint: epath.Path, to: Path, config: dict
) -> dict[str, list[str]]:
    """Writes the networks of a checkpoint; subfolder -> lines of `write_network`."""
    saved = load_on_host(checkpoint, "params", "facts")
    leaves = jax.tree_util.tree_flatten_with_path(saved["params"])[0]
    params = {path_name(path): np.asarray(leaf) for path, leaf in leaves}
    data = config["data"]
    vocabulary = load_vocabulary(workdir, data["sentinels"], data["whitespace"])
    options = networks.from_config(config["model"])
    if options.name != "transformer":
        raise UserError(f"Hugging Face has no architecture of an {options.name}")
    lines, parts = {}, exported_networks(config, options, params, vocabulary)
    for part, network in parts.items():
        lines[part] = write_network(to / part, network, start_ids(network))
        write_tokenizer(
            to / part,
            vocabulary,
            layout=network.options.text_layout(network.pattern),
            max_length=data["length"],
        )
        (to / part / CARD).write_text(
            model_card(workdir, config, saved["facts"]), encoding="utf-8"
        )
    return lines


def exported_networks(
    config: Mapping[str, Any],
    options: networks.Network,
    params: Mapping[str, np.ndarray],
    vocabulary: Vocabulary,
) -> dict[str, Network]:
    """Subfolder -> the network that is written there; "" for a single network.

    Raises:
      UserError: the network has a stack for each direction (biLM).
    """
    objective = objectives.make_objective(**config["objective"])
    by_type = BY_TOKENIZER.get(vocabulary.tokenizer_type, ())

    def part(name: str) -> dict[str, np.ndarray]:
        start = f"{name}/"
        return {
            path.removeprefix(start): array
            for path, array in params.items()
            if path.startswith(start)
        }

    if any(path.startswith("forward/") for path in params):
        raise UserError("Hugging Face has no architecture of two directions (biLM)")
    if not any(path.startswith(f"{DISCRIMINATOR}/") for path in params):
        is_pair = any(path.startswith("encoder/") for path in params)
        prefers = ("bert",) if "head_nsp/out/kernel" in params else by_type
        pattern = "" if is_pair else objective.pattern
        return {"": Network(options, params, pattern, vocabulary.vocab, prefers)}
    discriminator, generator = part(DISCRIMINATOR), part(GENERATOR)
    tied = SHARED_WITH_GENERATOR[objective.tie]
    generator |= {p: x for p, x in discriminator.items() if tied and p.startswith(tied)}
    narrow = options
    if objective.tie != "all":
        narrow = generator_options(options, objective.generator_size)
    rest = "full", vocabulary.vocab, ("electra",)
    return {
        DISCRIMINATOR: Network(options, discriminator, *rest),
        GENERATOR: Network(narrow, generator, *rest),
    }


def start_ids(network: Network) -> dict[str, int]:
    """The token with which a decoder starts: pad for T5, eos for BART."""
    if network.pattern:
        return {}
    vocab, is_t5 = network.vocab, network.options.position == "t5"
    return {"decoder_start_token_id": vocab.pad_id if is_t5 else vocab.eos_id}


def model_card(
    workdir: epath.Path, config: Mapping[str, Any], facts: Mapping[str, Any]
) -> str:
    """README.md of an exported model: objective, data, tokens, metrics and commit."""
    origin = {}
    if (workdir / "provenance.json").exists():
        origin = read_json(workdir / "provenance.json", "delete it")
    step = facts["step"]
    metrics = latest_metrics(
        [
            line
            for line in read_metrics(workdir)
            if line.get(BEST_STEP, step) == step
            and (line["step"] <= step or BEST_STEP in line)
        ]
    )
    name = config["objective"]["name"]
    options = {k: v for k, v in config["objective"].items() if k != "name"}
    rows = {
        "objective": f"{name} ({', '.join(f'{k}={v}' for k, v in options.items())})",
        "text": config["data"]["task"] or config["data"]["corpus"],
        "fingerprint of the data": facts.get("data", origin.get("data")),
        "step": step,
        "tokens seen": metrics.pop("tokens_seen", None),
        "tokens scored": facts.get("tokens_scored"),
        "commit": origin.get("commit"),
        **metrics,
    }
    table = "\n".join(f"| {key} | {value} |" for key, value in rows.items())
    return (
        "---\nlibrary_name: transformers\n---\n\n"
        f"# {workdir.name}\n\nPretrained by Palimpsest.\n\n| | |\n|---|---|\n{table}\n"
    )
