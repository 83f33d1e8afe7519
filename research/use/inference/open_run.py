"""Opens a run, or a model in Hugging Face's layout, to use it from Python."""

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath

from research import networks, objectives
from research.checkpoints.checkpoint import as_tree, path_name
from research.config.config import Config
from research.config.identity import read_run_config
from research.contract.batch import ArraySpec, VocabInfo
from research.contract.errors import UserError, short_traceback, unknown
from research.contract.parts import make_section
from research.data.documents import single_labels
from research.data.options import DataOptions
from research.data.store.pictures import images_of_run
from research.data.tokenize.vocabulary import Vocabulary, load_vocabulary
from research.distributed import sharding
from research.distributed.options import MeshOptions
from research.files.paths import user_path
from research.generation.generation_config import (
    FILE,
    START,
    decoder_start,
    read_generation_config,
)
from research.generation.samplers import make_sampler
from research.interop.huggingface import SOURCE, restore
from research.interop.huggingface.folder import read_json
from research.interop.huggingface.sentence_transformers import Recipe, read_recipe
from research.interop.partial_restore import in_label_order, load_on_host
from research.networks.transformer import transformer
from research.objectives.layout.specials import Specials
from research.objectives.tasks.heads import TEXT, heads_of
from research.predictions import prediction_kind
from research.program.restored import RestoredRun, run_checkpoint, run_vocabulary
from research.program.setup import zero_batch
from research.use.inference.language_model import LanguageModel

OTHER, OTHER_FORMATS = "sequence_to_sequence", ("t5", "bart")
"""What an encoder-decoder was trained by whose decoder does not start as its family's
do: the objective, and its formats."""
MAX_CHOICES = 4
"""Of an example, where a folder does not say how many there are."""
READOUT = {"output", "query_embedding"}
"""Parts of the parameters that a model without a readout lacks."""
PRODUCT_DTYPES = ("dtype", "bfloat16")
ONE_DEVICE = {name: 1 for name in sharding.MESH_AXES}


@short_traceback
def open_run(
    source: epath.PathLike,
    *,
    product_dtype: str = "",
    step: int = 0,
    any_start: bool = False,
    images: str = "",
) -> LanguageModel:
    """Opens a trained model for use on texts, on one device.

    Args:
      source: the workdir of a run, whose newest or best checkpoint is opened, or
        hf:DIR, a folder in Hugging Face's layout with its tokenizer (hf:ORG/NAME: on a
        hub).
      product_dtype: replaces the run's model.product_dtype, e.g. "bfloat16" for
        products that are twice as fast on some processors; "": the run's, and "dtype"
        for hf:DIR.
      step: the checkpoint's, in a workdir; 0: the newest or best.
      any_start: whether a decoder of hf:DIR may start with any token, for callers that
        give it its tokens.
      images: replaces objective.images of a run that reads pictures; "": the run's.

    Raises:
      UserError: the run or model does not exist, or cannot be opened.
    """
    if product_dtype not in ("", *PRODUCT_DTYPES):
        raise unknown("product_dtype", product_dtype, PRODUCT_DTYPES)
    computation = {"product_dtype": product_dtype} if product_dtype else {}
    if str(source).startswith(SOURCE):
        return _open_folder(str(source), computation, any_start)
    workdir = epath.Path(user_path(source))
    config = read_run_config(workdir)
    checkpoint, facts = run_checkpoint(workdir, step)
    vocabulary = run_vocabulary(workdir, config["data"])
    data = make_section(DataOptions, config["data"], "data.")
    objective = run_objective(workdir, config, images)
    model = networks.from_config({**config["model"], **computation})
    params = load_on_host(checkpoint, "params", keep_int8=True)["params"]
    labels = facts.get("text_labels") or facts.get("labels")
    labels = tuple(labels or _labels_by_kind(objective))
    vocabulary = _with_labels(vocabulary, labels)
    needs = objective.needs(vocabulary.vocab)
    network = networks.build(model, needs, vocabulary.vocab)
    specials = objective.specials(vocabulary.vocab)
    return _language_model(
        objective,
        needs,
        specials,
        network,
        params,
        vocabulary,
        data,
        int(checkpoint.name),
    )


