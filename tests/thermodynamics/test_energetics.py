"""The energy account: the first law on every path, closed forms, engines beside one another, machines, bad input.

Statistical tests allow chance once in 1e6 runs of all numbers of a test (`agrees`). Seeds are fixed.
"""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import thermoment as tm
from support.analytic import Array, coupled, ornstein_uhlenbeck, uncoupled
from support.conformance import ENGINES, Candidate, agrees, runnable
from thermoment.thermodynamics import paths
from thermoment.thermodynamics.account import Account
from thermoment.thermodynamics.heat import Heat

TERMS = (*Account._fields, "entropy")
DIRECTED = tm.Reservoir.draw(6, 3, s_W=1.2, s_K=3.0, seed=4, dynamics=tm.Dynamics(J2=0.8, mu=1.3, kT=0.3))
INPUTS = np.random.default_rng(1).normal(size=(3, 3))
PROTOCOL = tm.Protocol(dt=0.01, t_final=0.4, n_replicas=40)
RESTED = replace(PROTOCOL, start="rest", t_rest=3.0)
ACCOUNTANTS = [one for one in ENGINES if not one.label.startswith(("reference", "cuda"))]


def first_law(dt: float, J4: float) -> Array:
    """Of 60 paths, each from a place of its own: heat of the account less the sum of force times step, in kT."""
    dynamics = replace(DIRECTED.dynamics, J4=J4)
    reservoir = replace(DIRECTED, dynamics=dynamics)
    inputs, x0 = np.repeat(INPUTS[:1], 60, axis=0), np.random.default_rng(2).normal(0, 0.5, (60, 6))
    one = replace(PROTOCOL, dt=dt, n_replicas=1)
    options: dict[str, Any] = {"engine": "reference", "x0": x0}
    account = tm.energetics(reservoir, inputs, one, **options)
    summed = tm.simulate(reservoir, inputs, one, observables=[Heat()], **options).observed["heat"].mean
    return account.heat - summed / dynamics.kT


def test_the_first_law_holds_on_every_path() -> None:
    """Exactly in harmonic wells; in quartic ones a midpoint leaves out J4 x_mid dx^3, of the order of dt."""
    assert np.abs(first_law(0.01, 0.0)).max() < 1e-11
    coarse, fine = (np.sqrt((first_law(dt, 1.0) ** 2).mean()) for dt in (0.02, 0.01))
    assert fine < 0.2
    # A spread from 60 paths is known to 9 %.
    assert 1.5 < coarse / fine < 2.8


def test_the_terms_are_what_they_say() -> None:
    """From states and paths that are written out by hand."""
    found = tm.energetics(DIRECTED, INPUTS, RESTED, engine="reference", per_replica=True).replicas
    assert found is not None
    t, x = tm.sample_paths(DIRECTED, INPUTS, RESTED, nodes=range(6), engine="reference")
    x = x[:, :, np.searchsorted(t, -1e-9) :]  # while the drive is on
    h, W, kT = DIRECTED.drive(INPUTS)[:, None], DIRECTED.W, 0.3

    def energy(x: Array) -> Array:
        wells = 0.8 * x**2 + x**4 - h * x
        return np.asarray(wells.sum(axis=-1) - 0.25 * np.einsum("smi,ij,smj->sm", x, W + W.T, x))

    path = np.einsum("smti,ij,smtj->sm", np.diff(x, axis=2), (W - W.T) / 2, x[:, :, :-1])
    on, off = -(h * x[:, :, 0]).sum(axis=-1), (h * x[:, :, -1]).sum(axis=-1)
    rise = energy(x[:, :, -1]) - energy(x[:, :, 0])
    expected = Account(on, off, path, path - rise, rise, on + off + path)
    for name, value in expected._asdict().items():
        np.testing.assert_allclose(getattr(found, name), value / kT, atol=1e-11, err_msg=name)
        assert np.abs(value).max() > 0.05


