"""How W is laid out for the cuda engine's kernels; needs no GPU."""

import numpy as np
import pytest

from thermoment._engines.cuda_layout import CHUNK, K_BLOCK, LARGEST_SUM, WIDTH, node_of_column, pack_wide, power_of_two


def weights(N: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return np.random.default_rng(N).standard_normal((N, N))


@pytest.mark.parametrize("N", [257, 300, 1000])
def test_every_weight_lies_where_the_kernel_reads_it(N: int) -> None:
    """Chunk i of a row lies at i ^ (row % 8), and what has no node is zero."""
    W = weights(N)
    packed = pack_wide(W, 0.25).view(np.float16)
    columns, k_blocks = -(-N // WIDTH), -(-N // K_BLOCK)
    assert packed.shape == (columns, k_blocks, WIDTH, 8, 8)
    row, chunk = np.ogrid[:WIDTH, :8]
    straight = packed[:, :, row, chunk ^ row % 8].transpose(0, 2, 1, 3, 4).reshape(columns * WIDTH, -1)
    node = node_of_column(columns)
    expected = np.zeros((columns * WIDTH, columns * WIDTH), np.float16)
    expected[:N, :N] = 0.25 * W
    np.testing.assert_array_equal(straight, expected[np.ix_(node, node[: k_blocks * K_BLOCK])])


def test_nodes_stay_in_their_block_of_columns() -> None:
    """So blocks of k without a node can be left out."""
    node = node_of_column(3)
    assert sorted(node) == list(range(3 * WIDTH))
    np.testing.assert_array_equal(node // K_BLOCK, np.arange(3 * WIDTH) // K_BLOCK)


@pytest.mark.parametrize("N", [5, 256, 700])
@pytest.mark.parametrize("clip", [0.5, 4.0, 6e4])
def test_the_power_is_the_largest_that_cannot_overflow(N: int, clip: float) -> None:
    """The largest sum of any `CHUNK` blocks of columns, written out by hand."""
    W = weights(N)
    W[:, : N // 2] *= 100
    blocks = [np.abs(1e-3 * W[:, k : k + K_BLOCK]).sum(axis=1) for k in range(0, N, K_BLOCK)]
    most = max(clip, 1.0) * np.sort(blocks, axis=0)[-CHUNK:].sum(axis=0).max()
    p = power_of_two(W, 1e-3, clip)
    assert most * 2.0**p <= LARGEST_SUM < most * 2.0 ** (p + 1)
    assert power_of_two(0 * W, 1e-3, clip) == 0
