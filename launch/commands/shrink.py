"""Makes a run smaller: `palimpsest shrink --workdir=D --recipe=R --to=E`.

D is a run, or hf:DIR, a BERT- or GPT-like model in Hugging Face's layout. E is a run
that can be opened, evaluated, exported, shrunk again, and fine-tuned
(train.init_from=E). The command trains nothing.

E/shrink.html compares parameters, bytes on disk, FLOPs, times, and scores on the run's
evaluation split (or other text, --config.data.valid=FILES) with those of the original
network and of --beside. E/shrink.json has the same figures.
"""

import argparse
import copy
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from etils import epath

from experiments import lm, mlm
from launch import cli
from launch.config import load_config, run_config
from research.contract.errors import UserError
from research.files.json_files import check_object, read_json, write_json
from research.files.output_files import new_folder

FILE, PAGE = "shrink.json", "shrink.html"
SOURCE = "hf:"
EXPERIMENTS = {"full": mlm, "causal": lm}
"""Attention pattern of a model in Hugging Face's layout -> the experiment whose
objective and text it gets."""
RECORD = {"name": str, "cost": dict, "bytes": int, "metric": str, "scores": list}
"""Field of a network in shrink.json -> its JSON type."""


def run(args: argparse.Namespace) -> int:
    to = Path(args.to)
    request = _request(args)
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise UserError(f"--to={to} exists and is not an empty folder; give a new one")
    beside = [record for path in args.beside for record in _records(path)]
    earlier = [] if args.workdir.startswith(SOURCE) else _records(args.workdir, True)
    config, content = _configs(args)
    import jax  # after the config: a wrong key is reported without waiting

    from launch.measure.network_cost import network_costs, prepare
    from launch.reports import shrink_page
    from research.program.setup import build_program, use_compilation_cache
    from research.record.workdir import write_result
    from research.use.shrinking import recipes
    from research.use.shrinking.written_run import stored_params, write_run

    use_compilation_cache(config.data.cache_dir)
    program = build_program(config)
    params, step, missing, num_bytes = _read(args.workdir, program, config)
    asked = recipes.Request(**request)
    shrunk = recipes.RECIPES[args.recipe].make(program, params, asked)
    changes: dict[str, Any] = {}
    for key, value in shrunk.keys.items():
        changes[f"model.{key}"] = value
        content["model"][key] = value
    if taught := shrunk.layers and content["objective"].get("layer_map"):
        taught = [taught[layer] for layer in shrunk.layers]  # each keeps its teacher
        changes["objective.layer_map"] = taught
        content["objective"]["layer_map"] = taught
    smaller = build_program(config.with_values(changes))
    own = recipes.fit(smaller, shrunk.params, asked)
    stored = stored_params(smaller, own)
    before = stored_params(program, params)
    prepared = [prepare(program, before), prepare(smaller, stored)]
    cost_before, cost = network_costs(prepared)
    about = {"name": args.workdir, "recipe": "", "says": "", "bytes": num_bytes}
    earlier = earlier or [about]
    # Measured again: --config.data.valid may name other text than its record used.
    earlier[-1] |= _measure(program, before, missing) | {"cost": cost_before}
    earlier[-1]["difference"] = _difference(earlier[:-1], earlier[-1])
    with new_folder(to) as folder:
        saved = own if shrunk.is_saved_as_float else stored
        origin, num_bytes = write_run(folder, smaller, content, saved, step)
        last = _measure(smaller, stored, missing)
        about = {"name": str(to), "recipe": args.recipe, "says": shrunk.says}
        last |= about | {"bytes": num_bytes, "cost": cost}
        last["difference"] = _difference(earlier, last)
        records = _once([*earlier, *beside, last])
        write_json(epath.Path(folder / FILE), {"networks": records})
        split = config.data.eval_split
        result = {
            "steps": step,
            "best_step": 0,
            "metrics": {f"{split}/{k}": v for k, v in last["metrics"].items()},
            "parameters": last["cost"]["parameters"],
            "item_scores": {split: last["scores"]},
            "config": content,
            "provenance": origin,
        }
        write_result(epath.Path(folder), result)
        facts = {"length": config.data.length, "device": jax.devices()[0].device_kind}
        (folder / PAGE).write_text(shrink_page.page(records, **facts), "utf-8")
    print(shrunk.says)
    print("\n".join(shrink_page.lines(shrink_page.table(records))))
    if missing:
        print(
            f"{args.workdir} has no {', '.join(missing)}: these have initial values, "
            "so that nothing is evaluated",
            file=sys.stderr,
        )
    print(to / PAGE)
    return cli.DONE


