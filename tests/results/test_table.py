"""The table of models by readout: what stands where, whatever the order of the rows."""

import random

from support.made_up import results
from thermoment.results.naming import ModelKey
from thermoment.results.results import Results
from thermoment.results.table import Table

FULL = (1, 2, 4)
ALL = ("K1", "K2", "K3")
ROWS = Results.from_json(results(trained=True)).accuracy
TABLE = Table.of(ROWS)


def test_every_row_is_found_by_its_model_and_readout() -> None:
    assert [TABLE.get(row.model.any_readout, row.model.readout) for row in ROWS] == list(ROWS)
    assert sum(map(len, TABLE.rows.values())) == len(ROWS)
    assert TABLE.get(ModelKey(("K1",), FULL), "trained") is None
    assert TABLE.get(ModelKey(("K9",), FULL), "sgd") is None
    assert TABLE.get(None, "sgd") is None


def test_readouts() -> None:
    assert TABLE.fits == ["sgd", "converged", "trained", "predicted"]
    assert TABLE.refitted == ["sgd", "converged"]
    assert TABLE.main == "sgd"
    assert TABLE.models("trained") == [ModelKey(ALL, FULL)]


def test_groups_of_models() -> None:
    assert TABLE.full == FULL
    assert TABLE.reservoirs == TABLE.largest == ALL
    assert TABLE.joined == ModelKey(ALL, FULL)
    assert TABLE.averaged == ModelKey(ALL, FULL, "logit")
    assert TABLE.singles == [ModelKey((name,), FULL) for name in ALL]
    assert len(TABLE.ablation) == 7
    assert TABLE.orders == [ModelKey(ALL, FULL[:count]) for count in (1, 2, 3)]
    best = TABLE.best_single("converged")
    assert best is not None
    assert best.correct == max(TABLE.rows[model]["converged"].correct for model in TABLE.singles)
    assert TABLE.best_single("trained") is None


def test_readouts_of_a_model_stand_in_one_order() -> None:
    shuffled = list(ROWS)
    random.Random(1).shuffle(shuffled)
    found = Table.of(shuffled)
    assert {model: list(group.items()) for model, group in found.rows.items()} == {
        model: list(group.items()) for model, group in TABLE.rows.items()
    }


def test_a_reservoir_that_the_largest_model_lacks_is_not_forgotten() -> None:
    rows = [row for row in ROWS if row.model.name in ("K3", "K1+K2")]
    found = Table.of(rows)
    assert found.largest == ("K1", "K2")
    assert found.reservoirs == ("K1", "K2", "K3")
