"""How the next tokens are chosen."""

from collections.abc import Iterable
from dataclasses import dataclass

from research.contract.fields import check, choice, free_text, number
from research.objectives.layout.languages import parse_pair

METHODS = ("greedy", "beam", "sample")
NO_TOKEN = -1
TOKENS = ("ends", "suppress", "begin_suppress")
"""The fields that are tuples of ids."""
SEARCH_OF = dict.fromkeys(("temperature", "top_k", "top_p", "seed"), "sample")
SEARCH_OF |= dict.fromkeys(
    ("beams", "length_penalty", "beam_rule", "early_stopping"), "beam"
)
"""Field -> the only one of METHODS that reads it."""


@dataclass(frozen=True)
class Options:
    """The fields; palimpsest generate has a flag for each that a user would set.

    Padding, bos and mask tokens are never written. The repetition penalty divides the
    logit of each token that the text has so far by it if the logit is positive, and
    multiplies it by it if not (Keskar et al. 2019, section 4.1, divide all logits,
    which would favour tokens whose logit is negative); special tokens have none. With
    beam_rule huggingface special tokens have it, too, and beam search multiplies log p
    by it, which then add up to no probability of 1.
    """

    method: str = free_text("greedy")  # one of METHODS; of an objective with parts
    # (joint, mix) PART.METHOD, if not only one of them writes
    languages: str = free_text("")  # token types of what an encoder reads and a decoder
    # writes, such as 0:1, or 0 for both; "": as the objective says
    max_tokens: int = number(
        64, least=1, most=2**20
    )  # new tokens at most, eos included
    min_tokens: int = number(0, least=0)  # new tokens before eos
    beams: int = number(4, least=1, most=2**10)  # open texts of beam search
    length_penalty: float = number(
        0.6, least=0
    )  # alpha: beam search ranks by log p / ((5 + tokens) / 6) ** alpha (Wu et al.
    # 2016, section 7), with beam_rule huggingface by log p / tokens ** alpha; 0: by
    # log p
    beam_rule: str = choice("open", ("open", "huggingface"))  # open: a text that ends
    # leaves its place in the beam empty; huggingface: the next best takes it
    early_stopping: str = choice("heuristic", ("heuristic", "first", "never"))  # of
    # beam_rule huggingface, when `beams` texts have ended: if the best open one is
    # worse at its length; at once; only if none can become better
    counted: int = number(0, least=0)  # tokens of the prompt that beam_rule huggingface
    # counts among the new ones
    temperature: float = number(1.0, above=0)  # of samples: logits are divided by it
    top_k: int = number(0, least=0)  # samples are among so many best tokens; 0: all
    top_p: float = number(1.0, above=0, most=1)  # samples are among the fewest best
    # tokens whose probabilities add up to it (Holtzman et al. 2020, section 3.1)
    repetition_penalty: float = number(1.0, above=0)  # 1: none
    no_repeat_ngram: int = number(0, least=0)  # no so many tokens in succession twice;
    # 0: any
    forced_bos: int = number(NO_TOKEN, least=NO_TOKEN)  # the first new token; -1: any
    forced_eos: int = number(NO_TOKEN, least=NO_TOKEN)  # the last one of max_tokens
    ends: tuple[int, ...] = ()  # tokens of which each ends a text; (): eos
    suppress: tuple[int, ...] = ()  # tokens that are never written
    begin_suppress: tuple[int, ...] = ()  # tokens that are not the first
    seed: int = number(0, least=0, below=2**31)  # of samples

    def __post_init__(self):
        for name in TOKENS:
            object.__setattr__(self, name, tuple(getattr(self, name)))
        check(self)
        if self.search not in METHODS:
            raise ValueError(
                f"method is {', '.join(METHODS[:-1])} or {METHODS[-1]}, or of joint "
                f"and mix PART.METHOD, not {self.method!r}"
            )
        if self.languages:
            parse_pair(self.languages)
        if self.min_tokens >= self.max_tokens:
            raise ValueError(
                f"min_tokens is below max_tokens ({self.max_tokens}), not "
                f"{self.min_tokens}"
            )

    @property
    def part(self) -> str:
        """The name of the part that writes; "": not given."""
        return self.method.rpartition(".")[0]

    @property
    def search(self) -> str:
        """One of METHODS."""
        return self.method.rpartition(".")[2]

    def check_read(self, names: Iterable[str]) -> None:
        """Checks that the search reads the fields of these names.

        Raises:
          ValueError: it does not read one.
        """
        for name in names:
            if SEARCH_OF.get(name, self.search) != self.search:
                raise ValueError(
                    f"{name} is not read by method {self.method}, only by "
                    f"{SEARCH_OF[name]}; give that method, or leave {name} out"
                )
