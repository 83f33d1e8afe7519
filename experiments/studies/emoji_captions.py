r"""Captions of emoji with groups of variants, and what ridge regression retrieves.

    python -m experiments.studies.emoji_captions captions D/captions.jsonl E/emoji.jsonl
    palimpsest images --pictures=D/images.zip --captions=E/emoji.jsonl \
        --group-column=group --to=E/store
    python -m experiments.studies.emoji_captions ridge E/store
    python -m experiments.studies.emoji_captions vary D/images.zip E/emoji.jsonl E/v
    palimpsest images --pictures=E/v --captions=E/v/captions.jsonl \
        --group-column=group --held-out=0.2 --size=24 --to=E/store24

The first command reads lines with `image`, `name_LANGUAGE` and `keywords_en`. Variants
of one emoji (man, woman and person, hair, skin, the hours of a clock) have one group,
so that none of them is in both splits. `vary` adds to each picture for training seven
that are moved, scaled and mirrored by chance, with some of the keywords in any order;
those that are held out stay as they are.
"""

import itertools
import json
import random
import re
import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import Ridge

from research.data.read.picture_sources import open_source
from research.data.read.pictures import Columns, decode_picture, read_rows
from research.data.store.pictures import open_store, split_rows
from research.predictions.retrieval import pair_ranks

PEOPLE = re.compile(
    r"\b(wo)?(man|men)\b|\b(person|people|boy|girl|girls|child|adult|mrs|claus|santa)\b"
    r"|\b(prince|princess|princes|mermaid|merman|merperson|mx|mother|father)\b"
)
FAMILIES = {
    "clock": r"o.clock|-thirty",
    "hair": r"\bhair\b|bald|beard",
    "skin": "skin tone",
    "family": r"family|couple|kiss: |holding hands",
    "moon": "moon",
    "keycap": "keycap",
    "button": "button",
}
SIZE = 12
VARIANTS, SHIFT = 8, 6
"""Pictures of one for training, and the pixels that one is moved by at most."""


def group_of(name: str) -> str:
    """The name of what an emoji varies."""
    name = name.lower()
    for family, pattern in FAMILIES.items():
        if re.search(pattern, name):
            return family
    words = PEOPLE.sub("", name.partition(":")[0])
    kept = [word for word in re.findall(r"\w+", words) if word not in ("in", "with")]
    return " ".join(kept) or "person"


def write_captions(source: Path, to: Path, language: str = "en") -> None:
    """Lines of a picture, its group, and its name, in English with its keywords."""
    with to.open("w", encoding="utf-8") as file:
        for line in source.read_text("utf-8").splitlines():
            row = json.loads(line)
            words = row["keywords_en"] if language == "en" else []
            caption = ", ".join([row[f"name_{language}"], *words])
            made = {"file": row["image"], "caption": caption}
            made["group"] = group_of(row["name_en"])
            file.write(json.dumps(made, ensure_ascii=False) + "\n")


def write_variants(source: str, captions: str, to: str, held_out: float = 0.2) -> None:
    """The pictures and captions of both splits, those for training `VARIANTS` times."""
    rng, folder, pictures = random.Random(0), Path(to), open_source(Path(source))
    folder.mkdir(parents=True, exist_ok=True)
    rows = read_rows(Path(captions), Columns(group="group"))
    splits = split_rows(rows, held_out)
    with (folder / "captions.jsonl").open("w", encoding="utf-8") as file:
        for count, split in zip((VARIANTS, 1), splits, strict=True):
            for row, number in itertools.product(split, range(count)):
                content = pictures.read(row.file, row.where)
                pixels, _ = decode_picture(content, row, 72, 72)
                image, caption = Image.fromarray(pixels), row.captions[0]
                if number:
                    image, caption = _varied(image, rng), _some_words(caption, rng)
                name = f"{Path(row.file).stem}-{number}.png"
                image.save(folder / name)
                made = {"file": name, "caption": caption, "group": row.group}
                file.write(json.dumps(made, ensure_ascii=False) + "\n")


def _varied(image: Image.Image, rng: random.Random) -> Image.Image:
    """The picture scaled by up to a twelfth, moved by up to `SHIFT`, maybe mirrored."""
    side = round(image.width * rng.uniform(1 - SHIFT / 72, 1 + SHIFT / 72))
    middle = (image.width - side) // 2
    corner = [middle + rng.randint(-SHIFT, SHIFT) for _ in range(2)]
    found = Image.new("RGB", image.size, "white")
    found.paste(image.resize((side, side)), tuple(corner))
    return ImageOps.mirror(found) if rng.random() < 0.5 else found


def _some_words(caption: str, rng: random.Random) -> str:
    """At least half of the words of a caption, in any order."""
    words = caption.split(", ")
    return ", ".join(
        rng.sample(words, rng.randint(max(1, len(words) // 2), len(words)))
    )


def ridge(folder: str) -> dict[float, dict[str, float]]:
    """Strength -> R@k of ridge regression from means of 12 x 12 cells to tf-idf."""
    store = open_store(folder)
    texts = {}
    for split in ("train", "valid"):
        lines = (Path(folder) / f"{split}.captioned").read_text("utf-8").splitlines()
        texts[split] = [json.loads(line) for line in lines]

    def features(rows):
        picked = store.pixels[[row["image"] for row in rows]].astype(np.float32) / 255
        count, height, width, colours = picked.shape
        cells = picked.reshape(
            count, SIZE, height // SIZE, SIZE, width // SIZE, colours
        )
        return cells.mean(axis=(2, 4)).reshape(count, -1)

    tfidf = TfidfVectorizer(sublinear_tf=True)
    known = tfidf.fit_transform(row["text"] for row in texts["train"]).toarray()
    given = tfidf.transform(row["text"] for row in texts["valid"]).toarray()
    pictures = features(texts["train"])
    mean, target_mean = pictures.mean(axis=0), known.mean(axis=0)
    found = {}
    for alpha in (10.0, 100.0, 1000.0):
        model = Ridge(alpha=alpha, fit_intercept=False)
        model.fit(pictures - mean, known - target_mean)
        image = model.predict(features(texts["valid"]) - mean)
        picture = np.array([row["image"] for row in texts["valid"]])
        ranks = pair_ranks(image, given - target_mean, picture, np.ones(len(picture)))
        found[alpha] = {
            f"{side}_{k}": float((ranks[:, n] <= k).mean())
            for n, side in enumerate(("image_to_text", "text_to_image"))
            for k in (1, 5, 10)
        }
    return found


if __name__ == "__main__":
    command, *paths = sys.argv[1:]
    if command == "captions":
        write_captions(*map(Path, paths[:2]), *paths[2:])
    elif command == "vary":
        write_variants(*paths)
    else:
        print(json.dumps(ridge(paths[0]), indent=1))
