"""Predicts, for new texts, what a model was tuned to predict."""

import dataclasses
import functools
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax

from research import networks
from research.contract.errors import UserError
from research.data import cache
from research.data.documents import NAMES, Document, document_parts, join_parts
from research.data.pipeline import Data, Pipeline
from research.data.progress import MANY, progress
from research.data.read.compression import file_suffixes
from research.data.read.corpus import Corpus
from research.data.read.formats import by_suffix
from research.data.read.word_patterns import RUN, UNIT
from research.data.source.build import split_corpora
from research.data.source.text_source import TextSource
from research.data.store.example_index import build_index
from research.data.store.stream import build_stream
from research.evaluation.items import score_predictions
from research.generation.samplers import search
from research.generation.text import all_or_error, caught
from research.metrics import Item
from research.metrics.chunks import chunks
from research.predictions import prediction_kind, unscored
from research.predictions.text import text_item

if TYPE_CHECKING:  # it imports this module
    from research.use.inference.language_model import LanguageModel

BATCH = 16
"""Rows that are read at once."""
WORD = re.compile(rf"{UNIT}|{RUN}(?:[-'’.]{RUN})*|[^\w\s]")
"""A word of a text that is not divided into words: letters and digits, which may have
one of these signs between them, or another sign. Of a script without spaces between
words each letter is one, as in files of Chinese that have a tag for each character."""

Example = str | Sequence[str]
"""A text, or the parts of an example, in the order in which the run read them."""


def check_predicts(objective: Any) -> None:
    """Raises UserError: a run of the objective predicts nothing for a text."""
    if objective.predicts and prediction_kind(objective.predicts).of_texts:
        return
    encodes = hasattr(objective, "picture_vectors")
    encodes |= not hasattr(objective, "images")
    uses = {
        "fill": objective.fills_masks,
        "generate": objective.writers,
        "score": objective.score_methods,
        "vectors": objective.pattern == "self",
        "embed": encodes,
        "similarity": encodes,
        "show": True,
    }
    names = [name for name, can in uses.items() if can]
    raise UserError(
        f"a model of objective {objective.name} predicts no labels, tags, answers or "
        f"numbers; it is read by palimpsest {', '.join(names)}"
    )


