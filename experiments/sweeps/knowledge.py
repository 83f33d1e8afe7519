"""Systems with knowledge beside the same text without it, and with a false graph.

    palimpsest sweep --sweep=experiments/sweeps/knowledge.py --scale=quick \\
        --tasks=tasks.toml --workdir=runs/knowledge
    palimpsest report --table=experiments/tables/knowledge.toml --workdir=runs/knowledge

Question: does knowledge help a task, or do the further steps on text? A masked LM is
pretrained once for each of five seeds. It goes on for as many steps on the same text as
a masked LM, as a system, and as the system with a shuffled graph, which has the same
numbers of everything; each is tuned on the task, with its knowledge if it reads any.
The masked LM that did not go on is tuned, too.

Which systems run is decided by the tasks of the file: ERNIE, KEPLER and KnowBERT read
FewRel and SemEval, SentiLARE SST-2, K-BERT, which has no pretraining, medical NER and
ChnSentiCorp. A task names its text, data.corpus, and its graph: data.lexicon,
data.lexicon_texts, objective.entities. Texts of FewRel, of SemEval, and of their
corpus, are those of `palimpsest link`; of SST-2's corpus the lines have a label, and
those of the others are plain.

Departs: the start is no BERT, but a masked LM of the same text, of which 40 % are
masked. At quick it has two layers of width 64, and a classifier reads the mean of the
states, so that networks know words at most. ERNIE's graph may be WordNet, as KnowBERT's
and KEPLER's; there is no next sentence prediction; SentiLARE has no parts of speech.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from launch.sweeps import finetuning
from launch.sweeps.scales import SCALES
from launch.sweeps.tasks import Task

SEEDS = 5
PLAIN, NO_STAGE = "continued MLM", "no second stage"
SHUFFLED = ", shuffled graph"
FALSE_GRAPH = {"objective.graph": "shuffled"}
NO_MATRIX = {"objective.visible": "all", "objective.positions": "flat"}
GRAPH = ("data.lexicon", "data.lexicon_texts", "objective.entities")
"""Keys of a task that name its graph, for the rows that read it."""

TEXT = "data.corpus"
BEFORE_TASK = (TEXT, *GRAPH)
"""Keys of a task that its baseline does not read."""

ENCODER = {"model.norm_placement": "post", "model.position": "learned"}
"""BERT's layers, which fusion and kar need."""
FUSION = {"model.network": "fusion", "model.plain_layers": 1}
KAR = {"model.network": "kar", "model.link_after": 1, "model.entity_feedforward": 256}
KEPLER = {"objective.description": 24, "objective.norm": 1, "objective.gamma": 1.0}
"""The paper's for WordNet, with shorter texts."""


class System(NamedTuple):
    """The keys of a system in both of its stages."""

    keys: Mapping[str, Any]  # of objective and network
    graph: tuple[str, ...]  # the keys of GRAPH that it reads
    variants: Mapping[str, Mapping[str, Any]] = {"": {}, SHUFFLED: FALSE_GRAPH}
    in_tasks: bool = True  # tasks read the graph, too
    in_text: bool = True  # there is a stage on text


ENTITIES, LEXICON = ("objective.entities",), ("data.lexicon",)
SYSTEMS = {
    "ERNIE": System({"objective.name": "ernie_thu", **FUSION}, ENTITIES),
    "KEPLER": System({"objective.name": "kepler", **KEPLER}, GRAPH[:2], in_tasks=False),
    "KnowBERT": System({"objective.name": "knowbert", **KAR}, ENTITIES),
    "SentiLARE": System(
        {"objective.name": "sentilare", "objective.levels": 2},
        LEXICON,
        {"": {}, SHUFFLED: {"objective.polarities": "shuffled"}},
    ),
    "K-BERT": System(
        {"objective.name": "kbert"},
        LEXICON,
        {"": {}, SHUFFLED: FALSE_GRAPH, ", no visible matrix": NO_MATRIX},
        in_text=False,
    ),
}
TASKS = {
    "FewRel": ("ERNIE", "KEPLER", "KnowBERT"),
    "SemEval": ("ERNIE", "KEPLER", "KnowBERT"),
    "SST-2": ("SentiLARE",),
    "medical NER": ("K-BERT",),
    "ChnSentiCorp": ("K-BERT",),
}
IN_CHINESE = ("medical NER", "ChnSentiCorp")

