"""What the cuda engine tells its kernels of a task, and what it makes of their answers; needs no GPU."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import thermoment as tm
from thermoment._engines import cuda_plan
from thermoment._engines.cuda_layout import WIDTH, node_of_column
from thermoment._engines.cuda_plan import Found, Plan, launch_samples, settle
from thermoment._engines.task import Segment, Task
from thermoment.simulation import prepare

S, M, N = 3, 100, 9
PROTOCOL = tm.Protocol(dt=1e-2, n_replicas=M)
RESERVOIR = tm.Reservoir.draw(N, 10, s_W=0.5, s_K=4.0, s_b=0.2, seed=11)
INPUTS = np.random.default_rng(5).random((S, 10))
KERNELS = Path(cuda_plan.__file__).parent / "kernels" / "cuda"


def of_segments(*segments: Segment, **options: Any) -> Task:
    return Task(segments, RESERVOIR.dynamics, PROTOCOL, np.arange(S, dtype=np.uint64), 0, **options)


def fields_in_c(file: str, name: str) -> list[tuple[str, str]]:
    """Name and NumPy type of each field of a structure, from the source of the kernel."""
    found = re.search(rf"struct {name} {{(.*?)^}};", (KERNELS / file).read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert found
    fields = []
    for line in re.sub(r"//.*", "", found[1]).split(";")[:-1]:
        kind, names = re.fullmatch(r"\s*(.*?[\s*])\s*(\w+(?:\[\d+\])?(?:,\s*\w+)*)\s*", line, re.DOTALL).groups()  # type: ignore[union-attr]
        scalar = {"u32": "uint32", "int": "int32", "float": "float32", "u64": "uint64"}
        numpy_type = "uint64" if "*" in kind else scalar[kind.strip()]
        fields += [(one.split("[")[0].strip(), numpy_type) for one in names.split(",")]
    return fields


@pytest.mark.parametrize(
    ("file", "name"),
    [("node.cuh", "Task"), ("segments.cuh", "Segment"), ("segments.cuh", "Course"), ("wide.cu", "Network")],
)
def test_structures_are_those_of_the_kernels(file: str, name: str) -> None:
    kind = getattr(cuda_plan, name.upper())
    assert fields_in_c(file, name) == [(field, kind[field].base.name) for field in kind.names]
    offset = 0
    for field in kind.names:  # as C lays them out: each at a multiple of its own size
        size = kind[field].base.itemsize
        offset = -(-offset // size) * size
        assert kind.fields[field][1] == offset
        offset += kind[field].itemsize


class TestSegments:
    def test_drives_and_couplings_that_are_shared_are_sent_once(self) -> None:
        h, other, W = RESERVOIR.drive(INPUTS), np.zeros((S, N)), 8 * RESERVOIR.W
        plan = Plan.of(
            of_segments(
                Segment(5, other, RESERVOIR.W, read=False),
                Segment(7, h, W),
                Segment(9, other, W, read=False),
                Segment(2, h, RESERVOIR.W),
            )
        )
        assert plan.segments["n_steps"].tolist() == [5, 7, 9, 2]
        assert plan.segments["drive"].tolist() == [0, 1, 0, 1]
        assert plan.segments["coupling"].tolist() == [0, 1, 1, 0]
        assert plan.segments["read"].tolist() == [0, 1, 0, 1]
        assert len(plan.drives) == len(plan.couplings) == 2
        # Eight times the coupling is scaled by 2^3 less, and its unit is 2^3 times as much.
        units = plan.segments["unit"]
        assert units.tolist() == [2.0 ** -plan.powers[k] for k in (0, 1, 1, 0)]
        assert units[1] == 8 * units[0]
        assert plan.parameters(S)["n_steps"] == 23

    def test_the_steps_are_those_of_the_segments_not_of_the_protocol(self) -> None:
        """A course with a single reading is one segment from zero that need not end at t_final."""
        task = of_segments(Segment(30, RESERVOIR.drive(INPUTS), RESERVOIR.W))
        assert task.protocol.n_steps == 100
        assert Plan.of(task).plain
        assert Plan.of(task).parameters(S)["n_steps"] == 30

    def test_which_tasks_have_the_kernel_without_segments(self) -> None:
        task = prepare(RESERVOIR, INPUTS, PROTOCOL)
        assert Plan.of(task).plain
        rested = prepare(RESERVOIR, INPUTS, replace(PROTOCOL, start="rest", t_rest=1.5))
        from_x0 = prepare(RESERVOIR, INPUTS, PROTOCOL, x0=np.zeros(N))
        for other in (rested, from_x0, replace(task, keep_states=True), replace(task, a_part=True)):
            assert not Plan.of(other).plain

    def test_a_launch_counts_the_steps_of_all_segments(self) -> None:
        """Ctrl-C waits for a launch: its tiles times their steps are bounded, down to one tile for each that runs."""
        at = {steps: launch_samples(264, blocks=2, n_steps=steps) for steps in (1, 1000, 2000, 20_000, 10**6)}
        assert at == {1: 1320, 1000: 1320, 2000: 1320, 20_000: 264, 10**6: 132}
        assert launch_samples(264, blocks=2**14, n_steps=1000) == 1
        row = Segment(100, np.zeros((500, N)), RESERVOIR.W, read=False)
        signal = of_segments(*[row] * 199, row._replace(read=True))
        assert [len(range(500)[one]) for one in Plan.of(signal).chunks(264)] == [264, 236]

    def test_a_launch_of_many_readings_is_small_as_long_as_it_fills_the_gpu(self) -> None:
        """So that the host has something to do from the beginning on."""
        at = {size: launch_samples(264, blocks=2, n_steps=1000, bytes_each=size) for size in (10**3, 10**5, 10**9)}
        assert at == {10**3: 1320, 10**5: 660, 10**9: 132}


class TestArrays:
    def test_the_drive_in_either_order(self) -> None:
        plan = Plan.of(prepare(RESERVOIR, INPUTS, PROTOCOL))
        some = np.array([2, 0])
        expected = (PROTOCOL.dt * RESERVOIR.drive(INPUTS)[some]).astype(np.float32)
        np.testing.assert_array_equal(plan.drive(some, in_segments=True), expected[None])
        by_column = plan.drive(some, in_segments=False)
        by_node = np.empty_like(by_column)
        by_node[:, node_of_column()] = by_column
        np.testing.assert_array_equal(by_node[:, :N], expected)
        assert by_column.shape == (2, WIDTH)
        assert not by_node[:, N:].any()

    @pytest.mark.parametrize("shape", [(N,), (S, N), (S, M, N)])
    def test_a_start_of_any_shape_is_found_by_its_strides(self, shape: tuple[int, ...]) -> None:
        x0 = np.random.default_rng(2).normal(size=shape)
        task = prepare(RESERVOIR, INPUTS, PROTOCOL, x0=x0)
        some = np.array([1, 2])
        start, sample_stride, replica_stride = Plan.of(task).start(some)
        s, m, node = np.ogrid[:2, :M, :N]
        found = start.ravel()[s * sample_stride + m * replica_stride + node]
        np.testing.assert_array_equal(found, np.float32(task.started(slice(1, 3), slice(None))))

    @pytest.mark.parametrize("in_segments", [True, False])
    def test_means_are_of_all_tiles(self, in_segments: bool) -> None:
        plan = Plan.of(prepare(RESERVOIR, INPUTS, PROTOCOL))
        shape = plan.sums_shape(S, in_segments=in_segments)
        assert shape == (1, S, 2, 3, N if in_segments else WIDTH)
        node = np.arange(N) if in_segments else node_of_column()
        sums = np.zeros(shape, np.float32) + np.array([[1], [10], [100]], np.float32) * (node + 1).astype(np.float32)
        sums[:, 1] *= 3
        means = np.full((1, S, 3, N), np.nan)
        plan.fill_means(means, sums, in_segments=in_segments)
        expected = np.multiply.outer([1, 3, 1], np.multiply.outer([1, 10, 100], np.arange(1, N + 1))) * 2 / M
        np.testing.assert_allclose(means[0], expected, rtol=1e-15)


class TestClip:
    """Two readings of three samples: the first sample is quiet, the second reaches the clip late, the third early."""

    UNSURE = np.array([[0, 0, 1], [0, 1, 0]], np.uint8)
    CLIPPED = np.array([[0, 0, 4], [0, 2, 5]])

    def found(self, value: float, samples: int = S) -> Found:
        return Found(np.full((2, samples, 3, N), value), self.CLIPPED[:, -samples:], self.UNSURE[:, -samples:], None)

    def run(self, **options: Any) -> tuple[NDArray[np.float64], NDArray[np.int64], list[list[int]]]:
        one = Segment(5, np.zeros((S, N)), RESERVOIR.W)
        asked = []

        def again(samples: NDArray[np.intp]) -> Found:
            asked.append(samples.tolist())
            return self.found(2.0, len(samples))

        found = self.found(1.0)
        clipped = settle(of_segments(one, one, **options), found, again)
        return found.means, clipped, asked

    def test_a_reading_is_that_of_a_run_that_ends_there(self) -> None:
        """It has been done again where such a run would be, and its count is that of such runs."""
        means, clipped, asked = self.run()
        assert asked == [[1, 2]]
        assert means[:, :, 0, 0].tolist() == [[1, 1, 2], [1, 2, 2]]
        assert clipped.tolist() == [4, 2 + 4 + 5]

    def test_nothing_is_done_again_in_a_part_of_a_run(self) -> None:
        """The other parts would not know of it."""
        for options in ({"a_part": True}, {"keep_states": True}):
            means, clipped, asked = self.run(**options)
            assert asked == []
            assert (means == 1).all()
            assert clipped.tolist() == [4, 11]
