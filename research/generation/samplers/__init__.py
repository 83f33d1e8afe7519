"""Samplers: each writes new texts after prompts, in one order and by one search.

A module here defines a frozen dataclass `Sampler(samplers.Sampler)`, or one of a base
in `samplers/shared/`. Its fields are its options: a field with words of help is a flag
of palimpsest generate; `huggingface` is its key in generation_config.json. The module's
name is a value of --method.
"""

import abc
import dataclasses
import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from research.contract.errors import unknown
from research.contract.fields import check, check_values, described, free_text, number
from research.contract.parts import Folder

if TYPE_CHECKING:  # it imports JAX
    from research.generation.written import Written

FOLDER = Folder(
    "research.generation.samplers",
    "Sampler",
    named_by="generate --method",
)


class Writer(NamedTuple):
    """The model whose texts a sampler writes."""

    objective: Any  # the part that writes
    vocab: Any  # VocabInfo
    network: Any  # options of the network
    apply: Callable | None = None  # (function of the bound network) -> its result; None
    # on the host
    constants: Mapping[str, Any] = MappingProxyType({})  # of the objective


DEFAULT = "greedy"
"""The sampler where nothing chooses one."""


class Rows(NamedTuple):
    """The rows of a batch."""

    arrays: Any  # what `Sampler.prepare` returned, arrays [B, ...]
    number: Any  # [B] int32, among all prompts: samples depend on it alone
    sampling: Any = None  # `sample.Sampling`: options of each row, of samplers that
    # `serves`; None: the sampler's


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sampler(abc.ABC):
    """The base of all samplers.

    Attributes:
      order: the order in which tokens are written; a sampler writes what objectives of
        this `write_order` have learned.
    """

    order: ClassVar[str]

    serves: ClassVar[int] = 0
    """Of samplers that can write a model's completions for a server that with the
    highest does, unless another one is named; 0: it reads no `Rows.sampling`, and
    cannot."""

    likeliest: ClassVar[bool] = False
    """Whether it writes what is likeliest, and so repeats itself."""

    part: str = free_text("")  # of an objective with parts (joint, mix), the one that
    # writes; "": the only one
    max_tokens: int = described(
        "new tokens of a text at most, its end included",
        number(64, least=1, most=2**20),
        huggingface="max_new_tokens",
    )

    def __post_init__(self):
        """Raises ValueError: a field has a value that is not legal."""
        check(self)

    @property
    def name(self) -> str:
        """The value of --method."""
        return type(self).__module__.rpartition(".")[-1]

    @classmethod
    def writes(cls, objective: Any) -> bool:
        """True if an objective has learned what the sampler needs of it."""
        return objective.write_order == cls.order

    @classmethod
    def fits(cls, options: Mapping[str, Any], *, draws: bool) -> int:
        """How well it is what options ask for, without a method, as Hugging Face does.

        Args:
          options: of all samplers.
          draws: Hugging Face's do_sample.

        Returns:
          0: it is not; 1: it is, by `draws` alone; 2: by an option of its own. The
          sampler with the highest writes, by default that of `make_sampler`.
        """
        return 0

    @abc.abstractmethod
    def check_writer(self, writer: Writer) -> None:
        """Raises UserError: the options name what the model does not have."""

    @abc.abstractmethod
    def positions_needed(self, writer: Writer, prompt: Sequence[int]) -> int:
        """Positions of a prompt and its texts at most, special tokens included."""

    @abc.abstractmethod
    def prepare(
        self, writer: Writer, prompts: Sequence[Sequence[int]], width: int
    ) -> tuple[Any, Hashable]:
        """The rows that the network reads first, on the host.

        Args:
          prompts: ids of N prompts, without special tokens.
          width: the length that rows are padded to; 0: that of the longest.

        Returns:
          A tree of arrays [N, ...], and what `write` is compiled for beside their
          shapes.

        Raises:
          UserError: a prompt cannot be continued, or not by so many tokens.
        """

    @abc.abstractmethod
    def write(self, writer: Writer, rows: Rows, layout: Hashable) -> "Written":
        """The texts of a batch of rows, inside a compiled function.

        A row's texts are a function of its arrays, its number and the options.

        Args:
          writer: with `apply`, by which the bound network is read.
          layout: what `prepare` returned beside the arrays.
        """


def options() -> dict[str, dict[str, dataclasses.Field]]:
    """Each option -> the samplers that have it -> its field there."""
    found: dict[str, dict[str, dataclasses.Field]] = {}
    for name in FOLDER.names():
        for field in dataclasses.fields(FOLDER.part_class(name, "method")):
            if field.name != "part":
                found.setdefault(field.name, {})[name] = field
    return found


@functools.cache
def huggingface_keys() -> dict[str, str]:
    """Key of Hugging Face's generation_config.json -> option."""
    fields = (field for of in options().values() for field in of.values())
    keys = ((field.metadata.get("huggingface"), field.name) for field in fields)
    return {key: name for key, name in keys if key}


def search(
    values: Mapping[str, Any], *, draws: bool = False, methods: Sequence[str] = ()
) -> dict[str, Any]:
    """The method that options choose, and those of the options that it reads.

    See `Sampler.fits`.

    Args:
      methods: those that may be chosen; (): all.
    """

    def fits(name: str) -> int:
        cls: Any = FOLDER.part_class(name, "method")
        return cls.fits(values, draws=draws)

    legal = sorted(methods or FOLDER.names(), key=lambda name: name != DEFAULT)
    method, known = max(legal, key=fits), options()
    read = {key: value for key, value in values.items() if method in known[key]}
    return {"method": method} | read


def make_sampler(
    defaults: Mapping[str, Any] = MappingProxyType({}), /, **chosen: Any
) -> Sampler:
    """The sampler of `method`, PART.NAME or NAME, with the given options.

    Args:
      defaults: method and options where `chosen` has none, also of other samplers.
      chosen: method and options of its sampler.

    Raises:
      ValueError: an unknown method or option, one that the method does not have, or a
        value that is not legal.
    """
    method = chosen.pop("method", None) or defaults.get("method", DEFAULT)
    part, _, name = method.rpartition(".")
    cls, known = FOLDER.part_class(name, "method"), options()
    for key in chosen:
        if key not in known:
            raise unknown("option", key, ["method", *known])
        if name not in known[key]:
            raise ValueError(
                f"{key} is not read by method {name}, only by "
                f"{', '.join(known[key])}; change the method, or leave {key} out"
            )
    given = {key: value for key, value in defaults.items() if key != "method"}
    for key, value in given.items():
        if key not in known:
            raise unknown("option", key, ["method", *known])
        check_values(known[key].values(), {key: value})
    given = {key: value for key, value in given.items() if name in known[key]}
    return cls(part=part, **given | chosen)
