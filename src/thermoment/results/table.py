"""Models by readout: the one table that analysis, report, figures and terminal read results from."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from thermoment.results.naming import FITS, REFITTED, Fit, ModelKey, Read, all_orders, label
from thermoment.results.results import Accuracy


class HasModel(Protocol):
    """A row of results about one model: Accuracy, Summary."""

    @property
    def model(self) -> ModelKey: ...


class Judged(NamedTuple):
    """A row that has no number yet."""

    model: ModelKey


Row = TypeVar("Row", bound=HasModel)


@dataclass(frozen=True)
class Table(Generic[Row]):
    """Rows by model and readout, models in the order of their first readout's rows."""

    rows: Mapping[ModelKey, Mapping[Fit, Row]]
    """by `ModelKey.any_readout`; the readouts of a model in the order of FITS"""
    full: tuple[Read, ...]
    """all moment orders that any model reads"""

    @classmethod
    def of(cls, rows: Iterable[Row]) -> "Table[Row]":
        """The table of some rows, at least one."""
        found: dict[ModelKey, dict[Fit, Row]] = {}
        for row in sorted(rows, key=lambda row: FITS.index(row.model.readout)):
            found.setdefault(row.model.any_readout, {})[row.model.readout] = row
        return cls(found, all_orders(found))

    def get(self, model: ModelKey | None, fit: Fit) -> Row | None:
        """One model with one readout; None where it was not fitted."""
        group = self.rows.get(model) if model else None
        return group.get(fit) if group else None

    def models(self, fit: Fit) -> list[ModelKey]:
        """Models that have this readout."""
        return [model for model, group in self.rows.items() if fit in group]

    @property
    def fits(self) -> list[Fit]:
        """Readouts that any model has."""
        return [fit for fit in FITS if self.models(fit)]

    @property
    def refitted(self) -> list[Fit]:
        """Readouts that were fitted to the features of finished reservoirs."""
        return [fit for fit in self.fits if fit in REFITTED]

    @property
    def largest(self) -> tuple[str, ...]:
        """The most reservoirs that any model reads."""
        return min(self.rows, key=lambda model: (-len(model.reservoirs), model.key)).reservoirs

    @property
    def reservoirs(self) -> tuple[str, ...]:
        """All reservoirs: those of the largest model, then any others by name."""
        return (*self.largest, *sorted({name for model in self.rows for name in model.reservoirs} - {*self.largest}))

    @property
    def ablation(self) -> list[ModelKey]:
        """Joined features of all orders: the paper's Table I."""
        return [model for model in self.rows if model.fusion == "feature" and model.orders == self.full]

    @property
    def singles(self) -> list[ModelKey]:
        """One reservoir each, all orders."""
        return [model for model in self.ablation if len(model.reservoirs) == 1]

    @property
    def joined(self) -> ModelKey:
        """The model with most reservoirs that joins all orders in one readout."""
        return max(self.ablation or self.rows, key=lambda model: len(model.reservoirs))

    @property
    def averaged(self) -> ModelKey | None:
        """Averaged logits of one readout per reservoir."""
        return next((model for model in self.rows if model.fusion == "logit" and model.orders == self.full), None)

    @property
    def orders(self) -> list[ModelKey]:
        """The joined model from few orders to all: the paper's Table IV."""
        same = [m for m in self.rows if m.reservoirs == self.joined.reservoirs and m.fusion == "feature"]
        return sorted(same, key=lambda model: (len(model.orders), *map(str, model.orders)))

    @property
    def main(self) -> Fit:
        """The first readout that the joined model has."""
        return next(iter(self.rows[self.joined]))

    @property
    def headline(self) -> Row:
        """The row a run is judged by: all reservoirs with the readout they were trained with, else with the first."""
        trained = [self.get(model, "trained") for model in (self.joined, self.averaged)]
        return next(filter(None, trained), None) or self.rows[self.joined][self.main]

    def best_single(self: "Table[Accuracy]", fit: Fit) -> Accuracy | None:
        """The most accurate single reservoir with this readout; the first of equals."""
        found = [row for model in self.singles if (row := self.get(model, fit))]
        return max(found, key=lambda row: row.correct, default=None)

    def label(self, model: ModelKey) -> str:
        """The model's name, and in brackets what tells it apart."""
        return label(model, self.full)
