"""What a result was made on: versions of what is installed, and no answer for what is not."""

import json
import platform
from importlib.metadata import version

import thermoment
from thermoment._support import host


def test_versions() -> None:
    assert host.versions("numpy", "no-such-package") == {"numpy": version("numpy"), "no-such-package": None}


def test_the_environment_of_a_run_is_json_and_names_the_engine() -> None:
    found = json.loads(json.dumps(host.environment("native")))
    assert (found["thermoment"], found["engine"]) == (thermoment.__version__, "native")
    assert found["packages"]["jax"] == version("jax")
    assert found["python"] == platform.python_version()


def test_a_measurement_names_the_accelerator_and_only_packages_that_are_there() -> None:
    found = host.describe("pytest", "no-such-package")
    assert found["pytest"] == version("pytest")
    assert "no-such-package" not in found
    assert isinstance(found["accelerator"], str)
    assert found["cores"] in range(1, 10**4)