def test_means_standard_errors_and_costs_follow_from_the_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    every = tm.energetics(DIRECTED, INPUTS, RESTED, engine="reference", per_replica=True)
    monkeypatch.setattr(paths, "_AT_ONCE", 2 * 40 * 6)  # two samples at a time
    found = tm.energetics(DIRECTED, INPUTS, RESTED, engine="reference")
    assert every.replicas is not None
    assert found.replicas is None
    for name in TERMS:
        replicas = getattr(every.replicas, name)
        assert replicas.shape == (3, 40)
        np.testing.assert_allclose(getattr(found, name), replicas.mean(axis=1), rtol=1e-12)
        error = replicas.std(axis=1, ddof=1) / math.sqrt(40)
        np.testing.assert_allclose(getattr(found.standard_errors, name), error, rtol=1e-12)
    np.testing.assert_allclose(found.cost, 40 * found.cycle)
    np.testing.assert_allclose(found.cost_standard_error, 40 * found.standard_errors.cycle)
    np.testing.assert_allclose(found.joules(290.0), found.cost * 290.0 * 1.380649e-23)
    single = tm.energetics(DIRECTED, INPUTS, replace(PROTOCOL, n_replicas=1), engine="reference")
    assert np.isfinite(single.cycle).all()
    assert np.isnan(single.standard_errors.cycle).all()


@pytest.mark.parametrize("candidate", ACCOUNTANTS, ids=lambda one: one.label)
@pytest.mark.parametrize("protocol", [PROTOCOL, RESTED], ids=["zero", "rest"])
def test_engines_agree_in_every_replica(candidate: Candidate, protocol: tm.Protocol) -> None:
    engine = runnable(candidate).engine
    found, expected = (
        tm.energetics(DIRECTED, INPUTS, protocol, engine=one, per_replica=True, sample_ids=[7, 8, 2**40]).replicas
        for one in (engine, "reference")
    )
    assert found is not None
    assert expected is not None
    for name in TERMS:
        # kT is 0.3 and drives go up to 6: an error of x comes back 20 times as large, from each of 6 nodes.
        atol = 100 * candidate.tolerance
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=atol, err_msg=name)


def test_auto_accounts() -> None:
    assert tm.energetics(DIRECTED, INPUTS, PROTOCOL).engine in ("native", "xla")


LINEAR = coupled(
    [[0, 0.9, -0.4], [-0.6, 0, 0.8], [0.5, -0.7, 0]], [1.0, -0.5, 0.3], tm.Dynamics(J4=0.0, mu=1.3, kT=0.2)
)
NAMES = ("work_off", "work_path", "energy", "heat", "cycle")


def means_of_linear(t_final: float) -> Array:
    """Means of a directed Ornstein-Uhlenbeck network, in the order of NAMES: work and energy are quadratic in x.

    The work along the path is the integral of E[(A x) . mu F] over time; 100 points integrate it to 1e-4.
    """
    h, W, eye, kT = LINEAR.K[:, 0], LINEAR.W, np.eye(3), 0.2
    S, A = (W + W.T) / 2, (W - W.T) / 2
    m, C = ornstein_uhlenbeck(LINEAR, t_final)
    energy = np.sum((eye - S / 2) * (np.outer(m, m) + C)) - h @ m

    def rate(t: float) -> float:
        m, C = ornstein_uhlenbeck(LINEAR, t)
        second = np.outer(m, m) + C
        return float(1.3 * (np.sum((A.T @ (W - 2 * eye)) * second) + h @ A @ m))

    path = t_final * np.mean([rate(t) for t in (np.arange(100) + 0.5) * (t_final / 100)])
    return np.array([h @ m, path, energy, path - energy, h @ m + path]) / kT


def test_a_linear_network_in_closed_form() -> None:
    protocol = tm.Protocol(dt=2e-3, t_final=0.8, n_replicas=2**13)
    expected = means_of_linear(0.8)
    found = tm.energetics(LINEAR, [[1.0]], protocol)
    means, errors = (np.array([getattr(one, n)[0] for n in NAMES]) for one in (found, found.standard_errors))
    agrees(means, expected, errors, bias=0.02)
    assert expected[1] > 20 * errors[1]  # without the work along the path it would not agree


@pytest.mark.slow
def test_a_linear_network_without_sampling() -> None:
    found = tm.energetics(LINEAR, [[1.0]], tm.Protocol(dt=1e-3, t_final=0.8), engine="meanfield")
    for name, value in zip(NAMES, means_of_linear(0.8), strict=True):
        off, allowed = getattr(found, name)[0] - value, getattr(found.standard_errors, name)[0]
        assert abs(off) < 3 * allowed + 2e-3 * abs(value), name