def run_objective(
    workdir: epath.Path, config: Mapping[str, Any], images: str = ""
) -> objectives.Objective:
    """The objective of a run, which need not have the pictures of its training.

    Args:
      config: the content of its config.json.
      images: as in `open_run`.
    """
    fields = dict(config["objective"])
    if images and "captions" in fields:
        fields["captions"] = "tokens"  # other captions have no stored vectors
    if "images" in fields:
        fields["images"] = images or images_of_run(workdir, fields["images"])
    return objectives.make_objective(**fields)


def _labels_by_kind(objective: Any) -> tuple[str, ...]:
    """The labels of a task whose head does not name its values."""
    if not objective.predicts:
        return ()
    return tuple(prediction_kind(objective.predicts).new_text_labels(objective))


def _with_labels(vocabulary: Vocabulary, labels: tuple[str, ...]) -> Vocabulary:
    vocab = vocabulary.vocab._replace(labels=labels)
    return dataclasses.replace(vocabulary, vocab=vocab)


def _open_folder(
    source: str, computation: dict[str, str], any_start: bool
) -> LanguageModel:
    """The model of `hf:DIR`; for a folder of both of ELECTRA's networks, both."""
    path = restore.find_folder(source)
    recipe = read_recipe(path)
    path = recipe.folder if recipe else path
    has_two = (path / restore.DISCRIMINATOR).is_dir()
    own = path / restore.DISCRIMINATOR if has_two else path
    model = restore.open_model(own)
    if not restore.has_vocabulary(own):
        raise UserError(f"{own} has no tokenizer; put its tokenizer.json there")
    restore.check_tokenizer(model)
    vocabulary = load_vocabulary(own, model.family.sentinels)
    rows = model.config["vocab_size"]
    num_pieces = len(vocabulary.model.pieces)
    vocab = _resize(vocabulary.vocab, rows)
    if model.family.patterns == ("causal",):
        vocab = _with_config_ends(vocab, model.config, vocabulary.model.is_control)
    vocabulary = dataclasses.replace(vocabulary, vocab=vocab)
    options = transformer.Network(**{"scan_unroll": 1} | model.options | computation)
    objective = _folder_objective(model, options.max_length, vocab, any_start)
    labels = names = _labels_by_kind(objective)
    if objective.predicts and prediction_kind(objective.predicts).output_names(["a"]):
        names = restore.label_names(model)
        labels = single_labels(names)
    vocabulary, vocab = (
        _with_labels(vocabulary, labels),
        vocab._replace(labels=labels),
    )
    if has_two:
        given = restore.config_overrides(source, "electra")
        sizes = {
            name: given.get(f"objective.{name}", 1.0)
            for name in ("generator_size", "generator_depth")
        }
        objective = objectives.make_objective("electra", **sizes)
    needs = objective.needs(vocab)
    network = networks.build(options, needs, vocab)
    length, data = options.max_length, DataOptions(length=options.max_length)
    shapes = _shapes(objective, network, min(length, 128))
    found = restore.restore(f"{SOURCE}{path}", "", shapes, num_pieces=num_pieces).params
    found = dict(in_label_order(source, found, names, labels))
    for name, array in found.items():
        if array.shape != shapes[name]:
            raise UserError(
                f"{path}: {name} has shape {array.shape}, but {shapes[name]} by "
                "config.json"
            )
    missing = tuple(name for name in shapes if name not in found)
    if body := [name for name in missing if not set(name.split("/")) & READOUT]:
        raise UserError(f"{path} has no parameters {', '.join(body)}")
    specials, params = _folder_specials(objective, model, vocab), as_tree(found)
    opened = _language_model(
        objective, needs, specials, network, params, vocabulary, data, 0, missing
    )
    if any(one.write_order == "left_to_right" for one in objective.writers.values()):
        writing = _writing(path, objective, vocab, model.config)
        opened = dataclasses.replace(opened, writing=writing)
    return _with_recipe(opened, recipe) if recipe else opened


