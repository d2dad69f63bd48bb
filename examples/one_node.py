"""One node on its way to equilibrium: sampled moments with error bars beside the exact Boltzmann moments. Seconds.

The node sits in the well U(x) = x^2 + x^4 - h x at kT = 0.1, starts at x = 0 and is read at two times. At t = 0.3 it is
still on its way. At t = 4 its moments are those of Boltzmann's law, to within the error bars and the bias of an Euler
step, which is of the order of 1e-4.
"""

import numpy as np

import thermoment as tm

DRIVES = np.array([0.5, 1.0, 2.0])
ORDERS = (1, 2, 4)


def relax(t_final: float, n_replicas: int = 20_000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Moments at t_final, their standard errors, and the moments in equilibrium; each (orders, drives)."""
    dynamics = tm.Dynamics(J2=1, J4=1, kT=0.1)
    node = tm.Reservoir(W=np.zeros((1, 1)), K=np.ones((1, 1)), b=np.zeros(1), dynamics=dynamics)
    protocol = tm.Protocol(dt=1e-3, t_final=t_final, n_replicas=n_replicas, orders=(1, 2, 4, 8))
    moments = tm.simulate(node, DRIVES[:, None], protocol)  # 8 is for the standard error of 4
    sampled = np.array([moments.order(p)[:, 0] for p in ORDERS])
    error = np.array([moments.standard_error(p)[:, 0] for p in ORDERS])
    return sampled, error, dynamics.boltzmann_moments(DRIVES, ORDERS)


def main() -> None:
    """Prints the moments at two times, and those in equilibrium."""
    early, error, equilibrium = relax(0.3)
    late, late_error, _ = relax(4.0)
    for row, p in enumerate(ORDERS):
        for column, h in enumerate(DRIVES):
            at = row, column
            print(
                f"h = {h}: E[x^{p}] = {early[at]:.4f} +- {error[at]:.4f} at t = 0.3, "
                f"{late[at]:.4f} +- {late_error[at]:.4f} at t = 4, {equilibrium[at]:.4f} in equilibrium"
            )


if __name__ == "__main__":
    main()