class TestMachines:
    """The accounts of several reservoirs are added up."""

    def test_reservoirs_and_machines(self) -> None:
        other = tm.Reservoir.draw(4, 3, s_K=2.0, seed=5, stream=1, dynamics=DIRECTED.dynamics)
        each = [tm.energetics(one, INPUTS, RESTED, engine="reference") for one in (DIRECTED, other)]
        listed = tm.energetics([DIRECTED, other], INPUTS, RESTED, engine="reference")
        machine = SimpleNamespace(reservoirs={"K1": DIRECTED, "K2": other}, protocol=RESTED)
        for found in (listed, tm.energetics(machine, INPUTS, engine="reference")):
            for name in TERMS:
                np.testing.assert_allclose(getattr(found, name), sum(getattr(one, name) for one in each), rtol=1e-12)
                squares = sum(getattr(one.standard_errors, name) ** 2 for one in each)
                np.testing.assert_allclose(getattr(found.standard_errors, name) ** 2, squares, rtol=1e-12)

    def test_a_classifier_has_its_own_protocol(self) -> None:
        machine = tm.pretrained("mnist")
        images = np.zeros((1, machine.n_inputs))
        few = replace(machine.protocol, n_replicas=2, t_final=0.01, dt=1e-3)
        found = tm.energetics(replace(machine, protocol=few), images)
        assert found.n_replicas == 2
        assert len(machine.reservoirs) == 3
        own = [tm.energetics(one, images, few) for one in machine.reservoirs.values()]
        np.testing.assert_allclose(found.cycle, sum(one.cycle for one in own), rtol=1e-6)


energetics: Any = tm.energetics
NODE = uncoupled([1.0], tm.Dynamics())


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (
            lambda: energetics(uncoupled([1.0], tm.Dynamics(kT=0.0)), [[1.0]]),
            "`kT` must be positive where energies are asked for in units of kT, but was 0.0.",
        ),
        (
            lambda: energetics(NODE, [[1.0]], tm.Protocol(start="rest", t_rest=0.5)),
            "`t_rest` must be at least 1.",
        ),
        (
            lambda: energetics(NODE, [[1.0]], engine="cuda"),
            "`engine` must be one that keeps account of work: native, xla or reference, which sample, or meanfield, "
            "which does not, but was cuda.",
        ),
        (lambda: energetics(NODE, [[1.0]], per_replica=1), "`per_replica` must be True or False, but was 1."),
        (
            lambda: energetics(NODE, [[1.0]], engine="meanfield", per_replica=True),
            "`per_replica` must be False for the meanfield engine, which has no single replicas, but was True.",
        ),
        (
            lambda: energetics(NODE, [[1.0]], engine="meanfield", x0=[0.0]),
            "`x0` must be left out for the meanfield engine",
        ),
        (
            lambda: energetics([NODE, uncoupled([1.0], tm.Dynamics(kT=0.2))], [[1.0]]),
            "`reservoir` must have kT = 0.1 throughout, to add up the accounts, but was 0.2.",
        ),
        (lambda: energetics([NODE, DIRECTED], [[1.0]]), "`reservoir` must have kT = 0.1 throughout"),
        (
            lambda: energetics([NODE, tm.Reservoir.draw(2, 3, seed=0)], [[1.0]]),
            "`reservoir` must take 1 inputs throughout, but was 3.",
        ),
        (
            lambda: energetics([NODE, NODE], [[1.0]], per_replica=True),
            "`per_replica` must be False for several reservoirs, whose replicas are not paired, but was True.",
        ),
        (lambda: energetics([], [[1.0]]), "`reservoir` must be at least one thermoment.Reservoir, but was empty."),
        (lambda: energetics([NODE, 5], [[1.0]]), "`reservoir` must be a thermoment.Reservoir, but was 5."),
        (lambda: energetics(NODE, [[1.0]], 5), "`protocol` must be a thermoment.Protocol, but was 5."),
        (
            lambda: energetics(NODE, [[1.0]], tm.Protocol(n_replicas=math.inf), engine="xla"),
            "`n_replicas` must be finite for an engine that samples, but was inf.",
        ),
        (lambda: energetics(NODE, [[1.0]]).joules(-1.0), "`temperature` must be positive, but was -1.0."),
    ],
)
def test_bad_input(wrong: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        wrong()
