"""Writes a run in Hugging Face's layout: network, tokenizer and model card."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from etils import epath

from research import networks, objectives
from research.checkpoints.checkpoint import FOLDER, finished_steps, path_name
from research.config.identity import read_run_config
from research.contract.errors import UserError
from research.data.tokenize.export_tokenizer import write_tokenizer
from research.data.tokenize.vocabulary import Vocabulary
from research.files.output_files import new_folder
from research.files.paths import user_path
from research.interop import int8_weights
from research.interop.huggingface.export import Network, write_network
from research.interop.huggingface.families import FAMILIES, preferred
from research.interop.huggingface.restore import DISCRIMINATOR, GENERATOR
from research.interop.partial_restore import load_on_host, with_summed_table
from research.networks.shared.quantized import RANGES, SCALES
from research.networks.transformer.electra import generator_options
from research.networks.transformer.options import TransformerOptions
from research.objectives.tasks.heads import HEADS
from research.objectives.tasks.task_input import ENCODER_FORMATS, POOLED_LAST, Task
from research.predictions import prediction_kind
from research.program.restored import run_checkpoint, run_vocabulary
from research.use.babylm.checkpoints import run_revisions
from research.use.model_card import CARD, model_card

WITHOUT_INTEGERS: dict[str, Any] = {
    "quantization": "none",
    "quantization_scale": SCALES[0],
    "quantization_range": RANGES[0],
    "quantization_clip": 0.0,
}
"""Options of a network whose weights have the values of integers, as float32."""
SHARED_WITH_GENERATOR = {
    "none": (),
    "token": ("token/",),
    "embedding": ("token/", "embeddings/"),
    "all": ("token/", "embeddings/", "stack/"),
    "gdes": (),
}
"""`objective.tie` -> the parameters that discriminator and generator share."""


def export_run(
    workdir: epath.PathLike,
    to: epath.PathLike,
    *,
    all_steps: bool = False,
    revisions: bool = False,
    licence: str = "",
    languages: Sequence[str] = (),
) -> list[str]:
    """Exports the checkpoint that opens a run to a folder.

    A run of ELECTRA becomes two folders, one per network; only the discriminator's if
    the generator has a mask decoder.

    Args:
      all_steps: whether to export every checkpoint, each to a folder step_N in `to`.
      revisions: whether to export the checkpoints of train.checkpoint_words, each to a
        folder chck_NM in `to`, and the one that opens the run to the folder main.
      licence: the model's, in Hugging Face's spelling, e.g. apache-2.0.
      languages: codes of the text's languages, e.g. en.

    The folder appears once everything is written.

    Returns:
      lines for the user: which class loads the model, and which parameters are left
      out since the class does not have them.

    Raises:
      UserError: there is no run, Hugging Face has no such network, or `to` cannot be
        written.
    """
    workdir, to = epath.Path(user_path(workdir)), Path(user_path(to))
    config = read_run_config(workdir)
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise UserError(f"--to={to} exists and is not an empty folder; give a new one")
    checkpoints = {"": run_checkpoint(workdir)[0]}
    if all_steps:
        folder = workdir / FOLDER
        steps = finished_steps(folder)
        checkpoints = {f"step_{step}": folder / str(step) for step in steps}
    if revisions:
        of_words, _ = run_revisions(workdir)
        folder = workdir / FOLDER
        checkpoints = {name: folder / str(step) for name, step in of_words.items()}
    lines = []
    with new_folder(to) as unfinished:
        for name, checkpoint in checkpoints.items():
            at = workdir, checkpoint, unfinished / name
            for part, (first, *others) in _export(
                *at, config, licence, languages
            ).items():
                lines += [f"{to / name / part}: {first}", *others]
    return lines


def _export(
    workdir: epath.Path,
    checkpoint: epath.Path,
    to: Path,
    config: dict[str, Any],
    licence: str,
    languages: Sequence[str],
) -> dict[str, list[str]]:
    """Writes the networks of a checkpoint: subfolder -> lines of `write_network`."""
    saved = load_on_host(checkpoint, "params", "facts")
    data = config["data"]
    vocabulary = run_vocabulary(workdir, data)
    options = networks.from_config(config["model"])
    if not isinstance(options, TransformerOptions) or not options.of_blocks_alone:
        raise UserError(f"Hugging Face has no model for model.network={options.name}")
    kind, scales = options.quantization, options.quantization_scale
    if kind != "none":
        clip = options.quantization_clip
        saved["params"] = int8_weights.values(saved["params"], kind, scales, clip)
        options = dataclasses.replace(options, **WITHOUT_INTEGERS)
    tree = with_summed_table(saved["params"])
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    params = {path_name(path): np.asarray(leaf) for path, leaf in leaves}
    labels = tuple(saved["facts"].get("labels", ()))
    parts, lines = exported_networks(config, options, params, vocabulary, labels), {}
    objective = objectives.make_objective(**config["objective"])
    specials = objective.specials(vocabulary.vocab)
    for part, network in parts.items():
        start = start_ids(network, objective)
        lines[part] = write_network(to / part, network, start)
        if kind != "none":
            lines[part].append("float32: inputs of dense layers are not rounded there")
        write_tokenizer(
            to / part,
            vocabulary,
            rows=(specials.row("A"), specials.row("A", "B")),
            max_length=network.options.max_positions or data["length"],
            token_types=network.options.token_types > 1,
        )
        card = model_card(
            workdir,
            config,
            saved["facts"],
            to / part,
            licence=licence,
            languages=languages,
        )
        (to / part / CARD).write_text(card, encoding="utf-8")
    return lines


def _unknown_input(objective: Task, width: int) -> str:
    """What a task's head reads or computes first and no class supports; "": nothing."""
    features = getattr(objective, "features", "last")
    if objective.vectors:
        return "objective.vectors: its networks read tokens alone"
    if features != "last":
        return f"objective.features={features}: its heads read the last layer"
    if getattr(objective, "lstm_layers", 0):
        return "objective.lstm_layers: its heads have no BiLSTM"
    if (own := getattr(objective, "head_width", 0)) not in (0, width):
        return f"objective.head_width={own}: its heads have model.width {width}"
    return ""


