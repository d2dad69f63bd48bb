"""A store on object storage: the same bytes as in a folder; what was cut off or damaged is found and sent again."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import thermoment as tm
from support.runs import TINY, contents, experiment
from support.sketches import node_of_zeros, sketch
from thermoment.cli import main
from thermoment.experiments.experiment import Experiment
from thermoment.report.figures import draw
from thermoment.runs import example_node
from thermoment.runs.claims import SILENCE, take, wait_for
from thermoment.runs.executors import Part
from thermoment.runs.remote import Remote
from thermoment.runs.run import run_part
from thermoment.runs.store import SUMS, Stage, Store, keep

fsspec = pytest.importorskip("fsspec")

PLAIN = TINY.replace("epochs = 3\n", "epochs = 3\nconverged = false\n")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Sketches for figures, a cache of this test's own, and an empty memory."""
    monkeypatch.setattr(draw, "draw", sketch)
    monkeypatch.setattr(example_node, "simulate_node", node_of_zeros)
    monkeypatch.setenv("THERMOMENT_CACHE", str(tmp_path / "cache"))
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    yield
    memory.store.clear()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return experiment(PLAIN, tmp_path_factory.mktemp("experiment"))


@pytest.fixture(scope="module")
def finished(plain: Experiment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draw, "draw", sketch)
        patch.setattr(example_node, "simulate_node", node_of_zeros)
        tm.run(plain, folder)
    return folder


def objects(url: str) -> dict[str, bytes]:
    """All objects but claims."""
    remote = Remote(url)
    names = [name for name in remote.sizes("") if not name.startswith(".locks")]
    return {name: remote.read(name) or b"" for name in names}


def test_a_path_a_file_url_and_a_url() -> None:
    assert Store.at("a/b") == Store(Path("a/b"))
    assert Store.at("file:///a/b") == Store(Path("/a/b"))
    assert Store.at("memory://a/b/").remote == Remote("memory://a/b")


def test_a_stage_is_there_when_its_checksums_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, sent = Remote.write, list[str]()

    def write(self: Remote, name: str, data: bytes) -> None:
        sent.append(name)
        real(self, name, data)

    monkeypatch.setattr(Remote, "write", write)
    here, there = (Store(tmp_path / name, Remote("memory://store")) for name in ("here", "there"))

    def build(folder: Path) -> None:
        (folder / "sub").mkdir()
        (folder / "sub/a").write_text("all")

    def never(_: Path) -> None:
        raise AssertionError("it was there")

    one = Stage.of(here, "thing", 1, {})
    assert not keep(one, build)
    assert sent[-1] == f"{one.name}/{SUMS}"
    assert sorted(sent) == sorted(objects("memory://store"))
    two = Stage.of(there, "thing", 1, {})
    assert keep(two, never)
    assert (two.folder / "sub/a").read_text() == "all"

    # An upload that was cut off after any of its objects is sent again by who has the stage, made again by who has not.
    remote = Remote("memory://store")
    whole = objects("memory://store")
    for name in whole:
        remote.remove(name)
        if name.endswith(SUMS):
            assert keep(one, never)
        else:
            shutil.rmtree(two.folder)
            assert not keep(two, build)
        assert objects("memory://store") == whole
    remote.write(f"{one.name}/sub/a", b"al")
    shutil.rmtree(two.folder)
    assert not keep(two, build)
    assert objects("memory://store") == whole


def test_claims_on_object_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board = Store(tmp_path, Remote("memory://store")).board
    claim = take(board, "a")
    assert claim is not None
    assert take(board, "a") is None
    seen = board.read("a")
    board.beat("a", claim.text)
    assert board.read("a") != seen
    assert board.names() == ["a"]
    claim.release()
    assert board.names() == []
    Remote("memory://store").write(".locks/b", b'{"process": 1, "host": "elsewhere"}\n5')
    assert take(board, "b") is None
    monkeypatch.setenv(SILENCE, "0.1")
    assert wait_for(board, "b") is not None
    board.beat("b", "what another holds")
    assert take(board, "b") is None


