"""How W and the nodes are laid out for the kernels of the cuda engine: W in half precision, scaled, swizzled, padded."""

import math

import numpy as np
from numpy.typing import NDArray

WIDTH = 256
"""Columns of a tile that one multiprocessor holds. More nodes are several such blocks of columns."""
K_BLOCK = 64
"""Columns of x that are multiplied together, where W comes in blocks."""
CHUNK = 8
"""Blocks of `K_BLOCK` columns whose products are added up in half precision."""
LARGEST_SUM = 2.0**15
"""Half precision ends at 65504. Sums are kept below this, which leaves room for rounding."""


def node_of_column(columns: int = 1) -> NDArray[np.intp]:
    """The node of each column of some blocks: (columns * WIDTH,).

    Column 8 j + 2 c + e is node 2 (j % 2) + e of group 4 (j / 2) + c.
    """
    column = np.arange(columns * WIDTH)
    j, c, e = column // 8, column % 8 // 2, column % 2
    return 16 * (j // 2) + 4 * c + 2 * (j % 2) + e


def power_of_two(W: NDArray[np.float64], clip: float) -> int:
    """The largest p for which no sum over j of 2^p W_ij x_j, with |x_j| <= clip, exceeds `LARGEST_SUM`.

    No sum is of more than `CHUNK` blocks of columns.
    """
    together = np.abs(W)
    if len(W) > CHUNK * K_BLOCK:
        together = np.sort(np.add.reduceat(together, range(0, len(W), K_BLOCK), axis=1), axis=1)[:, -CHUNK:]
    largest = max(clip, 1.0) * float(together.sum(axis=1).max())
    return int(np.clip(math.floor(math.log2(LARGEST_SUM / largest)), -100, 100)) if largest else 0


def pack(W: NDArray[np.float64], product: str) -> NDArray[np.uint16]:
    """W in half precision, as the product reads it: described in product_wgmma.cuh and product_mma.cuh."""
    by_column = _by_column(W, 1)
    if product == "wgmma":
        rows = by_column.reshape(WIDTH, 4, 8, 8).transpose(1, 0, 2, 3)
        n = np.arange(WIDTH)[:, None]
        return np.ascontiguousarray(rows[:, n, np.arange(8) ^ (n % 8)])
    lane = np.arange(32)
    k16, pair, tile, half, e = np.ogrid[:16, :16, :2, :2, :2]
    n = 8 * (2 * pair + tile)[..., None] + lane // 4
    k = (16 * k16 + 8 * half + e)[..., None] + 2 * (lane % 4)
    return np.ascontiguousarray(np.moveaxis(by_column[n, k], -1, 2))


def pack_wide(W: NDArray[np.float64]) -> NDArray[np.uint16]:
    """W in half precision, as the kernel for more nodes reads it: (blocks of columns, blocks of k, WIDTH, 8, 8)."""
    columns, k_blocks = math.ceil(len(W) / WIDTH), math.ceil(len(W) / K_BLOCK)
    rows = _by_column(W, columns)[:, : k_blocks * K_BLOCK].reshape(columns, WIDTH, k_blocks, 8, 8)
    packed = np.empty((columns, k_blocks, WIDTH, 8, 8), np.uint16)
    for n in range(8):  # a chunk's place depends on its row modulo 8
        packed[:, :, n::8] = rows[:, n::8, :, np.arange(8) ^ n].transpose(0, 2, 1, 3, 4)
    return packed


def _by_column(W: NDArray[np.float64], columns: int) -> NDArray[np.uint16]:
    """W in half precision in the order of the columns, padded: (columns * WIDTH, columns * WIDTH)."""
    padded = np.zeros((columns * WIDTH, columns * WIDTH), np.float16)
    padded[: len(W), : len(W)] = W
    node = node_of_column(columns)
    return padded.view(np.uint16)[np.ix_(node, node)]
