"""A training's state and history in a file, from which the training goes on bit for bit."""

import json
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from thermoment._support.files import read_tensors, write_tensors
from thermoment._support.identity import identity
from thermoment.learning.finite_time.loss import State


def save(path: str | PathLike[str], state: State, history: Sequence[Any], training: str) -> None:
    """Writes the checkpoint, whole or not at all. `training` names the training that it belongs to."""
    tensors = {name: np.asarray(leaf) for name, leaf in _named(state).items()}
    facts = {"training": training, "history": history, "digest": identity(*tensors.values())}
    write_tensors(path, "checkpoint", tensors, json.dumps(facts))


def resume(path: str | PathLike[str] | None, state: State, training: str) -> tuple[State, list[list[Any]]]:
    """The state and the history in the checkpoint; without a checkpoint the given state and no history."""
    if path is None or not Path(path).exists():
        return state, []
    tensors, text = read_tensors(path, "checkpoint", list(_named(state)))
    facts = json.loads(text)
    if facts["training"] != training:
        raise ValueError(f"{path} is a checkpoint of another training: its data, settings or reservoirs differ.")
    arrays = [tensors[name].reshape(leaf.shape) for name, leaf in _named(state).items()]  # a file has no scalars
    if facts["digest"] != identity(*arrays):
        raise ValueError(f"{path} is damaged: its numbers are not those that were written. Remove it to start anew.")
    leaves = [jnp.asarray(array) for array in arrays]
    return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(state), leaves), facts["history"]


def _named(state: State) -> dict[str, Any]:
    """The arrays of the state, each under a name that says where in the state it stands."""
    return {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(state)}
