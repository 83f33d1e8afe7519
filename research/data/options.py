"""The config section `data`: the text, its vocabulary, the order it is read in."""

import dataclasses
from dataclasses import dataclass
from functools import partial

from research.contract.fields import (
    RATES,
    choice,
    fraction,
    free_text,
    number,
    with_lines,
    with_metadata,
)
from research.contract.parts import Folder, chosen, part
from research.data.order.mixture_schedule import MIXINGS
from research.data.read import text_sources
from research.data.read.corpus import SPLITS, split_fractions
from research.data.read.formats import FORMATS, FileFormat, check_encoding
from research.data.rows import UNITS, packings
from research.data.tokenize.normalization import NORMALIZERS

VOCABULARIES = Folder("research.data.tokenize.tokenizer_types", "TokenizerType")
dim = partial(number, most=2**20)  # the size of a dim of an array
of_batches = partial(with_metadata, of_batches=True)  # a key on which saved batches
# depend, besides those of the text


def _packings() -> dict[str, str]:
    lines = {"": "the rows of the objective"} | UNITS.lines()
    return {packing: lines[unit] for packing, unit in packings().items()}


@dataclass(frozen=True)
class DataOptions:
    """The text, its vocabulary, and the order in which it is read."""

    corpus: str = with_lines(free_text("embedded"), text_sources.lines())  # files, a
    # folder or a glob, each also as .gz and .zst, or one of these; documents belong to
    # splits by their hash
    train: str = free_text("")  # files of the training split, or a data set's name, as
    # in data.corpus: its own split; replaces data.corpus, whose splits are by hash
    valid: str = free_text("")  # the same of the validation split
    test: str = free_text("")  # the same of the test split
    split: str = free_text("")  # fractions of data.train in train, valid and test, as
    # in 0.8,0.1,0.1, by the hash of a text, so that equal texts are in one split. A
    # split with files of its own has 0. "": all of data.train is for training
    encoding: str = free_text("utf-8")  # of text files; any of Python's, as in latin-1
    format: str = part("auto", FORMATS)  # of files, a module of data/read/formats;
    # auto: by their suffix
    fields: str = free_text("")  # columns, keys or suffixes (of a.en and a.de) of an
    # example's parts, as in en,de; without a header numbers from 0, -1 for the last
    label: str = free_text("")  # column or key of the label; "": that of the format,
    # if it has one. Files of data.test may lack it. For files without columns: file,
    # suffix or folder, a part of their paths, or a rule of their format (docs/parts.md)
    mixture: dict = dataclasses.field(default_factory=dict, metadata=RATES)  # corpus ->
    # rate; when not empty, replaces corpus
    mixing: str = of_batches(choice("rows", MIXINGS))  # of the corpora of mixture
    task: str = free_text("")  # replaces corpus: a seqio task or mixture (its module
    # before a colon if it must be imported), or a folder of saved batches
    reader: str = choice("native", ("native", "seqio"))  # seqio: through its registry;
    # both give the same bytes
    length: int = of_batches(dim(128, least=1))  # tokens of the network's input
    length_buckets: list = dataclasses.field(default_factory=list)  # for tasks: lengths
    # below data.length, as in [32, 64]; texts of similar length share a batch of the
    # shortest length that holds them, which saves padding (tokens are counted as if all
    # had data.length). []: all have data.length
    stride: int = number(0, least=0)  # tokens from one example's start to the next; 0:
    # the number of tokens that an example reads
    train_split: str = of_batches(choice("train", SPLITS))
    eval_split: str = of_batches(choice("valid", SPLITS))
    held_out: float = number(0.02, least=0, below=0.5)  # fraction of documents in
    # valid, and as many in test, by hash
    vocabulary: str = with_lines(free_text("unigram"), VOCABULARIES.lines())  # one of
    # these, a model file, or a run's workdir
    vocabulary_size: int = dim(8192, least=1)  # pieces, including special ones
    vocabulary_sample: int = number(10**9, least=1, most=2**40)  # most bytes of text to
    # train a vocabulary on: the lines with the smallest hashes
    whitespace: str = choice("auto", ("auto", "keep", "collapse"))  # collapse: a run
    # of it becomes one space, also between lines; only bytebpe can keep it (auto)
    normalizer: str = choice("none", NORMALIZERS)  # of text before tokenization by a
    # vocabulary trained here: none; Unicode's NFKC; lower case; without accents; both
    # (uncased)
    sentinels: int = dim(100, least=0)  # special pieces that stand for hidden spans
    packing: str = of_batches(choice("none", _packings()))  # of documents into rows
    separator: str = choice("eos", ("eos", "lines", "none"))  # joins documents of the
    # stream; lines: eos ends each line, and so each document
    alpha: float = fraction(0.0)  # 0: mixture rates as given; else a corpus has rate
    # (its tokens) ** alpha, also among the lines that train the vocabulary
    dupe_factor: int = of_batches(number(0, least=0))  # epoch e is corrupted like epoch
    # e % dupe_factor (static masking); 0: every epoch differently
    pairs: str = of_batches(choice("once", ("once", "each_copy")))  # when sentences
    # are packed into pairs or halves, with random cuts, lengths and second segments;
    # each_copy: again for each of dupe_factor copies (BERT), or for each epoch if that
    # is 0
    lexicon: str = free_text("", source="files")  # files, separated by commas, of
    # words, phrases, ... with lines entry<TAB>type; or of triples of a knowledge graph,
    # whose entities are the entries, in a notation that docs/parts.md names
    lexicon_texts: str = free_text(
        "", source="file"
    )  # a file of lines name<TAB>text that spell
    # these entities and relations; "": by their names
    cache_dir: str = free_text("")  # vocabularies, ...; "": ~/.cache/palimpsest
    file_format: FileFormat | None = chosen("format")  # None: by the suffix of a file

    def __post_init__(self):
        check_encoding(self.encoding)
        if not self.split:
            return
        fractions = dict(zip(SPLITS, split_fractions(self.split), strict=True))
        if not self.train:
            raise ValueError(
                "data.split divides the files of data.train, which is empty; "
                "data.held_out divides data.corpus"
            )
        for split in (self.train_split, self.eval_split):
            if not fractions[split] and not getattr(self, split):
                raise ValueError(
                    f"data.split={self.split} has nothing in {split}, and data.{split} "
                    "names no files; give it a fraction, as in 0.8,0.1,0.1"
                )
