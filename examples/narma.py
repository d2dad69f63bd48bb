"""A reservoir follows the signal NARMA-10: moments of four replicas, a linear readout. Seconds.

What is wanted at a row depends on the product of the inputs one and ten rows ago, so it takes memory and something
nonlinear. A coupling that turns the state remembers much longer than one of independent random numbers.
"""

import thermoment as tm


def errors(length: int = 2000) -> dict[str, float]:
    """Test error, as a share of the target's standard deviation, by the kind of coupling."""
    u, y = tm.signals.narma10(length, seed=1)
    half = length // 2
    protocol = tm.Protocol(dt=0.025, n_replicas=4, orders=(1, 2))
    wells = tm.Dynamics(J2=1.0, J4=0.1, kT=1e-6)
    kinds = {
        "independent numbers": (tm.Reservoir.draw(100, 1, s_W=1.8, s_K=0.3, s_b=0.1, seed=1, dynamics=wells), 0.5),
        "turning": (tm.signals.turning(100, s_K=0.3, seed=1), 1.0),
    }
    found = {}
    for name, (reservoir, hold) in kinds.items():
        follower = tm.signals.fit(reservoir, u[:half], y[:half], protocol, hold=hold)
        prediction = follower.follow(u[half:], follower.end).prediction
        found[name] = tm.signals.nrmse(prediction, y[half:])
    return found


def main() -> None:
    """Prints the errors."""
    print("NARMA-10 by 100 nodes: error as a share of the spread, by the kind of coupling")
    for name, error in errors().items():
        print(f"  {name:20} {error:.3f}")


if __name__ == "__main__":
    main()
