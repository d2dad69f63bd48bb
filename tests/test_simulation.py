"""What `simulate` says of clipping: nothing is clipped unless asked for, and whoever is clipped is told."""

import math
import warnings

import numpy as np
import pytest

import thermoment as tm
from thermoment.simulation import ClipWarning

WIDE = tm.Reservoir(np.zeros((1, 1)), np.ones((1, 1)), np.zeros(1), dynamics=tm.Dynamics(J2=0.02, J4=0.0, kT=1.0))
"""A harmonic node whose thermal width is 5, beyond the paper's clip of 4."""
LONG = tm.Protocol(dt=0.5, t_final=200.0, n_replicas=4000, orders=(1, 2, 4))


def test_unless_asked_for_nothing_is_clipped_and_equipartition_holds() -> None:
    moments = tm.simulate(WIDE, [[0.0]], LONG, engine="xla")
    # <x^2> = kT / (2 J2) = 25, and 25 / (1 - mu J2 dt) for Euler steps; five standard errors of 4000 replicas.
    assert LONG.clip == math.inf
    assert moments.order(2).item() == pytest.approx(25 / (1 - 0.02 * 0.5), abs=5 * moments.standard_error(2).item())
    assert moments.info.clip_count == 0


@pytest.mark.parametrize("engine", ["reference", "xla"])
def test_a_clipped_update_is_warned_of_with_its_share(engine: str) -> None:
    protocol = tm.Protocol(dt=0.5, t_final=50.0, n_replicas=10, clip=4.0)
    with pytest.warns(
        ClipWarning, match=r"% of all updates \(\d+ of 1e\+03\) went beyond clip = 4 and were cut back"
    ) as seen:
        moments = tm.simulate(WIDE, [[0.0]], protocol, engine=engine)
    share = moments.info.clip_count / (10 * 100)
    assert 0.1 < share < 0.9
    assert str(seen[0].message).startswith(f"{share:.2%} of all updates ({moments.info.clip_count} of 1e+03)")
    assert seen[0].filename == __file__


def test_where_nothing_was_clipped_nothing_is_said() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tm.simulate(WIDE, [[0.0]], tm.Protocol(dt=0.5, t_final=2.0, n_replicas=10, clip=100.0), engine="reference")


def test_an_end_at_a_clip_that_float32_rounds_up_is_a_start() -> None:
    protocol = tm.Protocol(dt=0.5, t_final=50.0, n_replicas=10, clip=0.8)
    with pytest.warns(ClipWarning):
        end = tm.course(WIDE, [tm.Phase(50.0, [[0.0]])], protocol, engine="xla", keep_end=True).end
    assert end is not None
    assert np.abs(end.x).max() == float(np.float32(0.8)) > 0.8
    with pytest.warns(ClipWarning):
        tm.simulate(WIDE, [[0.0]], protocol, engine="xla", x0=end)
