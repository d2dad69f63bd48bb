"""What the native engine says where its C++ module is missing or cannot be loaded."""

import importlib.util
import sys
from types import ModuleType

import pytest

from thermoment._engines import native


def _import_anew() -> ModuleType:
    """native.py once more, under another name, so that the engine in use stays as it is."""
    spec = importlib.util.spec_from_file_location("native_anew", native.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for it
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[spec.name]
    return module


def test_without_the_extension_it_says_that_it_was_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "thermoment._engines._native", None)
    with pytest.raises(RuntimeError, match=r"was not built: no working C\+\+ compiler"):
        _import_anew().Native().status()


def test_in_a_tree_that_was_never_built_it_says_so_too(monkeypatch: pytest.MonkeyPatch) -> None:
    engines = sys.modules["thermoment._engines"]
    monkeypatch.delitem(sys.modules, "thermoment._engines._native", raising=False)
    monkeypatch.delattr(engines, "_native", raising=False)
    monkeypatch.setattr(engines, "__path__", [])
    with pytest.raises(RuntimeError, match=r"was not built: no working C\+\+ compiler"):
        _import_anew().Native().status()


def test_with_a_broken_extension_it_says_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "thermoment._engines._native", ModuleType("_native"))
    with pytest.raises(RuntimeError, match="was built but cannot be loaded: cannot import name 'kernels'"):
        _import_anew().Native().status()
