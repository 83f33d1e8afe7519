r"""Captions of NLVR's pictures, and what a trained model reads of the sentence.

    python -m experiments.studies.nlvr captions nlvr-dev.jsonl E
    palimpsest images --pictures=nlvr-dev-images.zip --captions=E/described.jsonl \
        --group-column=group --size=400x100 --held-out=0.2 --to=E/described
    palimpsest train --config=experiments/vilbert.py:tiny --workdir=runs/nlvr ...
    python -m experiments.studies.nlvr regions runs/nlvr E/described/valid.captioned
    python -m experiments.studies.nlvr answers runs/labels/predictions/valid.jsonl \
        E/stated/valid.captioned

The first command writes described.jsonl (templates that name the objects of each of the
three boxes), stated.jsonl (templates that are true or false) and sentences.jsonl (those
of the data set, true or false). A region is an object, and its class colour and form;
sentences and pictures that share either are one group. The second one predicts classes
of hidden regions beside the true text and beside that of another picture. The third one
has the accuracy of answers, with its interval over pictures.
"""

import json
import random
import sys
from pathlib import Path

import numpy as np

COLOURS = {"#0099ff": "blue", "Black": "black", "Yellow": "yellow"}
FORMS = ("circle", "square", "triangle")
BOXES = ("left", "middle", "right")
STEP, SIDE = 150, 100
"""Pixels from one box of a picture to the next, and of its side."""


def objects_of(row: dict) -> list[tuple[int, str, list[float]]]:
    """Box, class and corners of the objects of a picture."""
    found = []
    for number, box in enumerate(row["structured_rep"]):
        for each in box:
            x, y, size = each["x_loc"], each["y_loc"], each["size"]
            right, below = min(x + size, SIDE), min(y + size, SIDE)
            corners = [STEP * number + x, y, STEP * number + right, below]
            name = f"{COLOURS[each['color']]} {each['type']}"
            found.append((number, name, corners))
    return found


def groups_of(rows: list[dict]) -> list[str]:
    """The group of each row: rows of one sentence or one identifier have the same."""
    parent: dict[str, str] = {}

    def root(key: str) -> str:
        while parent.setdefault(key, key) != key:
            key = parent[key]
        return key

    keys = [(f"i{row['identifier'].split('-')[0]}", row["sentence"]) for row in rows]
    for first, second in keys:
        parent[root(first)] = root(second)
    return [root(first) for first, _ in keys]


def described(objects: list) -> str:
    """The classes that each box has."""
    names: list[list[str]] = [[], [], []]
    for box, name, _ in objects:
        if name not in names[box]:
            names[box].append(name)
    return " ; ".join(
        f"{side} : {' , '.join(sorted(own))}"
        for side, own in zip(BOXES, names, strict=True)
    )


def statements(objects: list, rng: random.Random, count: int) -> list[tuple[str, str]]:
    """Of whether a box has an object of a class: half of them are true."""
    there = sorted({(box, name) for box, name, _ in objects})
    names = [f"{colour} {form}" for colour in COLOURS.values() for form in FORMS]
    other = [(b, n) for b in range(3) for n in names if (b, n) not in there]
    found = []
    for number in range(count):
        is_true = number % 2 == 0
        box, name = rng.choice(there if is_true else other)
        text = f"there is a {name} in the {BOXES[box]} box"
        found.append((text, str(is_true).lower()))
    return found


def write_captions(source: Path, to: Path, count: int = 6) -> None:
    """The three files of captions of the pictures of NLVR's development set."""
    rows = [json.loads(line) for line in source.read_text("utf-8").splitlines()]
    rng, lines = random.Random(0), {"described": [], "stated": [], "sentences": []}
    for row, group in zip(rows, groups_of(rows), strict=True):
        objects = objects_of(row)
        line = {
            "file": f"dev-{row['identifier']}-0.png",
            "group": group,
            "boxes": [corners for _, _, corners in objects],
            "classes": [name for _, name, _ in objects],
        }
        lines["described"].append(line | {"caption": described(objects)})
        for text, label in statements(objects, rng, count):
            lines["stated"].append(line | {"caption": text, "label": label})
        own = {"caption": row["sentence"], "label": row["label"]}
        lines["sentences"].append(line | own)
    to.mkdir(parents=True, exist_ok=True)
    for name, each in lines.items():
        text = "".join(json.dumps(x) + "\n" for x in each)
        (to / f"{name}.jsonl").write_text(text, "utf-8")