ENGLISH = {"data.vocabulary_size": 4096}
CHINESE = {"data.vocabulary": "wordpiece", "data.normalizer": "uncased"}
CHINESE |= {"data.vocabulary_size": 12_000, "data.length": 96}
ROWS = {
    **dict.fromkeys(("FewRel", "SemEval"), ENGLISH | {"data.length": 72}),
    "SST-2": ENGLISH | {"data.length": 48},
    **dict.fromkeys(IN_CHINESE, CHINESE),
}
"""Keys of the text and the rows of a task and of what comes before it."""

# At quick:
SMALL = {"model.width": 64, "model.heads": 2, "model.feedforward": 256}
START = {
    "train.steps": 200,
    "optimizer.warmup_steps": 40,
    "train.eval_every": 0,
    "train.checkpoint_every": 0,
}
SECOND = {
    "train.steps": 100,
    "optimizer.warmup_steps": 20,
    "optimizer.learning_rate": 5e-4,
}
TUNING = {
    "train.batch": 16,
    "train.steps": 300,
    "optimizer.warmup_steps": 40,
    "optimizer.learning_rate": 5e-4,
}
CLASSIFIER = {"pool": "mean", "head": "linear"}
"""From the state of one token networks of this size learn one class."""


def sweep(scale: str, tasks: Mapping[str, Task]) -> Iterator[tuple]:
    chosen = finetuning.own_tasks("knowledge", tasks)
    for seed in range(SEEDS):
        for name, task in chosen.items():
            own = {k: v for k, v in task.keys.items() if k not in BEFORE_TASK}
            read = {k: v for k, v in task.keys.items() if k in BEFORE_TASK}
            keys = ENCODER | ROWS[name]
            keys |= {k: read.pop(k) for k in (TEXT,) if k in read}
            keys |= START | SMALL if scale == "quick" else {}
            start = finetuning.pretraining(
                "mlm", ("experiments/mlm.py", keys), scale, seed=seed
            )
            tuned = partial(_tuned, start, own, scale)
            if name in IN_CHINESE:
                # A text without branches has the room that it has beside them.
                no_branches = {"objective.name": "kbert", "objective.branches": 0}
                yield *tuned(start, no_branches | read), (PLAIN, name)
            else:
                yield *tuned(_continued(start, scale, {}), {}), (PLAIN, name)
                yield *tuned(start, {}), (NO_STAGE, name)
            for row in TASKS[name]:
                system = SYSTEMS[row]
                graph = {k: read[k] for k in system.graph if k in read}
                for suffix, changes in system.variants.items():
                    keys, origin = {**system.keys, **graph, **changes}, start
                    if system.in_text:
                        origin = _continued(start, scale, keys)
                    keys = keys if system.in_tasks else {}
                    yield *tuned(origin, keys), (row + suffix, name)


def _continued(
    start: tuple, scale: str, keys: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """A second stage on the text of the first one."""
    experiment, own = start
    fresh = {k: v for k, v in own.items() if k != "objective.rate"}
    fresh |= SECOND if scale == "quick" else {}
    fresh |= {"data.vocabulary": start, finetuning.INIT_FROM: start}
    return experiment, fresh | keys


def _tuned(
    start: tuple,
    task: Mapping[str, Any],
    scale: str,
    origin: tuple,
    keys: Mapping[str, Any],
) -> tuple[str, dict[str, Any]]:
    """A fine-tuning of `origin`, by the vocabulary of `start`."""
    own = {"data.vocabulary": start, finetuning.INIT_FROM: origin, "data.mixture": {}}
    own |= finetuning.network_keys(origin) | SCALES[scale].tuning | task
    own["seed"] = start[1]["seed"]
    base, fields = own.get("objective.name", "sequence_classification"), {}
    if scale == "quick":
        own |= TUNING
        fields = CLASSIFIER if base == "sequence_classification" else {}
    if not keys:
        return finetuning.EXPERIMENT, own | {
            f"objective.{k}": fields[k] for k in fields
        }
    own |= {"objective.base_objective": base, "objective.base": fields}
    if base == "token_classification" and "data.lexicon" in keys:
        own["objective.branch_text"] = "tail"
    own |= {k: v for k, v in keys.items() if not k.startswith("model.")}
    return finetuning.EXPERIMENT, own