def _request(args: argparse.Namespace) -> dict[str, Any]:
    """The given flags, by name.

    Raises:
      UserError: the recipe does not read one of them.
    """
    from research.use.shrinking.recipes import RECIPES, Request

    values = {name: getattr(args, name) for name in Request._fields}
    given = {name: value for name, value in values.items() if value is not None}
    for name in given:
        read_by = [key for key, recipe in RECIPES.items() if name in recipe.reads]
        if args.recipe not in read_by:
            raise UserError(
                f"--{name} is not read by --recipe={args.recipe}, but by "
                f"{', '.join(read_by)}"
            )
    if "kept" in given and "layers" in given:
        raise UserError("--kept and --layers both say which layers stay; give one")
    return given


def _configs(args: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """The config to measure with, unlocked; and the smaller run's, nested.

    Raises:
      UserError: there is no run or model, or it cannot be made smaller.
    """
    from research.config.identity import read_run_config

    if not args.workdir.startswith(SOURCE):
        workdir = epath.Path(args.workdir)
        config, content = run_config(workdir, args.overrides), read_run_config(workdir)
        content["train"] |= {"init_from": args.workdir, "init_layers": []}
        return config, content
    from research.interop.huggingface import restore  # imports all families

    model = restore.open_model(restore.find_folder(args.workdir))
    (pattern, *_) = model.family.patterns
    if pattern not in EXPERIMENTS:
        raise UserError(
            f"--workdir={args.workdir} is a {model.family.model_type}; of models in "
            "Hugging Face's layout, shrink reads only those of one encoder or one "
            "decoder; train a run from it first (train.init_from)"
        )
    keys = {**args.overrides, "train.init_from": args.workdir}
    config = load_config(EXPERIMENTS[pattern].__file__, keys)
    return config, copy.deepcopy(config.values)


def _read(workdir: str, program: Any, config: Any) -> tuple[Any, int, list[str], int]:
    """Parameters of a run or model, its step, missing parameters, bytes on disk."""
    from research.distributed import sharding
    from research.interop.huggingface import restore
    from research.interop.partial_restore import restore_params
    from research.program.restored import run_params
    from research.program.setup import initial_state
    from research.use.shrinking.written_run import params_bytes

    if not workdir.startswith(SOURCE):
        params, step, _ = run_params(
            program,
            epath.Path(workdir),
            0,
            seed=config.seed,
            vocabulary=program.data.vocabulary_hash,
        )
        return params, step, [], params_bytes(Path(workdir), step)
    with sharding.context(program.mesh):
        initial = initial_state(program, config.seed).params
        params, missing = restore_params(
            workdir, "", initial, **program.data.vocabulary_facts
        )
    folder = Path(restore.find_folder(workdir))
    files = folder.glob("*.safetensors")
    return params, 1, missing, sum(path.stat().st_size for path in files)


def _measure(program: Any, params: Any, missing: list[str]) -> dict[str, Any]:
    """The entries of shrink.json about a network's quality."""
    from research import metrics
    from research.data.cache import fingerprint
    from research.distributed import sharding
    from research.evaluation.evaluate import evaluate
    from research.program.setup import make_eval_zeros

    record = {
        "metrics": {},
        "metric": "",
        "better": metrics.LOWER,
        "value": [None, None],
        "scores": [],
        "text": program.data.eval.fingerprint,
    }
    if missing:
        return record
    with sharding.context(program.mesh):
        found = evaluate(program, params, make_eval_zeros(program)())
    record["metrics"] = found.metrics
    name, better = "loss", metrics.LOWER
    scores = [item.score for item in found.items]
    if scores and None not in scores:
        shown = metrics.mean_of_scores(program.objective.predicts)
        name, better = shown.name, shown.better
        record["scores"] = scores
        # Equal for networks with other vocabularies, too.
        record["text"] = fingerprint([str(item.gold) for item in found.items])
    if name not in found.metrics:  # the text has no labels
        return record
    margin = found.margins.get(name)
    return record | {
        "metric": name,
        "better": better,
        "value": [found.metrics[name], margin],
    }


def _difference(
    earlier: list[dict[str, Any]], last: dict[str, Any]
) -> list[float | None]:
    """The mean difference from the first network, and its margin.

    The margin is that of the 95 % interval over the items, paired.
    """
    from launch.reports.shrink_page import is_comparable
    from research.evaluation.statistics import estimate

    if not earlier or not last["metric"] or not is_comparable(earlier[0], last):
        return [None, None]
    first = earlier[0]
    one, other = first["scores"], last["scores"]
    if not one or len(one) != len(other):
        return [last["value"][0] - first["value"][0], None]
    found = estimate([new - old for new, old in zip(other, one, strict=True)])
    return [found.mean, found.margin]


def _records(workdir: str, may_lack: bool = False) -> list[dict[str, Any]]:
    """The records of a run that was made smaller; its own network is the last.

    Raises:
      UserError: it was not made smaller, or shrink.json is damaged.
    """
    path = epath.Path(workdir) / FILE
    if not path.exists():
        if may_lack:
            return []
        raise UserError(f"{workdir} has no {FILE}: palimpsest shrink has not made it")
    remedy = "run palimpsest shrink again, to another folder"
    records = read_json(path, remedy, {"networks": list})["networks"]
    for record in records:
        try:
            check_object(record, RECORD)
        except ValueError as error:
            raise UserError(f"{path} is damaged ({error}); {remedy}") from error
    return records


def _once(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records without duplicate names; the last one of a name is kept."""
    by_name = {record["name"]: record for record in reversed(records)}
    return [*reversed(by_name.values())]


def _layers(text: str) -> tuple[int, ...]:
    try:
        numbers = json.loads(f"[{text.strip('[]')}]")
    except ValueError:
        numbers = []
    legal = numbers and all(type(n) is int and n >= 0 for n in numbers)
    if not legal or sorted({*numbers}) != numbers:
        raise argparse.ArgumentTypeError(
            f"must be ascending numbers of layers from 0, such as 1,3,5, not {text}"
        )
    return tuple(numbers)


def parser() -> cli.Parser:
    from research.networks.shared.quantized import RANGES, SCALES
    from research.optimize import pruning
    from research.use.shrinking.heads import DEFINITIONS
    from research.use.shrinking.recipes import RECIPES

    parser = cli.Parser(__doc__)
    parser.add_path(
        "--workdir", required=True, models=True, help="folder of a run, or hf:DIR"
    )
    says = "; ".join(f"{name}, {recipe.line}" for name, recipe in RECIPES.items())
    parser.add_argument("--recipe", required=True, choices=RECIPES, help=says)
    parser.add_path("--to", required=True, help="a new folder")
    readers = [name for name, recipe in RECIPES.items() if "kept" in recipe.reads]
    add = parser.add_argument
    add(
        "--kept",
        type=partial(cli.fraction, zero=False),
        help=f"fraction to keep (0.5), of --recipe={' or '.join(readers)}",
    )
    add("--layers", type=_layers, help="layers to keep, from 0, e.g. 1,3,5")
    add("--importance", choices=DEFINITIONS, help="of heads (gate)")
    add("--scope", choices=pruning.SCOPES, help="what --kept is a fraction of (matrix)")
    add("--scale", choices=SCALES, help="scope of a kernel's scale (as in the run)")
    add("--range", choices=RANGES, help="of the inputs of dense layers (as in the run)")
    add("--batches", type=cli.whole(1), help="of training text to measure on (8)")
    help = "a smaller run to show as well; repeatable"
    parser.add_path("--beside", action="append", default=[], help=help)
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
