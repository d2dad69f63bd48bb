"""How W and the nodes are laid out for the kernels of the cuda engine: W in half precision, scaled and swizzled."""

import math

import numpy as np
from numpy.typing import NDArray

from thermoment._engines.task import Array
from thermoment._support.threads import in_blocks

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


def power_of_two(W: Array, factor: float, clip: float) -> int:
    """The largest p for which no sum over j of 2^p factor W_ij x_j, with |x_j| <= clip, exceeds `LARGEST_SUM`.

    No sum is of more than `CHUNK` blocks of columns.
    """

    def largest(rows: slice) -> float:
        together = np.abs(factor * W[rows])
        if len(W) > CHUNK * K_BLOCK:
            together = np.sort(np.add.reduceat(together, range(0, len(W), K_BLOCK), axis=1), axis=1)[:, -CHUNK:]
        return float(together.sum(axis=1).max())

    most = max(clip, 1.0) * max(in_blocks(largest, len(W), WIDTH))
    return int(np.clip(math.floor(math.log2(LARGEST_SUM / most)), -100, 100)) if most else 0


def pack(W: Array, factor: float, product: str) -> NDArray[np.uint16]:
    """factor W in half precision, as the product reads it: described in product_wgmma.cuh and product_mma.cuh."""
    node = node_of_column()
    padded = np.zeros((WIDTH, WIDTH))
    padded[: len(W), : len(W)] = factor * W
    by_column = padded[np.ix_(node, node)].astype(np.float16).view(np.uint16)
    if product == "wgmma":
        rows = by_column.reshape(WIDTH, 4, 8, 8).transpose(1, 0, 2, 3)
        n = np.arange(WIDTH)[:, None]
        return np.ascontiguousarray(rows[:, n, np.arange(8) ^ (n % 8)])
    lane = np.arange(32)
    k16, pair, tile, half, e = np.ogrid[:16, :16, :2, :2, :2]
    n = 8 * (2 * pair + tile)[..., None] + lane // 4
    k = (16 * k16 + 8 * half + e)[..., None] + 2 * (lane % 4)
    return np.ascontiguousarray(np.moveaxis(by_column[n, k], -1, 2))


def pack_wide(W: Array, factor: float) -> NDArray[np.uint16]:
    """factor W in half precision, as pipe.cuh has it: (blocks of columns, blocks of k, WIDTH, 8 chunks, 8)."""
    columns, k_blocks = math.ceil(len(W) / WIDTH), math.ceil(len(W) / K_BLOCK)
    packed = np.empty((columns, k_blocks, WIDTH, 8, 8), np.uint16)
    node, width = node_of_column(), k_blocks * K_BLOCK

    def block(nodes: slice) -> None:
        padded = np.zeros((WIDTH, width), np.float16)
        padded[: nodes.stop - nodes.start, : len(W)] = factor * W[nodes]
        order = node_of_column(columns)[:width]
        rows = padded[np.ix_(node, order)].view(np.uint16).reshape(WIDTH, k_blocks, 8, 8)
        for n in range(8):  # a chunk's place depends on its row modulo 8
            packed[nodes.start // WIDTH, :, n::8] = rows[n::8, :, np.arange(8) ^ n].transpose(1, 0, 2, 3)

    in_blocks(block, len(W), WIDTH)
    return packed
