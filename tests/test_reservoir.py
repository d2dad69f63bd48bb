"""Reservoir and Protocol: drawing, driving, saving."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from threadpoolctl import threadpool_info, threadpool_limits

import thermoment as tm
from thermoment.physics import coupling_norm


class TestDraw:
    def test_order_and_scales_are_the_contracts(self) -> None:
        N, D = 7, 5
        rng = np.random.default_rng(20260611)
        W = rng.normal(0, 0.2 / np.sqrt(N), (N, N))
        np.fill_diagonal(W, 0)
        K = rng.normal(0, 1.2 / np.sqrt(D), (N, D))
        b = rng.normal(0, 0.02, N)
        drawn = tm.Reservoir.draw(N, D, s_W=0.2, seed=20260611)
        for found, expected in ((drawn.W, W), (drawn.K, K), (drawn.b, b)):
            assert np.array_equal(found, expected)

    def test_dynamics_and_stream_are_kept(self) -> None:
        drawn = tm.Reservoir.draw(3, 2, seed=0, stream=5, dynamics=tm.Dynamics(kT=0.7))
        assert (drawn.stream, drawn.dynamics.kT, drawn.n_nodes, drawn.n_inputs) == (5, 0.7, 3, 2)


class TestArrays:
    def test_are_own_and_read_only(self) -> None:
        K = np.ones((2, 3))
        reservoir = tm.Reservoir(np.zeros((2, 2)), K, np.zeros(2))
        K[0, 0] = 5
        assert reservoir.K[0, 0] == 1
        with pytest.raises(ValueError, match="read-only"):
            reservoir.K[0, 0] = 5

    def test_lists_and_integers_are_taken(self) -> None:
        reservoir = tm.Reservoir([[0, 1], [2, 0]], [[1], [2]], [0, 0])  # type: ignore[arg-type]
        assert reservoir.W.dtype == np.float64
        assert reservoir.drive([[2]]).tolist() == [[2.0, 4.0]]

    def test_it_prints_as_one_line_without_arrays(self) -> None:
        found = repr(tm.Reservoir.draw(256, 784, seed=0, stream=2))
        assert found == "Reservoir(N=256, D=784, stream=2, Dynamics(J2=1.0, J4=1.0, mu=1.0, kT=0.1))"


class TestDrive:
    def test_is_the_projection_plus_the_bias(self) -> None:
        reservoir = tm.Reservoir.draw(6, 9, s_b=1.0, seed=3)
        inputs = np.random.default_rng(0).random((70, 9))
        expected = [[sum(reservoir.K[i] * row) + reservoir.b[i] for i in range(6)] for row in inputs]
        np.testing.assert_allclose(reservoir.drive(inputs), expected, rtol=1e-13)

    def test_a_row_has_the_same_bits_in_any_batch(self) -> None:
        reservoir = tm.Reservoir.draw(256, 784, seed=3)
        inputs = np.random.default_rng(0).random((200, 784)).astype(np.float32)
        whole = reservoir.drive(inputs)
        assert np.array_equal(reservoir.drive(inputs[::-1])[::-1], whole)
        for row in (0, 1, 63, 64, 130, 199):
            assert np.array_equal(reservoir.drive(inputs[row : row + 1])[0], whole[row])

    @pytest.mark.parametrize("row", [0, 150, 299])
    def test_the_strongest_is_found_wherever_it_is(self, row: int) -> None:
        """Drives are computed in blocks of 256 rows; the strongest may be in any, and may be negative."""
        reservoir = tm.Reservoir.draw(6, 9, seed=3)
        inputs = np.random.default_rng(0).random((300, 9))
        inputs[row] *= -50
        driven = reservoir.driven(inputs)
        assert driven.strongest == np.abs(driven.drive).max() == np.abs(driven.drive[row]).max()

    @pytest.mark.parametrize("threads", [1, 2, 3])
    def test_bits_do_not_depend_on_the_threads_of_the_library(self, threads: int) -> None:
        reservoir = tm.Reservoir.draw(256, 784, seed=3)
        inputs = np.random.default_rng(0).random((600, 784)).astype(np.float32)
        whole = reservoir.drive(inputs)
        with threadpool_limits(threads, user_api="blas"):
            assert np.array_equal(reservoir.drive(inputs), whole)

    def test_threads_that_ask_at_the_same_time_leave_its_threads_as_they_were(self) -> None:
        reservoir = tm.Reservoir.draw(256, 784, seed=3)
        inputs = np.random.default_rng(0).random((600, 784)).astype(np.float32)
        whole, before = reservoir.drive(inputs), threadpool_info()
        with ThreadPoolExecutor(4) as pool:
            for found in pool.map(lambda _: reservoir.drive(inputs), range(8)):
                assert np.array_equal(found, whole)
        assert threadpool_info() == before


class TestProtocol:
    def test_steps(self) -> None:
        assert tm.Protocol().n_steps == 1000
        assert tm.Protocol(dt=0.1, t_final=0.3).n_steps == 3
        assert tm.Protocol(dt=1 / 3, t_final=1).n_steps == 3

    def test_equal_protocols_are_equal(self) -> None:
        assert tm.Protocol(orders=[1, 2, 4]) == tm.Protocol()  # type: ignore[arg-type]
        assert hash(tm.Protocol(n_replicas=np.int64(128))) == hash(tm.Protocol())  # type: ignore[arg-type]


class TestFiles:
    def test_round_trip_to_the_last_bit(self, tmp_path: Path) -> None:
        saved = tm.Reservoir.draw(5, 3, seed=8, stream=2, dynamics=tm.Dynamics(0.1 + 0.2, 1 / 3, 1e-300, np.pi))
        saved.save(tmp_path / "r.safetensors")
        loaded = tm.Reservoir.load(tmp_path / "r.safetensors")
        for name in ("W", "K", "b"):
            assert getattr(loaded, name).tobytes() == getattr(saved, name).tobytes()
        assert (loaded.dynamics, loaded.stream) == (saved.dynamics, saved.stream)
        assert [path.name for path in tmp_path.iterdir()] == ["r.safetensors"]

    def test_a_damaged_file_is_named(self, tmp_path: Path) -> None:
        path = tmp_path / "r.safetensors"
        tm.Reservoir.draw(5, 3, seed=8).save(path)
        path.write_bytes(path.read_bytes()[:-9])
        with pytest.raises(ValueError, match=r"r\.safetensors is not a whole safetensors file"):
            tm.Reservoir.load(path)

    def test_another_kind_of_file_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "m.safetensors"
        node = tm.Reservoir.draw(1, 1, seed=0)
        tm.simulate(node, [[1.0]], tm.Protocol(dt=0.1, n_replicas=2), engine="reference").save(path)
        with pytest.raises(ValueError, match=r"must hold a thermoment\.reservoir .* but holds thermoment\.moments"):
            tm.Reservoir.load(path)

    def test_a_failed_write_keeps_the_old_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "r.safetensors"
        tm.Reservoir.draw(5, 3, seed=8).save(path)
        before = path.read_bytes()

        def disk_full(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("thermoment._support.files.os.fsync", disk_full)
        with pytest.raises(OSError, match="No space left"):
            tm.Reservoir.draw(5, 3, seed=9).save(path)
        assert path.read_bytes() == before
        assert [path.name for path in tmp_path.iterdir()] == ["r.safetensors"]


def test_the_norm_of_the_coupling_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[float] = []

    def counted(W: NDArray[np.float64]) -> float:
        calls.append(coupling_norm(W))
        return calls[-1]

    monkeypatch.setattr("thermoment.reservoir.coupling_norm", counted)
    one = tm.Reservoir.draw(5, 3, s_W=1.0, seed=8)
    for _ in range(2):
        tm.simulate(one, np.ones((2, 3)), tm.Protocol(dt=0.01, t_final=0.1, n_replicas=2), engine="reference")
    assert calls == [one.coupling_norm]
    assert one.coupling_norm == pytest.approx(np.linalg.norm(one.W, 2), rel=0.05)


def test_a_symmetric_draw_has_the_same_scale_and_leaves_the_rest() -> None:
    plain, found = (tm.Reservoir.draw(300, 5, s_W=0.7, seed=3, symmetric=which) for which in (False, True))
    assert tm.integrability(found.W).integrable
    assert not np.any(np.diagonal(found.W))
    np.testing.assert_allclose(found.W, (plain.W + plain.W.T) / np.sqrt(2))
    above = found.W[np.triu_indices(300, 1)]
    assert above.std() == pytest.approx(0.7 / np.sqrt(300), rel=4 / np.sqrt(2 * len(above)))
    np.testing.assert_array_equal(found.K, plain.K)
    np.testing.assert_array_equal(found.b, plain.b)
