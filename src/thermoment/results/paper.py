"""The published numbers, as printed: Tables I to IV and the McNemar test, keyed by model.

J. Duan, M. Zhao, Y. Chen and L. Yang, "Moment-Resolved Readout and Reservoir Diversity in Nonequilibrium Langevin
Computing", Institute of Modern Physics, Chinese Academy of Sciences. MNIST, 60000 training and 10000 test images.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from thermoment.results.naming import ModelKey
from thermoment.results.results import Results, StudyResults

TITLE = "Moment-Resolved Readout and Reservoir Diversity in Nonequilibrium Langevin Computing"
AUTHORS = ("Jizheng Duan", "MingYang Zhao", "YanWei Chen", "Lei Yang")
INSTITUTE = "Institute of Modern Physics, Chinese Academy of Sciences"
DATASET, N_TRAIN, N_TEST = "mnist", 60_000, 10_000

_K1, _K2, _K3 = "K1", "K2", "K3"
_ALL, _ORDERS = (_K1, _K2, _K3), (1, 2, 4)

JOINED = ModelKey(_ALL, _ORDERS)
"""Feature-level fusion of the three reservoirs, HMR-FL in the paper."""

TABLE_I: Mapping[ModelKey, int] = MappingProxyType(
    {
        ModelKey((_K1,), _ORDERS): 9651,
        ModelKey((_K2,), _ORDERS): 9682,
        ModelKey((_K3,), _ORDERS): 9603,
        ModelKey((_K1, _K2), _ORDERS): 9658,
        ModelKey((_K1, _K3), _ORDERS): 9683,
        ModelKey((_K2, _K3), _ORDERS): 9680,
        JOINED: 9695,
    }
)
"""Ablation of the reservoirs: correct of 10000."""

TABLE_II: Mapping[ModelKey, int] = MappingProxyType(
    {ModelKey((_K2,), _ORDERS): 9682, ModelKey(_ALL, _ORDERS, "logit"): 9684, JOINED: 9695}
)
"""The best single reservoir, averaged logits, joined features: correct of 10000."""

TABLE_IV: Mapping[ModelKey, int] = MappingProxyType(
    {ModelKey(_ALL, (1,)): 9377, ModelKey(_ALL, (1, 2)): 9682, JOINED: 9695}
)
"""Ablation of the moment orders: correct of 10000."""

CORRECT: Mapping[ModelKey, int] = MappingProxyType({**TABLE_I, **TABLE_II, **TABLE_IV})
"""Every published accuracy once."""


class Overlap(NamedTuple):
    """A row of Table III."""

    wrong_a: int
    wrong_b: int
    intersection: int
    union: int
    jaccard: float


TABLE_III: Mapping[tuple[str, str], Overlap] = MappingProxyType(
    {
        (_K1, _K2): Overlap(349, 318, 275, 392, 0.7015),
        (_K1, _K3): Overlap(349, 397, 275, 471, 0.5839),
        (_K2, _K3): Overlap(318, 397, 250, 465, 0.5376),
        (_K1, JOINED.name): Overlap(349, 305, 258, 396, 0.6515),
        (_K2, JOINED.name): Overlap(318, 305, 250, 373, 0.6702),
        (_K3, JOINED.name): Overlap(397, 305, 254, 448, 0.5670),
    }
)
"""Overlap of wrong sets."""


class McNemar(NamedTuple):
    """A paired test as the text gives it."""

    a_only_wrong: int
    b_only_wrong: int
    p: float


MCNEMAR: Mapping[tuple[str, str], McNemar] = MappingProxyType({(_K2, JOINED.name): McNemar(68, 55, 0.279)})
"""The best single reservoir against all joined."""


@dataclass(frozen=True)
class Beside:
    """The published numbers that can stand beside some results: all of them, or none."""

    comparable: bool

    def __bool__(self) -> bool:
        return self.comparable

    def correct(self, model: ModelKey) -> int | None:
        """How many of 10000 the paper's model with these reservoirs and orders got right, for any readout of ours."""
        return CORRECT.get(model.any_readout) if self.comparable else None

    @property
    def best_single(self) -> int | None:
        """How many of 10000 the paper's best single reservoir got right."""
        return max(n for m, n in TABLE_II.items() if len(m.reservoirs) == 1) if self.comparable else None

    def overlap(self, a: str, b: str) -> Overlap | None:
        """The row of Table III that compares a and b."""
        return TABLE_III.get((a, b)) if self.comparable else None

    def test(self, a: str, b: str) -> McNemar | None:
        """The test of a against b."""
        return MCNEMAR.get((a, b)) if self.comparable else None


def beside(results: Results | StudyResults) -> Beside:
    """What of the paper can stand beside `results`.

    That takes MNIST with 60000 training and 10000 test images, and one of the paper's models with the paper's readout.
    """
    groups = [results.accuracy] if isinstance(results, Results) else [variant.accuracy for variant in results.study]
    known = any(row.model in CORRECT for rows in groups for row in rows)
    data = results.dataset
    return Beside(known and (data.name, data.n_train, data.n_test) == (DATASET, N_TRAIN, N_TEST))