def _folder_objective(
    model: restore.Model, max_length: int, vocab: VocabInfo, any_start: bool
) -> objectives.Objective:
    """The objective of a model, as far as its family and its files determine it.

    Raises:
      UserError: its decoder starts with a token that no objective here starts with.
    """
    patterns = model.family.patterns
    name, fields = model.family.trained_by
    if task := restore.task_of(model):  # whose decoder writes nothing
        name, fields = task, task_fields(model, task)
    own = objectives.make_objective(name, **fields)
    is_free = patterns or any_start or task
    start = None if is_free else decoder_start(model.path, model.config)
    if start is None:
        return own
    starts: dict[int, objectives.Objective] = {}
    others = (
        objectives.make_objective(OTHER, format=each, target_length=max_length)
        for each in OTHER_FORMATS
    )
    for each in (own, *others):
        assert each.prompt is not None
        prompt = each.prompt([[int(vocab.ordinary_ids[0])]], vocab)
        starts.setdefault(int(prompt.group["token"][0, 0]), each)
    if start not in starts:
        raise UserError(
            f"{model.path}: the decoder starts with token {start!r} ({START}); known "
            f"here: {' and '.join(map(str, starts))}"
        )
    return starts[start]


def task_fields(model: restore.Model, task: str) -> dict[str, Any]:
    """The fields of the objective of a task that compute what a model's class does."""
    own = restore.head_keys(model, task)
    fields: dict[str, Any] = {
        key.removeprefix("objective."): value for key, value in own.items()
    }
    fields["format"] = _task_format(model)
    head = model.family.head_activation
    reads = getattr(objectives.objective_class(task), "head_reads", "")
    if reads == TEXT or head in heads_of(reads):
        hidden = ("pooler/kernel", "head_label/dense/kernel")
        rows = model.family.heads.get("label", ())
        has_hidden = any(path in hidden for row in rows for path in row.paths)
        fields["head"] = head or ("tanh" if has_hidden else "linear")
    known = objectives.make_objective(task).field_values
    if "choices" in known:
        fields["choices"] = MAX_CHOICES
    if "task" in known:
        problem = model.config.get("problem_type")
        if len(restore.label_names(model)) == 1 or problem == "regression":
            fields["task"] = "regression"
        elif problem == "multi_label_classification":
            fields["task"] = "multi"
    return fields


def _folder_specials(
    objective: objectives.Objective, model: restore.Model, vocab: VocabInfo
) -> Specials:
    """The objective's specials that the model has."""
    specials = objective.specials(vocab)
    before = () if model.family.has_bare_start else specials.before
    before, after = (
        tuple(token for token in side if token < vocab.size)
        for side in (before, specials.after)
    )
    return specials._replace(before=before, after=after)


def _task_format(model: restore.Model) -> str:
    """The row format of a task.

    It is that of its family, of decoders, of RoBERTa (if its tokenizer puts two
    separators between a pair), or of BERT.
    """
    if model.family.task_format:
        return model.family.task_format
    if model.family.patterns == ("causal",):
        return "causal"
    file, is_roberta = model.path / "tokenizer.json", model.family.after_pad
    post = (read_json(file).get("post_processor") or {}) if file.is_file() else {}
    if pair := post.get("pair"):
        kinds = ["SpecialToken" in each for each in pair]
        first, second = (n for n, special in enumerate(kinds) if not special)
        is_roberta = second - first > 2
    return "roberta" if is_roberta else "bert"


def _writing(
    path: epath.Path, objective: Any, vocab: VocabInfo, config: Mapping[str, Any]
) -> dict[str, Any]:
    """The generation options in generation_config.json, if it exists."""
    writing, others = read_generation_config(path, objective, vocab, config)
    if others:
        names = ", ".join(others)
        print(f"{path}/{FILE}: {names} is not read", file=sys.stderr)
    try:
        make_sampler(writing)
    except (TypeError, ValueError) as error:
        raise UserError(f"{path}/{FILE}: {error}") from error
    return writing