class Predictor:
    """Predicts as an evaluation does, for texts whose answers are unknown.

    Args:
      model: `open_run` of a task's run, or of hf:DIR of a class with a task's head.

    Raises:
      UserError: the model predicts nothing for a text, or lacks its labels' names.
    """

    def __init__(self, model: "LanguageModel"):
        self.model, self._run = model, model.run
        self.kind = self._run.objective.predicts
        check_predicts(self._run.objective)
        kind = prediction_kind(self.kind)
        self._writes, self.of_words = kind.is_written, kind.of_words
        labels = self._run.objective.text_spec(self._run.config.data.length).label_type
        self._array = labels.array if labels else ""
        self._vocab = self._run.vocabulary.vocab
        if not self._vocab.labels and not self._writes:
            raise UserError(
                f"the checkpoint of step {self._run.step} does not name its labels; "
                "palimpsest evaluate reads them from the training text"
            )

    def predict(self, examples: Sequence[Example]) -> list[Item]:
        """A prediction for each example: `gold` and `score` are None.

        A text without tokens is read as one unknown token, as in evaluations. A text to
        tag may be given as its words; else it is split with `WORD`. See
        `research.predictions` for what `prediction` is; for tags, `details` has
        `chunks`: type, text, first character and the one after the last.

        Raises:
          UserError: an example is not a text or texts, is blank, or lacks a part.
        """
        return all_or_error(self.predict_each(examples))

    def predict_each(self, examples: Sequence[Example]) -> list[Item | UserError]:
        """Like `predict`, with the reason if an example has no prediction."""
        if isinstance(examples, str):
            raise UserError(
                f"examples must be a list; for one text write [{examples!r}]"
            )
        if not isinstance(examples, Sequence):
            raise UserError(
                f"examples must be a list of texts; got {type(examples).__name__}: "
                f"{examples!r:.60}"
            )
        found = [caught(self._document, n, each) for n, each in enumerate(examples, 1)]
        documents = [each for each in found if not isinstance(each, UserError)]
        items = {item.id: item for item in self._items(documents)}
        for number, document in enumerate(found):
            if isinstance(document, UserError):
                continue
            if item := items.get(document.id):
                if self.of_words:
                    item = self._with_chunks(item, document, examples[number])
                found[number] = item
            else:
                found[number] = UserError(
                    f"example {document.id}: {document.text!r:.40} has no token of the "
                    "vocabulary"
                )
        return found

    def _items(self, documents: Sequence[Document]) -> list[Item]:
        """The items of documents, without those whose tokens are all left out."""
        if not documents:
            return []
        if self._writes:
            written = self._written(documents)
            return [item._replace(gold=None, score=None) for item in written]
        key = cache.fingerprint([[each.text, each.starts] for each in documents])
        corpus = Corpus(
            "examples",
            lambda split: iter(documents),
            lambda: key,
            arrays={self._array: NAMES} if self.of_words else {},
        )
        items = self.predict_corpus(corpus)
        assert len(items) == len(documents)
        return [item._replace(gold=None, score=None) for item in items]

    def predict_corpus(self, corpus: Corpus, split: str = "test") -> list[Item]:
        """The items of a corpus, with scores for documents that have labels.

        Raises:
          UserError: the text cannot be read, or the objective cannot lay it out.
        """
        run, objective, data = self._run, self._run.objective, self._run.config.data
        if self._writes:
            return self._written([*corpus.documents(split)])
        length = objective.evaluation_length(data.length)
        spec = objective.text_spec(length)
        with tempfile.TemporaryDirectory() as folder:
            parts = corpus, split, run.vocabulary, Path(folder)
            stream = build_stream(*parts, data.separator)
            index = build_index(stream, spec, data.stride, Path(folder))
            rates = {corpus.name: 1.0}
            source = TextSource(
                [index],
                objective,
                self._vocab,
                length=length,
                seed=0,
                rates=rates,
                batch_size=BATCH,
            )
            pipeline = Pipeline(source, BATCH)
            predicted: list[Any] = []
            count = pipeline.num_examples or 0
            with progress("examples", count, silent=count < MANY) as report:
                for batch in pipeline.evaluation():
                    done = len(predicted) * BATCH
                    report(done, f"{done} of {count}")
                    result = self._compiled(run.params, batch | self._constants)
                    predicted.append(jax.device_get(result))
            read = Data(
                self._vocab,
                pipeline,
                pipeline,
                pipeline.fingerprint,
                {},
                vocabulary=run.vocabulary,
                documents=lambda: corpus.documents(split),
                classes=self._vocab.labels,
            )
            return score_predictions(objective, predicted, read).items

    def predict_file(self, file: str, fields: str = "", label: str = "") -> list[Item]:
        """The items of a file in one of the formats of data.format.

        Args:
          fields, label: like data.fields and data.label; "": those of the run or, for
            questions in a table, `question` and `context`. Rows may lack the label;
            texts to tag may be split into words or not.

        Raises:
          UserError: the file cannot be read, or its documents are not of this task.
        """
        data = self._run.config.data
        changes = {"fields": fields, "label": label}
        own = {name: value for name, value in changes.items() if value}
        named: dict[str, Any] = {
            name: "" for name in ("corpus", "train", "valid", "split", "task")
        }
        named |= {"test": file, "eval_split": "test", "mixture": {}, "reader": "native"}
        columns = prediction_kind(self.kind).columns
        file_format = by_suffix().get(file_suffixes(Path(file))[0])
        if columns and file_format and file_format.has_columns:
            named |= {"format": "auto", "fields": columns}
        options = dataclasses.replace(data, **named | own)
        (corpus,) = split_corpora(options, self._run.objective, "test")
        first = next(iter(corpus.documents("test")), None)
        if first is None:
            raise UserError(f"data.test={file} has no texts")
        if label and all(each.label is None for each in corpus.documents("test")):
            raise UserError(f"data.label={label}: no row of {file} has it")
        if not self.of_words:
            self._check_parts(first.id, len(first.starts) + 1)
        elif not first.arrays:  # texts, or lists of words, without tags
            documents = corpus.documents("test")
            parts = [document_parts(document) for document in documents]
            return self.predict([p[0] if len(p) == 1 else p for p in parts])
        return self.predict_corpus(corpus)

    def _document(self, number: int, example: Example) -> Document:
        if not isinstance(example, Sequence):
            raise UserError(
                f"example {number} is of type {type(example).__name__}; it must be a "
                "text, or a list of texts"
            )
        parts = [example] if isinstance(example, str) else [*example]
        for part in parts:
            if not isinstance(part, str) or not part.strip():
                raise UserError(f"example {number}: {part!r:.40} is blank or not text")
        if self.of_words and len(parts) == 1:
            parts = WORD.findall(parts[0])
        separator = " " if self.of_words else "\n"
        document = join_parts(parts, separator)._replace(id=str(number))
        if self.of_words:
            names = (self._vocab.labels[0],) * len(parts)
            return document._replace(arrays={self._array: names})
        self._check_parts(f"example {number}", len(parts))
        return document

    def split_examples(self, texts: Sequence[str]) -> Sequence[Example]:
        """Each text as an example if the run's have one text; else all as one example.

        For a tagger, they are the words of one example if no text has a space.
        """
        if self.of_words:
            is_each = any(len(text.split()) > 1 for text in texts)
        else:
            one, all_ = self._expected_texts(1), self._expected_texts(len(texts))
            is_each = not one and bool(all_)
        return texts if is_each or len(texts) == 1 else [texts]

    def _expected_texts(self, count: int) -> str:
        """The texts that an example must have if `count` is not allowed, else ""."""
        fields = [each for each in self._run.config.data.fields.split(",") if each]
        return prediction_kind(self.kind).expected_texts(count, fields)

    def _check_parts(self, name: str, count: int) -> None:
        """Raises UserError: an example has more or fewer texts than the run's."""
        if reads := self._expected_texts(count):
            noun = "text" if count == 1 else "texts"
            raise UserError(
                f"{name} has {count} {noun}, but the run reads {reads}; several "
                "examples are a file (--data=F), or in Python a list of examples"
            )

    def _with_chunks(self, item: Item, document: Document, example: Example) -> Item:
        """The item with the chunks of its tags, as characters of the example."""
        if isinstance(example, str):
            text, found = example, WORD.finditer(example)
            bounds = [match.span() for match in found]
        else:
            text = document.text
            begins = (0, *document.starts)
            words = zip(begins, item.texts, strict=True)
            bounds = [(begin, begin + len(word)) for begin, word in words]
        described = [
            {
                "type": name,
                "text": text[bounds[first][0] : bounds[last][1]],
                "begin": bounds[first][0],
                "end": bounds[last][1],
            }
            for name, first, last in chunks(item.prediction, self._vocab.labels)
        ]
        return item._replace(details=dict(item.details) | {"chunks": described})

    def _written(self, documents: Sequence[Document]) -> list[Item]:
        """What the model writes for the first part of each document."""
        prompts = [each.text[: (*each.starts, None)[0]].strip() for each in documents]
        objective: Any = self._run.objective
        options = {"beams": objective.beams, "length_penalty": objective.length_penalty}
        most = {"max_tokens": objective.max_new_tokens}
        written = self.model.generate(prompts, **search(options) | most)
        items = []
        for document, (best, *_) in zip(documents, written, strict=True):
            item = unscored(document, best.text.strip())
            if document.starts:
                gold = document.text[document.starts[0] :].strip()
                found = text_item(item.id, item.prediction, gold)
                item = found._replace(texts=item.texts)
            items.append(item)
        return items

    @functools.cached_property
    def _constants(self) -> dict[str, Any]:
        return self._run.input_constants(self._run.objective, self.model.needs)

    @functools.cached_property
    def _compiled(self) -> Any:
        """(params, batch) -> predictions of the batch."""

        def predict(params: Any, batch: Any) -> Any:
            fn = functools.partial(self._run.objective.predictions, batch=batch)
            return networks.apply(self._run.network, params, fn)

        return jax.jit(predict)