def _problem_type(objective: Task) -> str:
    """Hugging Face's term for what the objective predicts; "": there is none."""
    return prediction_kind(objective.predicts).problem_type


def _check_task(objective: Task, options: TransformerOptions) -> None:
    """Raises UserError: Hugging Face's classes would compute something else."""
    wrong = _unknown_input(objective, options.width)
    head = HEADS.get(name := getattr(objective, "head", ""))
    if (pool := getattr(objective, "pool", "token")) not in ("token", "mean"):
        wrong = f"objective.pool={pool}: its classifiers read one token, or the mean"
    elif head and head.unexported:
        wrong = f"objective.head={name}: {head.unexported}"
    elif getattr(objective, "lm_coef", 0.0):
        wrong = "objective.lm_coef: its classifiers have no readout beside their head"
    elif prediction_kind(objective.predicts).is_pooled:
        reads_last = any(
            family.reads_last and family.options["position"] == options.position
            for family in FAMILIES
        )
        if (
            reads_last != (objective.format in POOLED_LAST)
            and objective.format in ENCODER_FORMATS
        ):
            wrong = (
                f"objective.format={objective.format}: its classifiers with "
                f"model.position={options.position} read the "
                f"{'last' if reads_last else 'first'} token"
            )
    if wrong:
        raise UserError(f"Hugging Face has no class for {wrong}")


def exported_networks(
    config: Mapping[str, Any],
    options: TransformerOptions,
    params: Mapping[str, np.ndarray],
    vocabulary: Vocabulary,
    labels: tuple[str, ...] = (),
) -> dict[str, Network]:
    """Subfolder -> the network that is written there; "" for a single network.

    Values of a regression are those of the labels: its last layer is multiplied by
    `objective.label_scale`.

    Args:
      labels: `label_names` of the run.

    Raises:
      UserError: the network has a stack for each direction (biLM), or a head that
        Hugging Face's classes do not have.
    """
    objective = objectives.make_objective(**config["objective"]).unwrapped

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
        prefers = preferred(params, vocabulary.tokenizer_type)
        pattern, problem = "" if is_pair else objective.pattern, ""
        if isinstance(objective, Task):
            _check_task(objective, options)
            problem = _problem_type(objective)
        if problem == "regression":
            out = {p for p in params if p.startswith("head_label/out/")}
            scale = np.float32(objective.field_values["label_scale"])
            params = {**params, **{path: params[path] * scale for path in out}}
        head = HEADS.get(getattr(objective, "head", ""))
        layer, pool = head.layer if head else "", getattr(objective, "pool", "token")
        rest = vocabulary.vocab, prefers, labels, problem, layer, pool
        return {"": Network(options, params, pattern, *rest)}
    discriminator, generator = part(DISCRIMINATOR), part(GENERATOR)
    fields = objective.field_values
    tied = SHARED_WITH_GENERATOR[fields["tie"]]
    generator |= {p: x for p, x in discriminator.items() if tied and p.startswith(tied)}
    narrow = options
    if fields["tie"] != "all":
        sizes = fields["generator_size"], fields["generator_depth"]
        narrow = generator_options(options, *sizes)
    shared = "full", vocabulary.vocab, ("electra",)
    whole = dataclasses.replace(options, mask_decoder=0)
    of_discriminator = Network(whole, discriminator, *shared)
    if narrow.mask_decoder:  # Hugging Face does not compute it
        return {"": of_discriminator}
    of_generator = Network(narrow, generator, *shared)
    return {DISCRIMINATOR: of_discriminator, GENERATOR: of_generator}


def start_ids(network: Network, objective: Any) -> dict[str, int]:
    """The token with which a decoder starts, from the objective's own prompt.

    It is eos, as in BART, if the objective does not write text.
    """
    if network.pattern:
        return {}
    vocab, start = network.vocab, network.vocab.eos_id
    for writer in objective.writers.values():
        prompt = writer.prompt([[int(vocab.ordinary_ids[0])]], vocab)
        start = int(prompt.group["token"][0, 0])
    return {"decoder_start_token_id": start}
