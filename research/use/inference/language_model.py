"""A trained network and its vocabulary, on texts and NumPy arrays."""

# B batch, L length, D width

import dataclasses
import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from research import networks
from research.contract.batch import input_group
from research.contract.errors import UserError, unknown
from research.data.progress import MANY, progress
from research.data.read.picture_sources import open_source
from research.data.tokenize.masked_text import encode_with_masks
from research.evaluation.sentence_scores import Score, Scorer
from research.evaluation.word_vectors import WordVectors
from research.generation.fill import Candidate, check_length, make_fill
from research.generation.generate import own_method
from research.generation.rows import map_rows
from research.generation.samplers import make_sampler
from research.generation.text import NewText, all_or_error, caught, make_writer
from research.metrics import Item
from research.objectives.layout import input_format
from research.objectives.layout.prompt import pad_rows
from research.objectives.layout.specials import Specials
from research.program.restored import RestoredRun
from research.use.inference.picture_vectors import encode_pictures, encode_stored
from research.use.inference.predict import Predictor

POOLS = ("mean", "class")
"""What a vector is: the mean of the states of all tokens; that of the class token."""
MIN_LENGTH = 16
"""Positions of a row at least."""
WIDTHS_AN_OCTAVE = 4
"""Lengths of rows between one power of two and the next: each is compiled once, and a
row of more than 32 tokens is at most a quarter longer than its text."""


class Filled(NamedTuple):
    """A token that may replace a mask."""

    text: str  # of the token, with the space before it if it starts a word
    token: int
    probability: float


