"""Writes a run in Hugging Face's layout: network, tokenizer and model card."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from etils import epath

from research.checkpoints.checkpoint import FOLDER, finished_steps
from research.checkpoints.huggingface.export import Network, write_network
from research.checkpoints.partial_restore import newest_checkpoint
from research.data.tokenizers.export_tokenizer import write_tokenizer
from research.errors import UserError
from research.run.finished_run import load_run, read_config
from research.run.json_files import read_json
from research.run.metric_writer import latest_metrics, read_metrics

CARD = "README.md"


def export_run(
    workdir: epath.PathLike, to: epath.PathLike, *, all_steps: bool = False
) -> Iterator[str]:
    """Exports the newest checkpoint of a run to a folder.

    A run of ELECTRA becomes two folders, one of each network.

    Args:
      all_steps: every checkpoint is exported, each to a folder step_N in `to`.

    Yields:
      lines for the user: which class loads it, what has no place there.

    Raises:
      UserError: there is no run, or Hugging Face has no such network.
    """
    workdir, to = epath.Path(workdir).expanduser(), Path(to).expanduser()
    config = read_config(workdir)
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise UserError(f"--to={to} exists and is not an empty folder; give a new one")
    if not all_steps:
        yield from _export(workdir, newest_checkpoint(workdir, "--workdir"), to, config)
        return
    folder = workdir / FOLDER
    for step in finished_steps(folder):
        yield from _export(workdir, folder / str(step), to / f"step_{step}", config)


def _export(
    workdir: epath.Path, checkpoint: epath.Path, to: Path, config: dict
) -> Iterator[str]:
    run = load_run(workdir, config, checkpoint)
    for part, network in run.networks.items():
        folder = to / part
        yield from write_network(folder, network, start_ids(network))
        write_tokenizer(
            folder,
            run.vocabulary,
            layout=tokenizer_layout(network),
            max_length=config["data"]["length"],
        )
        (folder / CARD).write_text(
            model_card(workdir, config, run.facts), encoding="utf-8"
        )


def start_ids(network: Network) -> dict[str, int]:
    """The token that starts a decoder: T5's is pad, BART's eos."""
    if network.pattern:
        return {}
    vocab, is_t5 = network.vocab, network.options.position == "t5"
    return {"decoder_start_token_id": vocab.pad_id if is_t5 else vocab.eos_id}


def tokenizer_layout(network: Network) -> str:
    """Where the tokenizer puts special tokens, as this family's own does."""
    if network.pattern == "causal":
        return "none"
    if network.options.position == "t5":
        return "eos"
    return "last" if network.options.position == "relative" else "both"


def model_card(
    workdir: epath.Path, config: Mapping[str, Any], facts: Mapping[str, Any]
) -> str:
    """What made the model: objective, data, tokens, metrics and commit."""
    origin = {}
    if (workdir / "provenance.json").exists():
        origin = read_json(workdir / "provenance.json", "delete it")
    lines = [m for m in read_metrics(workdir) if m["step"] <= facts["step"]]
    metrics = latest_metrics(lines)
    name = config["objective"]["name"]
    options = {k: v for k, v in config["objective"].items() if k != "name"}
    rows = {
        "objective": f"{name} ({', '.join(f'{k}={v}' for k, v in options.items())})",
        "text": config["data"]["task"] or config["data"]["corpus"],
        "fingerprint of the data": facts.get("data", origin.get("data")),
        "step": facts["step"],
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
