"""Layers of thermodynamic neurons learn a cosine by gradients through their noisy paths. Half a minute.

One number z in [0, 1] drives the first of two layers of eight neurons. The answer, a weighted sum of the mean positions
of the second layer at t = 1, is to be cos(2 pi z). The network and the task are those of Whitelam and Casert,
arXiv:2412.17183, where there are four layers (studies/neurons.py).
"""

import numpy as np

import thermoment as tm


def errors(steps: int = 200, n_replicas: int = 1000) -> dict[str, float]:
    """Mean squared error of the sampled answers, before training and after."""
    z = np.linspace(0, 1, 50)[:, None]
    target = np.cos(2 * np.pi * z[:, 0])
    machine = tm.neurons.Layered.draw((8, 8), 1, seed=1, dynamics=tm.Dynamics(kT=0.02))
    protocol = tm.Protocol(dt=0.02, n_replicas=n_replicas)
    trained = tm.neurons.learn(machine, z, target, protocol, warm_up=500, steps=steps).machine
    return {
        name: float(np.mean((one.answers(z, protocol)[:, 0] - target) ** 2))
        for name, one in (("before training", machine), ("after training", trained))
    }


def main() -> None:
    """Prints the errors."""
    print("Mean squared error of a cosine by two layers of eight neurons")
    for name, error in errors().items():
        print(f"  {name:16} {error:.4f}")


if __name__ == "__main__":
    main()
