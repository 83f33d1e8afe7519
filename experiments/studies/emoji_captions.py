r"""Captions of emoji with groups of variants, and what ridge regression retrieves.

    python -m experiments.studies.emoji_captions captions D/captions.jsonl E/emoji.jsonl
    palimpsest images --pictures=D/images.zip --captions=E/emoji.jsonl \
        --group-column=group --to=E/store
    python -m experiments.studies.emoji_captions ridge E/store

The first command reads lines with `image`, `name_LANGUAGE` and `keywords_en`. Variants
of one emoji (man, woman and person, hair, skin, the hours of a clock) have one group,
so that none of them is in both splits.
"""

import json
import re
import sys
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import Ridge

from research.data.store.pictures import open_store
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
    else:
        print(json.dumps(ridge(paths[0]), indent=1))
