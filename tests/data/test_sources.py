"""Fetching: every byte checked, kept once, asked for no more than needed; what cannot be had is explained."""

import gzip
import hashlib
import io
import shutil
from collections.abc import Callable, Mapping
from http.client import IncompleteRead
from pathlib import Path
from typing import IO
from urllib.error import HTTPError, URLError

import numpy as np
import pytest

from support.idx_files import FILES, TINY, write
from thermoment.data import load, locate, sources
from thermoment.data.sources import File, Folder, Known, Mirror, Npm, fetch

NAMES = list(TINY)
ONE, TWO = "https://one.example/mnist/", "https://two.example/"
OTHER = TINY["t10k-labels-idx1-ubyte"][:-1] + b"\x09"


class Response(io.BytesIO):
    """Stands in for what `urlopen` gives: bytes, and how many where the server says so."""

    length: int | None = None


class Web:
    """Stands in for `urlopen`: answers with bytes or an error, and remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, bytes | Exception] = {}
        self.asked: list[str] = []
        self.says_length = True

    def serve(self, where: str, files: Mapping[str, bytes]) -> None:
        self.answers |= {f"{where}{name}.gz": gzip.compress(data) for name, data in files.items()}

    def __call__(self, address: str, timeout: float) -> Response:
        assert timeout > 0
        self.asked.append(address)
        answer = self.answers.get(address, URLError("Name or service not known"))
        if isinstance(answer, Exception):
            raise answer
        response = Response(answer)
        response.length = len(answer) if self.says_length else None
        return response


@pytest.fixture(autouse=True)
def web(monkeypatch: pytest.MonkeyPatch) -> Web:
    stand_in = Web()
    monkeypatch.setattr(sources, "urlopen", stand_in)
    return stand_in


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, no folder named, no npm, and mnist a data set of five images."""
    monkeypatch.setenv("THERMOMENT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("THERMOMENT_DATA", raising=False)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    tiny = Known(FILES, (Mirror(ONE), Mirror(TWO), Npm("tiny-data@1.0.0")), "Or draw them.")
    monkeypatch.setitem(sources.KNOWN, "mnist", tiny)
    return tmp_path / "cache" / "mnist"


def held(folder: Path) -> dict[str, bytes]:
    """Every file below `folder`, hidden ones too."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def addresses(where: str, names: list[str]) -> list[str]:
    return [f"{where}{name}.gz" for name in names]


class TestMirrors:
    def test_downloaded_once_and_kept_plain(self, web: Web, cache: Path) -> None:
        web.serve(ONE, TINY)
        assert fetch("mnist") == TINY
        assert web.asked == addresses(ONE, NAMES)
        assert held(cache) == TINY
        assert fetch("mnist") == TINY
        assert len(web.asked) == 4, "the second time comes from the cache"

    def test_the_next_mirror_is_asked_for_the_rest(self, web: Web) -> None:
        web.serve(ONE, {name: TINY[name] for name in NAMES[:2]})
        web.serve(TWO, TINY)
        assert fetch("mnist") == TINY
        assert web.asked == addresses(ONE, NAMES[:3]) + addresses(TWO, NAMES[2:])

    def test_only_what_the_cache_lacks_is_asked_for(self, web: Web, cache: Path) -> None:
        write(cache, {NAMES[0]: TINY[NAMES[0]]}, gzipped=True)
        web.serve(ONE, TINY)
        assert fetch("mnist") == TINY
        assert web.asked == addresses(ONE, NAMES[1:])

    @pytest.mark.parametrize(
        ("answer", "reason"),
        [
            (URLError(OSError("no route")), r"t10k-labels-idx1-ubyte.gz: no route\."),
            (HTTPError(ONE, 404, "Not Found", None, None), "HTTP Error 404: Not Found"),  # type: ignore[arg-type]
            (TimeoutError("timed out"), "timed out"),
            (TimeoutError(), "TimeoutError"),
            (IncompleteRead(b"x", 9), "IncompleteRead"),
            (gzip.compress(OTHER, mtime=0), f"must have 10 bytes of SHA-256 {FILES[3].sha256}, but has 10 of "),
            (gzip.compress(TINY[NAMES[3]] + b"\0", mtime=0), "must unpack to at most 10 bytes"),
            (gzip.compress(TINY[NAMES[3]], mtime=0)[:-9], "must be a whole gzip file"),
            (b"<html>log in first</html>", "must unpack to at most 10 bytes"),
            (b"", "but has 0 of e3b0c442"),
        ],
    )
    def test_what_is_wrong_is_neither_used_nor_kept(
        self, web: Web, cache: Path, answer: bytes | Exception, reason: str
    ) -> None:
        web.serve(ONE, TINY)
        web.answers[f"{ONE}{NAMES[3]}.gz"] = answer
        with pytest.raises(ValueError, match=reason):
            fetch("mnist")
        assert held(cache) == {name: TINY[name] for name in NAMES[:3]}
        web.serve(TWO, TINY)
        assert fetch("mnist") == TINY

    def test_a_mirror_that_sends_plain_files_is_understood(self, web: Web) -> None:
        web.answers = dict(zip(addresses(ONE, NAMES), TINY.values(), strict=True))
        assert fetch("mnist") == TINY

    @pytest.mark.parametrize("says_length", [True, False])
    def test_a_listener_is_told_every_part_and_stderr_nothing(
        self, web: Web, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], says_length: bool
    ) -> None:
        web.says_length = says_length
        monkeypatch.setattr(sources, "_PART", 32)
        noise = np.random.default_rng(0).bytes(4000)
        data = TINY[NAMES[0]] + noise
        file = File(NAMES[0], len(data), hashlib.sha256(data).hexdigest())
        web.answers[f"{ONE}{NAMES[0]}.gz"] = packed = gzip.compress(data)
        told: list[tuple[str, int, int]] = []
        assert dict(Mirror(ONE).read([file], lambda what, done, total, _="": told.append((what, done, total)))) == {
            file: data
        }
        kilobytes = -(-len(packed) // 1000)
        total = kilobytes if says_length else -(-(len(data) + sources._GZIP_ADDS) // 1000)
        assert {(what, total) for what, _, total in told} == {(f"{ONE}{NAMES[0]}.gz, kB", total)}
        assert [done for _, done, _ in told] == [-(-min(32 * k, len(packed)) // 1000) for k in range(len(told))]
        assert told[-1][1] == kilobytes
        assert capsys.readouterr() == ("", "")

    def test_stderr_is_told_where_no_listener_is(self, web: Web, capsys: pytest.CaptureFixture[str]) -> None:
        web.serve(TWO, TINY)
        fetch("mnist")
        lines = capsys.readouterr().err.splitlines()
        assert lines == [f"{address}, kB: {done}/1" for address in addresses(TWO, NAMES) for done in (0, 1)]
        fetch("mnist")
        assert capsys.readouterr() == ("", ""), "nothing is downloaded again"

    def test_a_listener_is_told_instead(self, web: Web, capsys: pytest.CaptureFixture[str]) -> None:
        web.serve(ONE, TINY)
        told: list[str] = []
        load("mnist", listener=lambda what, *_: told.append(what))
        assert set(told) == {f"{address}, kB" for address in addresses(ONE, NAMES)}
        assert capsys.readouterr() == ("", "")


class TestCache:
    @pytest.mark.parametrize("damaged", [b"", TINY[NAMES[3]][:-1], OTHER, b"other"])
    def test_a_damaged_file_is_replaced(self, web: Web, cache: Path, damaged: bytes) -> None:
        write(cache, TINY | {NAMES[3]: damaged})
        web.serve(ONE, TINY)
        assert fetch("mnist") == TINY
        assert web.asked == addresses(ONE, NAMES[3:])
        assert held(cache) == TINY

    def test_a_damaged_file_is_refused_where_none_can_replace_it(self, cache: Path) -> None:
        write(cache, TINY | {NAMES[3]: OTHER})
        with pytest.raises(ValueError, match="cache/mnist: t10k-labels-idx1-ubyte must have 10 bytes of SHA-256"):
            fetch("mnist")

    def test_an_unreadable_file_is_fetched(self, web: Web, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        unpack = File.unpack

        def locked(wanted: File, file: IO[bytes], where: str) -> bytes:
            if where == NAMES[1]:
                raise PermissionError(13, "Permission denied")
            return unpack(wanted, file, where)

        monkeypatch.setattr(File, "unpack", locked)
        write(cache, TINY)
        with pytest.raises(ValueError, match="Permission denied"):
            fetch("mnist")
        web.serve(ONE, TINY)
        web.asked.clear()
        assert fetch("mnist") == TINY
        assert web.asked == addresses(ONE, NAMES[1:2])

    def test_a_folder_that_cannot_be_written_costs_a_warning(self, web: Web, tmp_path: Path) -> None:
        (tmp_path / "cache").write_bytes(b"a file in its place")
        web.serve(ONE, TINY)
        with pytest.warns(UserWarning, match="could not be kept, and will be fetched again") as record:
            assert fetch("mnist") == TINY
        assert len(record) == 4


class TestNothingReachable:
    def test_everything_tried_is_listed_with_its_reason(self, cache: Path) -> None:
        with pytest.raises(ValueError, match="not to be had") as caught:
            fetch("mnist")
        first, *tried, last = str(caught.value).splitlines()
        assert first == "The files of mnist are not to be had. What was tried:"
        assert tried == [
            f"  {cache}: No such folder.",
            f"  {ONE}: train-images-idx3-ubyte.gz: Name or service not known.",
            f"  {TWO}: train-images-idx3-ubyte.gz: Name or service not known.",
            "  npm package tiny-data@1.0.0: npm is not installed.",
        ]
        assert last.startswith(f"Put {', '.join(NAMES)}, plain or gzipped (.gz), into {cache}, or into a folder")
        assert last.endswith("`data_dir` (--data-dir) or $THERMOMENT_DATA names. Or draw them.")
        assert not cache.exists()

    @pytest.mark.parametrize("gzipped", [False, True])
    def test_the_advice_works(self, cache: Path, gzipped: bool) -> None:
        write(cache, TINY, gzipped=gzipped)
        assert fetch("mnist") == TINY


class TestNamedFolder:
    @pytest.fixture(params=["argument", "variable", "part of it"])
    def ask(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], object]:
        def through(folder: Path) -> object:
            if request.param == "argument":
                return fetch("mnist", folder)
            monkeypatch.setenv("THERMOMENT_DATA", str(folder))
            if request.param == "part of it":
                parts = {path.name: path.read_bytes() for path in folder.iterdir()}
                shutil.rmtree(folder)
                write(folder / "mnist", parts)
            return fetch("mnist")

        return through

    @pytest.mark.parametrize("gzipped", [False, True])
    def test_is_read(self, web: Web, tmp_path: Path, ask: Callable[[Path], object], gzipped: bool) -> None:
        assert ask(write(tmp_path / "own", TINY, gzipped=gzipped)) == TINY
        assert (web.asked, (tmp_path / "cache").exists()) == ([], False)

    def test_is_the_only_place(self, web: Web, tmp_path: Path, cache: Path, ask: Callable[[Path], object]) -> None:
        web.serve(ONE, TINY)
        write(cache, TINY)
        own = write(tmp_path / "own", {name: TINY[name] for name in NAMES[1:3]})
        message = "own.*: Missing: train-images-idx3-ubyte, t10k-labels-idx1-ubyte.\nPut .* into .*own"
        with pytest.raises(ValueError, match=message):
            ask(own)
        assert web.asked == []

    def test_other_files_are_refused(self, tmp_path: Path, ask: Callable[[Path], object]) -> None:
        own = write(tmp_path / "own", TINY | {NAMES[3]: OTHER})
        with pytest.raises(
            ValueError, match=r"t10k-labels-idx1-ubyte must have (.|\n)*Other IDX files are loaded by the path"
        ):
            ask(own)

    def test_the_argument_goes_before_the_variable(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("THERMOMENT_DATA", str(tmp_path / "nowhere"))
        assert fetch("mnist", write(tmp_path / "own", TINY)) == TINY

    def test_must_be_a_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(ValueError, match=r"Argument `data_dir` must be a folder, but was '.*nowhere'"):
            fetch("mnist", tmp_path / "nowhere")
        monkeypatch.setenv("THERMOMENT_DATA", str(tmp_path / "nowhere"))
        with pytest.raises(ValueError, match=r"Argument `\$THERMOMENT_DATA` must be a folder, but was '.*nowhere'"):
            fetch("mnist")


class TestSystemFolder:
    def test_is_read_in_place(self, web: Web, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        installed = Folder(write(tmp_path / "share", TINY, gzipped=True))
        monkeypatch.setitem(sources.KNOWN, "mnist", Known(FILES, (installed, Mirror(ONE)), ""))
        assert fetch("mnist") == TINY
        assert (web.asked, cache.exists()) == ([], False)


class TestLocate:
    def test_nothing_here(self, web: Web, cache: Path) -> None:
        places = locate("mnist")
        assert [place.where for place in places] == [str(cache), ONE, TWO, "npm package tiny-data@1.0.0"]
        assert not any(place.present for place in places)
        assert {place.note for place in places[1:]} == {"would be downloaded from there"}
        assert web.asked == []

    def test_in_the_cache(self, cache: Path) -> None:
        write(cache, TINY, gzipped=True)
        first, *_ = locate("mnist")
        assert (first.where, first.present, first.note) == (str(cache), True, "4 files, checked")

    def test_damaged_is_not_present(self, cache: Path) -> None:
        write(cache, TINY | {NAMES[3]: OTHER})
        assert not locate("mnist")[0].present

    def test_in_a_named_folder(self, tmp_path: Path) -> None:
        (place,) = locate("mnist", write(tmp_path / "own", TINY))
        assert (place.where, place.present) == (str(tmp_path / "own"), True)

    def test_digits_and_paths(self, tmp_path: Path) -> None:
        assert locate("digits")[0].present
        assert locate(tmp_path)[0].where == str(tmp_path)
        with pytest.raises(ValueError, match="Argument `name` must be digits, mnist"):
            locate("nonesuch")


def test_load_goes_through_the_mirrors(web: Web) -> None:
    web.serve(TWO, TINY)
    dataset = load("mnist")
    assert (dataset.name, dataset.image_shape, dataset.n_train, dataset.n_test) == ("mnist", (2, 2), 3, 2)
    assert load("mnist").sha256 == dataset.sha256


def test_the_known_files_are_well_formed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the real ones
    assert set(sources.KNOWN) == {"mnist", "fashion-mnist"}
    hashes = [file.sha256 for known in sources.KNOWN.values() for file in known.files]
    assert len(set(hashes)) == 8
    assert all(len(bytes.fromhex(text)) == 32 for text in hashes)
    for known in sources.KNOWN.values():
        assert [file.size for file in known.files] == [47040016, 60008, 7840016, 10008]
        mirrors = [source.where for source in known.elsewhere if isinstance(source, Mirror)]
        assert len(mirrors) >= 2
        assert all(where.startswith("https://") and where.endswith("/") for where in mirrors)