def hidden_regions(workdir: str, captions: Path, draws: int = 4) -> dict:
    """How often the class of a hidden region is right, by whose text is read.

    Returns the means, their difference, and its 95 % interval over pictures.
    """
    import jax

    from research import networks
    from research.data.store.pictures import open_store
    from research.use.inference.open_run import open_run
    from research.use.inference.picture_guesses import pair_examples

    model = open_run(workdir)
    run, length = model.run, model.run.config.data.length
    objective = run.objective.with_fields(
        match="none", region_mask_fraction=1.0, region_random_fraction=0.0
    )
    store = open_store(objective.images)
    rows = [json.loads(line) for line in captions.read_text("utf-8").splitlines()]
    picture = np.array([row["image"] for row in rows])
    rng = np.random.default_rng(0)

    def predict(params, batch):
        def forward(net):
            states = net.states(objective.group(batch), scored=batch["region_scored"])
            return net.head("region", states)

        return networks.apply(run.network, params, forward).argmax(axis=-1)

    compiled = jax.jit(predict)
    hits = np.zeros((2, len(rows)))
    total = np.zeros(len(rows))
    for draw in range(draws):
        for side in range(2):
            order = np.arange(len(rows)) if side == 0 else rng.permutation(len(rows))
            key = np.arange(len(rows), dtype=np.uint64) + np.uint64(1 + 10**6 * draw)
            pairs = [
                (rows[n]["text"], row["image"])
                for n, row in zip(order, rows, strict=True)
            ]
            example = pair_examples(run.vocabulary, pairs, length - 2)
            batch = objective.corrupt(example, key, run.vocabulary.vocab, length)
            found = np.asarray(compiled(run.params, batch))
            right = (found == batch["region_target"]) * batch["region_weight"]
            hits[side] += right.sum(axis=1)
            total += batch["region_weight"].sum(axis=1) * (side == 0)
    counts = np.bincount(store.classes[picture][store.classes[picture] >= 0])
    sample = rng.integers(0, len(rows), (10_000, len(rows)))
    gap = (hits[0] - hits[1])[sample].sum(axis=1) / total[sample].sum(axis=1)
    return {
        "regions": int(total.sum()),
        "pictures": len(rows),
        "most frequent class": float(counts.max() / counts.sum()),
        "true text": float(hits[0].sum() / total.sum()),
        "text of another picture": float(hits[1].sum() / total.sum()),
        "difference": float((hits[0] - hits[1]).sum() / total.sum()),
        "interval": np.quantile(gap, [0.025, 0.975]).round(4).tolist(),
    }


def answers(predictions: Path, captions: Path) -> dict:
    """The accuracy of an evaluation's answers, and its 95 % interval over pictures.

    Raises:
      ValueError: the predictions are of other texts.
    """
    items = [json.loads(line) for line in predictions.read_text("utf-8").splitlines()]
    rows = [json.loads(line) for line in captions.read_text("utf-8").splitlines()]
    if [item["texts"][0] for item in items] != [row["text"] for row in rows]:
        raise ValueError(f"{predictions} does not have the texts of {captions}")
    right = np.array([item["prediction"] == item["gold"] for item in items], float)
    _, picture = np.unique([row["image"] for row in rows], return_inverse=True)
    hits, total = np.bincount(picture, right), np.bincount(picture)
    rng = np.random.default_rng(0)
    sample = rng.integers(0, len(hits), (10_000, len(hits)))
    drawn = hits[sample].sum(axis=1) / total[sample].sum(axis=1)
    return {
        "texts": len(rows),
        "pictures": len(hits),
        "accuracy": float(right.mean()),
        "interval": np.quantile(drawn, [0.025, 0.975]).round(4).tolist(),
    }


if __name__ == "__main__":
    command, *paths = sys.argv[1:]
    if command == "captions":
        write_captions(*map(Path, paths))
    elif command == "answers":
        print(json.dumps(answers(*map(Path, paths)), indent=1))
    else:
        print(json.dumps(hidden_regions(paths[0], Path(paths[1])), indent=1))
