"""Token ids of Hugging Face's own tokenizers, and ours of the files that they save.

    HF/bin/python tests/proofs/huggingface_tokenizers.py make FOLDER LINES
    HF/bin/python tests/proofs/huggingface_tokenizers.py download FOLDER LINES
    .venv/bin/python -m tests.proofs.huggingface_tokenizers compare FOLDER

The first two commands need transformers and nothing of this project (`make goldens-hf`
has such an environment). The first trains a tokenizer of each kind on the lines of a
text file, saves it in both forms, the family's old one and tokenizer.json, and keeps
the ids of all lines; the second takes published tokenizers from the hub in their place,
which needs a network. The third reads what is there and fails if any line's ids differ.
Runs of white space are one space in the lines: where a family keeps them, ours makes
one of them.
"""

import json
import sys
from functools import partial
from pathlib import Path

SIZE = 8000
IDS, RAW, SAVED = "ids.json", "raw", "saved"


def wordpiece(lines, folder, lowercase):
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertTokenizer

    trained = BertWordPieceTokenizer(lowercase=lowercase)
    trained.train_from_iterator(lines, vocab_size=SIZE, show_progress=False)
    trained.save_model(str(folder))
    return BertTokenizer(vocab=str(folder / "vocab.txt"), do_lower_case=lowercase)


def byte_level(lines, folder, name, specials):
    import transformers
    from tokenizers import ByteLevelBPETokenizer

    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(
        lines, vocab_size=SIZE, special_tokens=specials, show_progress=False
    )
    return of_merges(trained, folder, getattr(transformers, name))


def gpt(lines, folder):
    from tokenizers import CharBPETokenizer
    from transformers import OpenAIGPTTokenizer

    trained = CharBPETokenizer(lowercase=True, bert_normalizer=True)
    trained.train_from_iterator(lines, vocab_size=SIZE, show_progress=False)
    return of_merges(trained, folder, OpenAIGPTTokenizer)


def of_merges(trained, folder, cls):
    trained.save_model(str(folder))
    return cls(vocab=str(folder / "vocab.json"), merges=str(folder / "merges.txt"))


def sentencepieces(lines, folder, name, file, **options):
    import sentencepiece
    from transformers import AutoTokenizer

    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_prefix=str(folder / "trained"),
        vocab_size=SIZE,
        minloglevel=2,
        **options,
    )
    (folder / "trained.model").rename(folder / file)
    (folder / "trained.vocab").unlink()
    config = {"tokenizer_class": name}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return AutoTokenizer.from_pretrained(str(folder))


CASES = {
    "bert": (wordpiece, False),
    "bert-uncased": (wordpiece, True),
    "gpt2": (byte_level, "GPT2Tokenizer", ["<|endoftext|>"]),
    "roberta": (
        byte_level,
        "RobertaTokenizer",
        ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
    ),
    "openai-gpt": (gpt,),
    "t5": (
        sentencepieces,
        "T5Tokenizer",
        "spiece.model",
        {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1},
    ),
    "xlnet": (
        sentencepieces,
        "XLNetTokenizer",
        "spiece.model",
        {"control_symbols": ["<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"]},
    ),
    "albert": (
        sentencepieces,
        "AlbertTokenizer",
        "spiece.model",
        {
            "pad_id": 0,
            "unk_id": 1,
            "bos_id": -1,
            "eos_id": -1,
            "control_symbols": ["[CLS]", "[SEP]", "[MASK]"],
        },
    ),
    "xlm-roberta": (
        sentencepieces,
        "XLMRobertaTokenizer",
        "sentencepiece.bpe.model",
        {},
    ),
    "llama": (
        sentencepieces,
        "LlamaTokenizer",
        "tokenizer.model",
        {
            "model_type": "bpe",
            "byte_fallback": True,
            "normalization_rule_name": "identity",
            "remove_extra_whitespaces": False,
            "split_digits": True,
            "character_coverage": 0.99995,
        },
    ),
}
"""Family -> how it is trained."""

PUBLISHED = (
    "google-bert/bert-base-uncased",
    "google-bert/bert-base-cased",
    "google-bert/bert-base-chinese",
    "FacebookAI/roberta-base",
    "FacebookAI/xlm-roberta-base",
    "albert/albert-base-v2",
    "google/electra-small-discriminator",
    "xlnet/xlnet-base-cased",
    "openai-community/openai-gpt",
    "openai-community/gpt2",
    "google-t5/t5-small",
    "google/t5-v1_1-small",
    "facebook/bart-base",
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
)
"""Models of the hub whose vocabularies anyone may download."""


def trained(lines, folder):
    """Name and tokenizer of each case; its family's old files go to the folder."""
    for name, (train, *args) in CASES.items():
        options = args.pop() if args and isinstance(args[-1], dict) else {}
        raw = folder / name / RAW
        raw.mkdir(parents=True, exist_ok=True)
        yield name, train(lines, raw, *args, **options)


def published(lines, folder):
    """Name and tokenizer of each published model."""
    from transformers import AutoTokenizer

    for name in PUBLISHED:
        yield name.replace("/", "--"), AutoTokenizer.from_pretrained(name)


def keep(tokenizers, folder: Path, file: Path) -> None:
    """Saves tokenizers, with the ids of the lines of a file."""
    lines = [" ".join(line.split()) for line in file.read_text("utf-8").splitlines()]
    ids = {}
    for name, tokenizer in tokenizers(lines, folder):
        tokenizer.save_pretrained(folder / name / SAVED)
        ids[name] = [tokenizer.encode(x, add_special_tokens=False) for x in lines]
        print(name, type(tokenizer).__name__, f"{sum(map(len, ids[name])):,} tokens")
    (folder / IDS).write_text(json.dumps({"lines": lines, "ids": ids}))


def compare(folder: Path) -> int:
    """The number of lines whose ids differ."""
    from research.data.tokenize.vocabulary import load_vocabulary

    made, wrong = json.loads((folder / IDS).read_text()), 0
    for name, expected in made["ids"].items():
        for part in (RAW, SAVED):
            if not (folder / name / part).exists():
                continue
            vocabulary = load_vocabulary(folder / name / part, 0)
            found = [vocabulary.encode(line)[0].tolist() for line in made["lines"]]
            pairs = zip(made["lines"], found, expected, strict=True)
            differ = [line for line, own, theirs in pairs if own != theirs]
            print(f"{name}/{part}: {len(differ)} of {len(found)} lines differ")
            for line in differ[:2]:
                print(f"  {line[:70]!r}")
            wrong += len(differ)
    return wrong


if __name__ == "__main__":
    command, *paths = sys.argv[1:]
    commands = {"make": partial(keep, trained), "download": partial(keep, published)}
    sys.exit((commands | {"compare": compare})[command](*map(Path, paths)))