def _with_recipe(model: LanguageModel, recipe: Recipe) -> LanguageModel:
    """The model with vectors as in sentence-transformers.

    Raises:
      UserError: a vector is the state of a token that no `pool` selects.
    """
    own = "first" if model.class_token_is_first else "last"
    if recipe.pool not in ("mean", own):
        raise UserError(
            f"{recipe.folder}: a vector is the state of the {recipe.pool} token, but "
            f"the class token of this network is the {own} one"
        )
    return dataclasses.replace(
        model,
        pool="mean" if recipe.pool == "mean" else "class",
        normalize=recipe.normalize,
        max_length=recipe.max_length,
    )


def _language_model(
    objective: objectives.Objective,
    needs: networks.Needs,
    specials: Specials,
    network: networks.Module,
    params: Any,
    vocabulary: Vocabulary,
    data: DataOptions,
    step: int,
    missing: tuple[str, ...] = (),
) -> LanguageModel:
    run = RestoredRun(
        config=cast(Config, SimpleNamespace(data=data)),  # texts need no more
        objective=objective,
        network=network,
        params=jax.tree.map(jnp.asarray, params),
        vocabulary=vocabulary,
        mesh=sharding.make_mesh(MeshOptions(**ONE_DEVICE), jax.devices()[:1]),
        step=step,
    )
    pool = objective.vector_pool
    return LanguageModel(run, needs, specials, missing, pool=pool)


def _resize(vocab: VocabInfo, rows: int) -> VocabInfo:
    """The vocabulary for a token table with this number of rows.

    Higher ids are special tokens that the model does not have; rows beyond the
    vocabulary belong to no token.
    """
    assert vocab.lowercase_ids is not None
    common = min(rows, vocab.size)
    special, lowercase = np.ones(rows, bool), np.arange(rows, dtype=np.int32)
    special[:common] = vocab.is_special[:common]
    lowercase[:common] = vocab.lowercase_ids[:common]
    return vocab._replace(
        size=rows,
        sentinel_ids=tuple(token for token in vocab.sentinel_ids if token < rows),
        is_special=special,
        ordinary_ids=vocab.ordinary_ids[vocab.ordinary_ids < rows],
        lowercase_ids=lowercase,
        spelling=None,
    )


def _with_config_ends(
    vocab: VocabInfo, config: Mapping[str, Any], is_control: Sequence[bool]
) -> VocabInfo:
    """The vocabulary of a causal model with bos and eos of config.json.

    They are used if it has none of the known spellings; a single eos is both (GPT-2).
    """
    special, ends = vocab.is_special.copy(), dict[str, Any]()
    for name in ("bos_id", "eos_id"):
        given = config.get(name.replace("_", "_token_"))
        own = given[0] if isinstance(given, list) and given else given
        if type(own) is not int or not 0 <= own < min(vocab.size, len(is_control)):
            continue
        if getattr(vocab, name) >= vocab.size and is_control[own]:
            ends[name], special[own] = own, True
    vocab = vocab._replace(**ends)
    if vocab.bos_id >= vocab.size > vocab.eos_id:
        vocab = vocab._replace(bos_id=vocab.eos_id)
    return vocab._replace(is_special=special)


def _shapes(
    objective: objectives.Objective, network: networks.Module, length: int
) -> dict[str, tuple[int, ...]]:
    """The shapes of the parameters that the objective's loss uses, by their paths."""

    def loss(net: networks.BoundNetwork) -> Any:
        spec = objective.batch_spec(length) | {"example": ArraySpec(())}
        batch = zero_batch(spec, 1) | {"carry": None}
        return objective.loss(net, batch, jax.random.key(0))[0]

    def make() -> Any:
        return networks.unbox(networks.init(network, loss, jax.random.key(0)))

    leaves = jax.tree_util.tree_flatten_with_path(jax.eval_shape(make))[0]
    return {path_name(path): leaf.shape for path, leaf in leaves}