def test_a_run_by_machines_with_nothing_in_common_but_the_storage(
    plain: Experiment, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):  # a machine each: its own cache, its own folders
        monkeypatch.setenv("THERMOMENT_CACHE", str(tmp_path / f"cache{number}"))
        results = run_part(plain, Part(number, 2), tmp_path / f"machine{number}/tiny", store="memory://store/runs")
        assert (results is None) == (number == 1)
    assert contents(tmp_path / "machine2/tiny") == contents(finished)
    assert not (tmp_path / "machine1").exists()

    # A third has nothing to compute. A chunk that came to be damaged there is the only one that is made again.
    moments = next(name for name in objects("memory://store/runs") if "/moments/c/1/" in name)
    whole = objects("memory://store/runs")
    Remote("memory://store/runs").write(moments, whole[moments][:-1])
    monkeypatch.setenv("THERMOMENT_CACHE", str(tmp_path / "cache3"))
    heard: dict[str, int] = {}
    tm.run(
        plain,
        tmp_path / "machine3/tiny",
        store="memory://store/runs",
        listener=lambda what, done, *_: heard.update({what: done}),
    )
    assert list(heard.values()) == [50]
    assert contents(tmp_path / "machine3/tiny") == contents(finished)
    assert objects("memory://store/runs") == whole


def test_features_that_are_not_kept_go_from_the_storage_too(tmp_path: Path) -> None:
    unkept = experiment(PLAIN.replace("[features]\n", "[features]\nkeep = false\n"), tmp_path)
    tm.run(unkept, tmp_path / "run", store="memory://store")
    assert not any(name.startswith("features") for name in objects("memory://store"))
    assert any(name.startswith("readouts") for name in objects("memory://store"))


def test_a_storage_that_cannot_be_used_is_one_sentence(
    plain: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["run", "digits", "--out", str(tmp_path / "run"), "--store"]
    done = CliRunner().invoke(main, [*command, "nosuch://bucket/path"])
    assert done.exit_code == 1
    assert "thermoment: The store nosuch://bucket/path cannot be used: " in done.stderr.splitlines()[-1]

    def vanished(*_: object, **__: object) -> None:
        raise ConnectionError("Connection refused")

    def stop(what: str, *_: object) -> None:
        if what.startswith("reference K2"):
            monkeypatch.setattr(type(fsspec.filesystem("memory")), "pipe_file", vanished)

    with pytest.raises(
        RuntimeError, match=r"The store memory://store cannot be used: Connection refused. What is in it"
    ):
        tm.run(plain, tmp_path / "run", store="memory://store", listener=stop)
    assert any("/moments/c/" in name for name in objects("memory://store"))  # what is done stays done


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """The URL of a bucket of an S3 server in this process."""
    pytest.importorskip("s3fs")
    server: Any = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        fsspec.filesystem("s3", use_listings_cache=False).mkdir("bucket")
        yield "s3://bucket/some/runs"
    server.stop()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_run_through_an_s3_server(plain: Experiment, finished: Path, tmp_path: Path, s3: str) -> None:
    tm.run(plain, tmp_path / "first/tiny", store=s3)
    assert contents(tmp_path / "first/tiny") == contents(finished)
    whole = objects(s3)

    # Uploads cut off, of a stage and of a chunk, are found by who has the bytes and sent again.
    readouts = next(name for name in whole if name.startswith("readouts") and name.endswith(SUMS))
    moments = next(name for name in whole if "/moments/c/2/" in name)
    Remote(s3).remove(readouts)
    Remote(s3).remove(moments)
    heard: list[str] = []
    tm.run(plain, tmp_path / "first/tiny", store=s3, listener=lambda what, *_: heard.append(what))
    assert heard == []
    assert objects(s3) == whole

    # Another machine takes all from there, but what is damaged there, which it makes and sends again.
    shutil.rmtree(tmp_path / "cache")
    Remote(s3).write(moments, whole[moments][: len(whole[moments]) // 2])
    tm.run(plain, tmp_path / "second/tiny", store=s3, listener=lambda what, *_: heard.append(what))
    assert set(heard) <= {"reference K1, images", "reference K2, images"}
    assert len(set(heard)) == 1
    assert contents(tmp_path / "second/tiny") == contents(finished)
    assert objects(s3) == whole


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_bucket_that_is_not_there_is_one_sentence(plain: Experiment, tmp_path: Path, s3: str) -> None:
    url = s3.replace("bucket", "no-such-bucket")
    with pytest.raises(RuntimeError, match=f"The store {url} cannot be used: "):
        tm.run(plain, tmp_path / "run", store=url)
