"""Makes tests/goldens/pipelines: what transformers' pipelines predict for 50 inputs.

    HF/bin/python tests/proofs/huggingface_pipelines.py tests/goldens/pipelines TEXTS...

`make pipelines-hf` calls it with transformers 4.57, the last that has a pipeline which
answers questions. Each folder is a tiny BERT with random parameters and a vocabulary of
the most frequent words and all letters of TEXTS, saved by transformers, and
pipeline.json: inputs, and what the pipeline says of each. Nothing here imports this
project, so that only transformers' code decides what is right.
"""

import itertools
import json
import re
import sys
from collections import Counter
from pathlib import Path

import torch
import transformers

NUM_INPUTS, NUM_WORDS, MAX_LENGTH = 50, 200, 256
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MAX_ANSWER = 30
"""Tokens of an answer, as in google-research/bert; the pipeline's default is 15."""
EMOTIONS = ("joy", "anger", "neither")
TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
CASES = {  # folder -> task of a pipeline, class, names of the head's values
    "classes": (*("text-classification", "BertForSequenceClassification", EMOTIONS),),
    "tags": ("token-classification", "BertForTokenClassification", TAGS),
    "answers": ("question-answering", "BertForQuestionAnswering", ()),
}
FOREIGN = (
    "Der Fuchs läuft über die Brücke.",
    "Où est passée la clé ?",
    "42 % of 7,000!",
)


def sentences(paths: list[str]) -> list[str]:
    """Sentences of some words of Markdown files, without their marks.

    None has a word with a sign within it (as in 0.5 or don't): BERT's tokenizer reads
    the parts as words, this project the whole.
    """
    found = list(FOREIGN)
    for path in paths:
        for line in Path(path).read_text("utf-8").splitlines():
            if re.match(r"\w", line) and "`" not in line:
                plain = re.sub(r"\]\([^)]*\)|[\[*]", "", line)
                found += re.split(r"(?<=[.:;]) ", plain)
    is_plain = re.compile(r"(?!.*\w[-'’.]\w)[^_|<>/\\]{20,120}").fullmatch
    return [each.strip() for each in found if is_plain(each)]


def vocabulary(texts: list[str]) -> list[str]:
    """Specials, every letter at the beginning and within a word, frequent words."""
    normalize = transformers.BasicTokenizer().tokenize
    words = [word for text in texts for word in normalize(text)]
    letters = sorted({letter for word in words for letter in word})
    counts = Counter(word for word in words if len(word) > 1)
    frequent = sorted(counts, key=lambda word: (-counts[word], word))[:NUM_WORDS]
    return [*SPECIALS, *letters, *(f"##{each}" for each in letters), *frequent]


def save(folder: Path, name: str, texts: list[str]) -> None:
    """The model and its tokenizer."""
    pieces = vocabulary(texts)
    _, class_name, labels = CASES[name]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join([*pieces, ""]), "utf-8")
    names = {"id2label": dict(enumerate(labels))} if labels else {}
    config = transformers.BertConfig(
        vocab_size=len(pieces),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=MAX_LENGTH,
        **names,
    )
    model = getattr(transformers, class_name)(config).eval()
    for key, parameter in model.named_parameters():
        is_scale = parameter.ndim == 1 and key.endswith("weight")
        with torch.no_grad():
            parameter.normal_(1.0 if is_scale else 0.0, 0.4)
    of_bert = {"tokenizer_class": "BertTokenizer", "model_max_length": MAX_LENGTH}
    (folder / "tokenizer_config.json").write_text(json.dumps(of_bert) + "\n")
    model.save_pretrained(folder)
    if labels:  # each is about as frequent as the others
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        inputs = tokenizer(texts, padding=True, return_tensors="pt")
        with torch.no_grad():
            logits = model(**inputs).logits.flatten(0, -2)
            model.classifier.bias -= logits.mean(dim=0)
        model.save_pretrained(folder)


def predictions(folder: Path, name: str, texts: list[str]) -> dict:
    """Inputs, and what a pipeline says of each; of answers all read one window."""
    pipeline = transformers.pipeline(CASES[name][0], model=str(folder))
    if name == "classes":  # half of them are pairs
        pairs = list(itertools.pairwise(texts))
        inputs = [*texts[: NUM_INPUTS // 2], *pairs[: NUM_INPUTS // 2]]
        outputs = []
        for each in inputs:
            text, pair = (each, None) if isinstance(each, str) else each
            found = pipeline({"text": text, "text_pair": pair}, top_k=None)
            outputs.append(
                {value["label"]: round(value["score"], 7) for value in found}
            )
    elif name == "tags":
        inputs, outputs = texts[:NUM_INPUTS], []
        for text in inputs:
            pieces = pipeline(text, ignore_labels=[])
            chunks = pipeline(text, aggregation_strategy="first")
            outputs.append(
                {
                    "pieces": [
                        [at["start"], at["entity"], round(float(at["score"]), 7)]
                        for at in pieces
                    ],
                    "chunks": [
                        [at["entity_group"], at["start"], at["end"]] for at in chunks
                    ],
                }
            )
    else:
        inputs = list(zip(texts, reversed(texts), strict=True))[:NUM_INPUTS]
        whole = {"align_to_words": False, "max_answer_len": MAX_ANSWER}
        whole["max_seq_len"] = MAX_LENGTH
        outputs = [
            pipeline(question=question, context=context, **whole)["answer"]
            for question, context in inputs
        ]
    return {"inputs": inputs, "outputs": outputs}


def main(folder: Path, paths: list[str]) -> None:
    """Makes all cases."""
    texts = sentences(paths)
    for seed, name in enumerate(CASES):
        torch.manual_seed(seed)
        save(folder / name, name, texts)
        found = predictions(folder / name, name, texts[: 4 * NUM_INPUTS])
        path = folder / name / "pipeline.json"
        path.write_text(json.dumps(found, ensure_ascii=False) + "\n", "utf-8")
        print(name, len(found["inputs"]), "inputs")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
