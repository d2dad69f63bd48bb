"""The node that a report shows: simulated in the experiment's well, kept and read back whole."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thermoment as tm
from support.analytic import fokker_planck
from support.made_up import results
from thermoment.results.node import N_PATHS, N_REPLICAS, N_STATES, NodeSample
from thermoment.runs.example_node import simulate_node


def settings(**protocol: Any) -> Any:
    found = results(("K1",))["settings"]
    found["protocol"] |= protocol
    return found


@pytest.fixture(scope="module")
def node() -> NodeSample:
    return simulate_node(settings(dt=0.005))


def test_drives_of_the_papers_well(node: NodeSample) -> None:
    assert node.drives.tolist() == [0.0, 1.0, 3.0]


def test_what_is_drawn_is_simulated(node: NodeSample) -> None:
    """Moments of the states against the Fokker-Planck equation: five standard errors, and dt's own bias."""
    assert node.states.shape == (3, N_STATES)
    for h, sample in zip(node.drives, node.states, strict=True):
        expected = fokker_planck(tm.Dynamics(), h, 1.0, (1, 2, 4))
        for p, value in zip((1, 2, 4), expected, strict=True):
            error = (sample**p).std() / math.sqrt(len(sample))
            assert (sample**p).mean() == pytest.approx(value, abs=5 * error + 1e-3)


def test_paths_start_at_zero_and_end_where_the_states_are(node: NodeSample) -> None:
    assert (node.times[0], node.times[-1]) == (0.0, 1.0)
    assert node.paths.shape == (3, N_PATHS, len(node.times))
    assert node.ends.shape == (3, N_REPLICAS)
    assert not node.paths[:, :, 0].any()
    assert not node.means[:, 0].any()
    np.testing.assert_array_equal(node.ends[:, :N_PATHS], node.paths[:, :, -1])
    np.testing.assert_allclose(node.means[:, -1], node.ends.mean(axis=1), rtol=1e-12)
    assert node.ends.mean(axis=1) == pytest.approx(node.states.mean(axis=1), abs=5 * 0.21 / math.sqrt(N_REPLICAS))
    assert node.extent[0] <= min(node.paths.min(), node.ends.min())
    assert node.extent[1] >= max(node.paths.max(), node.ends.max())


def test_very_many_steps_are_done_with_fewer_where_that_is_stable() -> None:
    from thermoment.runs.example_node import _protocol

    well = tm.Dynamics()
    assert _protocol(settings(dt=1e-4, t_final=10.0)["protocol"], well, 3.0).n_steps == 2000
    # 2000 steps to t = 1000 are of 0.5 each, which is not stable.
    assert _protocol(settings(dt=1e-4, t_final=1000.0)["protocol"], well, 3.0).dt == 1e-4


def test_nothing_is_clipped_where_clip_is_infinite() -> None:
    free, narrow = (simulate_node(settings(dt=0.05, clip=clip)) for clip in (math.inf, 0.5))
    assert free.extent[1] > 1
    assert narrow.extent.tolist() == [-0.5, 0.5]


def test_kept_and_read_back(node: NodeSample, tmp_path: Path) -> None:
    node.save(tmp_path / "node.safetensors")
    assert (tmp_path / "node.safetensors").stat().st_size < 1e6
    again = NodeSample.load(tmp_path / "node.safetensors")
    for name, array in vars(node).items():
        np.testing.assert_array_equal(getattr(again, name), array)
    (tmp_path / "node.safetensors").write_bytes(b"{}")
    with pytest.raises(ValueError, match=r"node\.safetensors is not a whole safetensors file"):
        NodeSample.load(tmp_path / "node.safetensors")


def test_a_node_that_has_rested_is_shown_from_when_the_drive_comes() -> None:
    rested = simulate_node(settings(dt=0.005, start="rest", t_rest=1.5))
    assert rested.times[0] == pytest.approx(0.0, abs=1e-12)
    assert rested.times[-1] == pytest.approx(1.0)
    assert rested.paths.shape == (3, N_PATHS, len(rested.times))
    # Undriven, the spread of a node is 0.2, and its standard error over the replicas 1 / sqrt(2 M) of that.
    assert rested.paths[:, :, 0].std() == pytest.approx(0.2022, abs=5 * 0.2022 / math.sqrt(2 * 3 * N_PATHS))