@dataclasses.dataclass(frozen=True, eq=False)
class LanguageModel:
    """The result of `open_run`.

    Attributes:
      run: the objective, its network and parameters, and the vocabulary.
      needs: what the network was built for.
      specials: the special tokens with which a text is read, without those that the
        network does not have.
      missing: names of parameters that the model does not have: those of its readout.
      writing: default options of `generate` (`research.generation.samplers`), from a
        folder of Hugging Face.
      pool, normalize, max_length: defaults of `encode`, from a folder of
        sentence-transformers. max_length 0: the model's length.
    """

    run: RestoredRun
    needs: networks.Needs
    specials: Specials
    missing: tuple[str, ...] = ()
    writing: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    pool: str = "mean"
    normalize: bool = False
    max_length: int = 0

    def __repr__(self) -> str:
        run = self.run
        size = sum(leaf.size for leaf in jax.tree.leaves(run.params))
        return (
            f"LanguageModel(objective={run.objective.name!r}, step={run.step}, "
            f"parameters={size:,}, vocabulary={run.vocabulary.vocab.size:,})"
        )

    @functools.cached_property
    def word_vectors(self) -> WordVectors:
        """The words of the vocabulary and their vectors, the most frequent first.

        For pairs (GloVe), those that co-occur with the most others come first.

        Words that the vocabulary lacks also have vectors if the network makes them from
        n-grams (`model.buckets`).

        Raises:
          UserError: the pieces of the vocabulary are not words, or the network has more
            than one token table.
        """
        vocabulary, params = self.run.vocabulary, self.run.params
        if not vocabulary.type.has_words:
            raise UserError(
                f"the vocabulary is {vocabulary.tokenizer_type}: its pieces are not "
                "words; vectors of words need data.vocabulary=words"
            )
        spelling = vocabulary.vocab.spelling
        rows = self.run.network.options.word_rows(params, spelling)
        if rows is not None:
            params = {"token": {"embedding": rows.vectors}}
        table = self.run.objective.word_table(params)
        if table is None:
            raise UserError(
                "the network does not have one table with a vector for each word"
            )
        token = vocabulary.vocab.ordinary_ids
        words = [vocabulary.piece_text(int(i)).strip(" ") for i in token]
        return WordVectors(words, np.asarray(table)[token], rows)

    def encode(
        self,
        texts: Sequence[str | Path],
        pool: str = "",
        *,
        normalize: bool | None = None,
        max_length: int = 0,
        batch: int = 32,
    ) -> np.ndarray:
        """A vector of each text, float32 [texts, D], from the last layer.

        A text is read with its special tokens, and truncated to the row; a line on
        stderr says how many texts are. For ELECTRA the vector is the discriminator's,
        for an encoder-decoder the encoder's. `Specials` defines the class token.

        For an objective that compares texts with pictures it is the vector that is
        compared, and paths instead of texts are those of pictures.

        Args:
          texts: texts, or the paths of pictures.
          pool: one of `POOLS`; the mean includes special tokens. "": the model's.
          normalize: whether vectors have length 1; None: the model's.
          max_length: maximum of tokens of a text, with special ones; 0: the model's.
          batch: number of texts read at once, grouped by similar length.

        Raises:
          UserError: `pool` is unknown, or the network has no class token or reads
            backward; `max_length` has no room for a token or exceeds the model's;
            `batch` is below 1; `texts` is not a list of texts.
        """
        check_whole("batch", batch, 1)
        if normalize not in (None, True, False):
            raise UserError(f"normalize must be True, False or None; got {normalize!r}")
        if texts and all(isinstance(each, Path) for each in texts):
            names = [str(each) for each in texts]
            return self.encode_pictures(Path(), names, normalize=normalize, batch=batch)
        texts = as_texts("texts", cast(Sequence[str], texts))
        head = "" if pool else self.run.objective.vector_head
        pool = pool or self.pool
        if pool not in POOLS:
            raise unknown("pool", pool, POOLS)
        if pool == "class" and self._has_encoder:
            raise UserError(
                "pool is class, but an encoder-decoder has no class token; set mean"
            )
        if self.run.objective.reads_backward:
            raise UserError("a network that reads backward gives texts no vectors")
        length = self._row_length(max_length)
        rows, num_cut = [], 0
        for text in texts:
            row, is_cut = self._with_specials(text, length)
            rows.append(row)
            num_cut += is_cut
        if num_cut:
            print(
                f"{num_cut} of {len(rows)} texts have more than {length} tokens and "
                "are cut",
                file=sys.stderr,
            )
        vectors = np.zeros((len(rows), self._encoded_width(head)), np.float32)
        encode = functools.partial(self._encoder(head), self.run.params)
        order = np.argsort([len(row) for row in rows], kind="stable")[::-1]
        with progress("vectors", len(rows), silent=len(rows) < MANY) as report:
            for start in range(0, len(rows), batch):
                at = order[start : start + batch]
                size = min(batch, 1 << (len(at) - 1).bit_length())
                filled = [rows[i] for i in np.pad(at, (0, size - len(at)), mode="edge")]
                arrays = self._arrays(filled, pool)
                found = map_rows(encode, arrays, batch=batch, mesh=self.run.mesh)
                vectors[at] = found[: len(at)]
                done = start + len(at)
                report(done, f"{done} of {len(rows)} texts")
        return self._normalized(vectors, normalize)

    def encode_pictures(
        self,
        source: str | Path,
        names: Sequence[str],
        *,
        normalize: bool | None = None,
        batch: int = 32,
    ) -> np.ndarray:
        """A vector of each picture, float32 [names, D].

        Args:
          source: a path that `picture_sources.open_source` opens.
          names: the paths of pictures in it.
          normalize, batch: as in `encode`.

        Raises:
          UserError: the run does not encode pictures, or one cannot be decoded.
        """
        pictures = open_source(Path(source))
        vectors = encode_pictures(self.run, pictures, names, batch)
        return self._normalized(vectors, normalize)

    def encode_stored(self, numbers: Sequence[int], batch: int = 32) -> np.ndarray:
        """A vector of each picture of the run's store, float32 [numbers, D].

        Raises:
          UserError: the run does not encode pictures, or a picture does not exist.
        """
        return self._normalized(encode_stored(self.run, numbers, batch), None)

    def _normalized(self, vectors: np.ndarray, normalize: bool | None) -> np.ndarray:
        """The vectors, with length 1 if requested or if that is the model's default."""
        if self.normalize if normalize is None else normalize:
            norm = np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors /= np.maximum(norm, np.finfo(np.float32).tiny)
        return vectors

    def similarity(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """[pairs] float32: the cosines between the vectors of `encode` of two texts.

        Raises:
          UserError: as in `encode`; or a pair is not two texts.
        """
        if isinstance(pairs, str) or not isinstance(pairs, Sequence):
            raise UserError(
                f"pairs must be a list of pairs of texts; got {pairs!r:.60}"
            )
        for number, pair in enumerate(pairs, 1):
            if len(pair) != 2:
                raise UserError(f"pair {number} has {len(pair)} texts, not 2: {pair!r}")
        texts = [text for pair in pairs for text in pair]
        vectors = self.encode(texts, normalize=True)
        return np.sum(vectors[::2] * vectors[1::2], axis=1)

    def num_tokens(self, texts: Sequence[str]) -> int:
        """The number of tokens that `encode` reads, special ones included."""
        texts, length = as_texts("texts", texts), self._row_length(0)
        return sum(len(self._with_specials(text, length)[0]) for text in texts)

    def _row_length(self, max_length: int) -> int:
        """The tokens of a text that are read, with its special ones.

        Raises:
          UserError: the length has no room for a token, or is beyond the model's.
        """
        check_whole("max_length", max_length, 0)
        most = self.run.config.data.length
        length = max_length or min(self.max_length or most, most)
        least = 1 + len(self.specials.before) + len(self.specials.after)
        if not least <= length <= most:
            raise UserError(
                f"max_length is {length}, but the model reads {least} to {most} tokens"
            )
        return length

    def texts_of_all_widths(self) -> list[str]:
        """Texts, one for each of the widths that rows may have."""
        length = self._row_length(0)
        texts, widths = [], set()
        for count in range(1, length + 1):
            text = " ".join(["a"] * count)
            row, _ = self._with_specials(text, length)
            width = padded_width(len(row))
            if width not in widths:
                widths.add(width)
                texts.append(text)
        return texts

    @property
    def _has_encoder(self) -> bool:
        return self.needs.stacks == "encoder_decoder"

    @property
    def _is_causal(self) -> bool:
        return self.needs.pattern == "causal"

    @property
    def class_token_is_first(self) -> bool:
        """Whether the class token precedes the text, as in BERT's rows."""
        return bool(self.specials.before) and not self._is_causal

    def _encoded_width(self, head: str) -> int:
        """D of `encode`: the network's width; of both directions if an LSTM has two."""
        arrays = self._arrays([[self.run.vocabulary.vocab.unk_id]], "mean")
        return jax.eval_shape(self._encoder(head), self.run.params, arrays).shape[1]

    def _encoder(self, head: str) -> Any:
        """(params, arrays) -> the weighted sum of states [B, D]; or a head of it."""
        return self._kept(("encode", head), lambda: self._make_encoder(head))

    def _make_encoder(self, head: str) -> Any:
        objective = self.run.objective
        constants = self.run.input_constants(objective, self.needs)

        def states(net: networks.BoundNetwork, group: Mapping[str, Any]) -> jax.Array:
            net = objective.text_encoder(net)
            return net.encode(group).states if self._has_encoder else net.states(group)

        def head_of(net: networks.BoundNetwork, pooled: jax.Array) -> jax.Array:
            return objective.text_encoder(net).head(head, pooled)

        @jax.jit
        def with_constants(
            params: Any, constants: Mapping[str, Any], arrays: Mapping[str, Any]
        ) -> jax.Array:
            group = objective.read_constants(input_group(arrays), constants)
            fn = functools.partial(states, group=input_group(group))
            states_BLD = networks.apply(self.run.network, params, fn)
            states_BLD = states_BLD.astype(jnp.float32)
            pooled_BD = jnp.einsum("bl,bld->bd", arrays["weight"], states_BLD)
            if not head:
                return pooled_BD
            fn = functools.partial(head_of, pooled=pooled_BD)
            return networks.apply(self.run.network, params, fn)

        return lambda params, arrays: with_constants(params, constants, arrays)

    def _with_specials(self, text: str, length: int) -> tuple[list[int], bool]:
        """At most `length` ids of a text with its specials, and whether it is cut."""
        vocabulary, (before, after, *_) = self.run.vocabulary, self.specials
        room = length - len(before) - len(after)
        token = vocabulary.encode(text)[0]
        row = [*before, *token[:room].tolist(), *after] or [vocabulary.vocab.unk_id]
        return row, len(token) > room

    def _arrays(
        self, rows: Sequence[Sequence[int]], pool: str
    ) -> dict[str, np.ndarray]:
        """The network's inputs [B, L], and how much each position counts.

        L is one of few lengths, so that few shapes are compiled.
        """
        short, length = pad_rows(rows, self.run.vocabulary.vocab.pad_id)
        width = min(self.run.config.data.length, padded_width(short.shape[1]))
        pad = width - short.shape[1]
        token = np.pad(short, ((0, 0), (0, pad)), mode="edge")
        make = input_format.causal_input if self._is_causal else input_format.full_input
        arrays = make(token, length)
        position, length = np.arange(width), length[:, None]
        arrays["token_type"] += self.specials.token_type * arrays["segment"]
        if last_type := self.specials.last_type:
            np.put_along_axis(arrays["token_type"], length - 1, last_type, axis=1)
        at = 0 if self.class_token_is_first else length - 1
        weight = (position < length) / length if pool == "mean" else position == at
        shape = token.shape
        return arrays | {"weight": np.broadcast_to(weight, shape).astype(np.float32)}

    def fill(self, texts: Sequence[str], top_k: int = 5) -> list[list[list[Filled]]]:
        """The tokens that a masked model predicts for each mask.

        For each text and mask these are the `top_k` most probable ones, best first.

        Masks are spelled as the vocabulary's mask token, or as [MASK] or <mask>. They
        are predicted independently of each other. For ELECTRA the generator is used.

        Raises:
          UserError: the objective does not predict masked tokens, the model has no
            readout, a text is too long or has no mask, or `texts` is not a list of
            texts.
        """
        return all_or_error(self.fill_each(texts, top_k))

    def fill_each(
        self, texts: Sequence[str], top_k: int = 5
    ) -> list[list[list[Filled]] | UserError]:
        """Like `fill`, with the reason if a text cannot be filled."""
        texts = as_texts("texts", texts)
        check_whole("top_k", top_k, 1)
        self.check_readout()
        fill = self._kept(("fill", top_k), lambda: make_fill(*self._parts, top_k=top_k))
        vocabulary, most = self.run.vocabulary, self.run.network.options.max_positions
        before, after, *_ = self.run.objective.specials(vocabulary.vocab)

        def prepare(text: str) -> list[int]:
            row = encode_with_masks(vocabulary, text)
            if vocabulary.vocab.mask_id not in row:
                raise UserError("the text has no mask; write [MASK] where one is")
            check_length(len(before) + len(row) + len(after), most)
            return row

        def named(candidate: Candidate) -> Filled:
            return Filled(vocabulary.piece_name(candidate.token), *candidate)

        found: list[Any] = [caught(prepare, text) for text in texts]
        numbers = [n for n, row in enumerate(found) if not isinstance(row, UserError)]
        filled = fill([found[number] for number in numbers])
        for number, masks in zip(numbers, filled, strict=True):
            found[number] = [list(map(named, mask)) for mask in masks]
        return found

    def score(
        self,
        texts: Sequence[str],
        contexts: Sequence[str] | None = None,
        method: str = "",
        *,
        suffixes: Sequence[str] | None = None,
    ) -> list[Score]:
        """The objective's own score of each text, given its context if there is one.

        For a causal model it is log p(text): see `sentence_scores.Scorer`.

        Args:
          suffixes: what follows each text, for methods that read it.
          method: one of the objective's `score_methods`; "": its first.

        Raises:
          UserError: the objective does not score texts, or not by this method; a text
            is blank; the model has no readout; `texts` is not a list of texts, or
            `contexts` or `suffixes` not one of the same length.
        """
        texts = as_texts("texts", texts)
        around: dict[str, Any] = {"contexts": contexts, "suffixes": suffixes}
        for name, given in around.items():
            if given is None:
                continue
            around[name] = as_texts(name, given)
            if len(around[name]) != len(texts):
                raise UserError(
                    f"{name}: {len(around[name])} for {len(texts)} texts; give one for "
                    "each"
                )
        self.check_readout()
        scorer = self._kept(("score", method), lambda: Scorer(self.run, method))
        return scorer(texts, **around)

    def generate(self, prompts: Sequence[str], **options: Any) -> list[list[NewText]]:
        """New texts for each prompt: one, or with beam search several, best first.

        For an encoder-decoder the prompt is the encoder's text. Prompts may spell
        sentinels and masks: see `research.generation.text.make_writer`.

        Args:
          options: options of `research.generation.samplers`, such as method,
            max_tokens and seed.

        Raises:
          UserError: a field or value is wrong, the objective does not write text, the
            model has no readout, a prompt is empty, or `prompts` is not a list of
            texts.
        """
        prompts = as_texts("prompts", prompts)
        return all_or_error(self._writer(options)(prompts))

    def generate_each(
        self, prompts: Sequence[str], *, length: int = 0, **options: Any
    ) -> list[list[NewText] | UserError]:
        """Like `generate`, with the reason if nothing can be written after a prompt.

        Args:
          length: the maximum of positions for a prompt and its text; 0: the network's.
        """
        prompts = as_texts("prompts", prompts)
        check_whole("length", length, 0)
        return self._writer(options, length)(prompts)

    def _writer(
        self, options: Mapping[str, Any], length: int = 0
    ) -> Callable[[Sequence[str]], list[list[NewText] | UserError]]:
        """The `make_writer` result for these options, made once."""
        self.check_readout()
        try:
            own = {"method": own_method(self.run.objective)}
            chosen = make_sampler({**own, **self.writing}, **options)
        except (TypeError, ValueError) as error:
            raise UserError(f"generate: {error}") from error
        make = functools.partial(make_writer, self.run, chosen, length=length)
        return self._kept((chosen, length), make)

    def predict(self, examples: Sequence[str | Sequence[str]]) -> list[Item]:
        """A prediction for each example, by a model that was tuned on a task.

        Args:
          examples: texts, or lists of the parts of an example: see
            `research.use.inference.predict.Predictor.predict`.

        Raises:
          UserError: the model does not predict, or an example is not a text or lacks a
            part.
        """
        predictor = self._kept("predictor", functools.partial(Predictor, self))
        return predictor.predict(examples)

    @property
    def _parts(self) -> tuple[Any, ...]:
        """The arguments from which `research.generation` makes its functions."""
        run = self.run
        return run.objective, run.network, run.params, run.vocabulary.vocab, run.mesh

    def _kept(self, key: Any, make: Callable[[], Any]) -> Any:
        """The result of `make`, made once per key: it holds what was compiled."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    @functools.cached_property
    def _made(self) -> dict[Any, Any]:
        return {}

    def check_readout(self) -> None:
        """Raises UserError: the model predicts no tokens, or only with a prompt."""
        if self.missing:
            raise UserError(
                f"the model has no readout: it lacks {', '.join(self.missing)}"
            )
        if self._is_causal and not self.specials.before:
            raise UserError("the model has no token that begins a text, such as <s>")


def padded_width(width: int) -> int:
    """The next of `WIDTHS_AN_OCTAVE` lengths between powers of two."""
    step = (1 << (max(MIN_LENGTH, width) - 1).bit_length()) // 2 // WIDTHS_AN_OCTAVE
    step = max(8, step)
    return max(MIN_LENGTH, -(-width // step) * step)


def check_whole(name: str, value: Any, least: int) -> None:
    """Raises UserError: the value is not a whole number, or is below `least`."""
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_whole or value < least:
        raise UserError(f"{name} must be a whole number from {least}; got {value!r}")


def as_texts(name: str, texts: Sequence[str]) -> list[str]:
    """The texts.

    Raises:
      UserError: they are a single text or not a list, or one of them is not a text or
        has half of a surrogate pair, which is not valid Unicode.
    """
    if isinstance(texts, (str, bytes)):
        raise UserError(
            f"{name} must be a list of texts; for one text write [{texts!r}]"
        )
    if not isinstance(texts, Iterable) or isinstance(texts, Mapping):
        raise UserError(
            f"{name} must be a list of texts; got {type(texts).__name__}: {texts!r:.40}"
        )
    texts = list(texts)
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            raise UserError(
                f"{name} must be a list of str, but its text {number} is of type "
                f"{type(text).__name__}: {text!r:.40}"
            )
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UserError(
                f"{name}: text {number} has half of a surrogate pair, which is not "
                f"Unicode: {text!r:.40}"
            ) from error
    return texts
