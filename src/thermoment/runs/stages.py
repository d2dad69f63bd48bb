"""One pass through the stages of an experiment, in their order: features, readouts, analysis; and its report."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from thermoment import __version__
from thermoment._support.files import write_whole
from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import Experiment
from thermoment.experiments.toml import as_table
from thermoment.learning.options import trained_name
from thermoment.report import page as report
from thermoment.reservoir import Reservoir
from thermoment.results.analysis import analyse
from thermoment.results.codec import typed
from thermoment.results.node import NODE
from thermoment.results.pictures import MISREAD
from thermoment.results.results import RESULTS, Cost, DatasetFacts, Described, Results, StudyResults
from thermoment.runs.context import Context, Files
from thermoment.runs.drawing import Drawing
from thermoment.runs.feature_store import FeatureStore
from thermoment.runs.features import complete, engine_name, features_stage, open_features, remove_unused, share, used
from thermoment.runs.fits import Fits
from thermoment.runs.folder import FEATURES
from thermoment.runs.pictures import digests
from thermoment.runs.predictions import PREDICTIONS, baselines, load_predictions
from thermoment.runs.readouts import SUMMARY, fit_and_predict, readouts_stage
from thermoment.runs.reservoirs import Made
from thermoment.runs.store import FACTS, SUMS, Stage, is_kept, keep


@dataclass(frozen=True)
class Pass:
    """What one repeat of an experiment needs and gives, by the names of the files of its features."""

    experiment: Experiment
    made: Made
    dataset: Dataset
    context: Context
    engine: str
    parts: tuple[tuple[Mapping[str, Reservoir], int], ...]
    """reservoirs by name, and the number of the first image that goes through them"""

    @classmethod
    def of(cls, experiment: Experiment, made: Made, dataset: Dataset, context: Context) -> "Pass":
        """The pass of an experiment whose reservoirs are made."""
        engine = engine_name(experiment, list(made.reservoirs.values()), dataset, context)
        # Readouts are fitted to all images. Copies that were trained beside them have their heads: the test images do.
        options = experiment.finite_time
        parts: list[tuple[Mapping[str, Reservoir], int]] = [(made.reservoirs, 0)]
        if options is not None and options.beside:
            parts.append(({trained_name(name, options): one for name, one in made.trained.items()}, dataset.n_train))
        return cls(experiment, made, dataset, context, engine, tuple(parts))

    @classmethod
    def of_one(
        cls, name: str, reservoir: Reservoir, experiment: Experiment, dataset: Dataset, context: Context
    ) -> "Pass":
        """What a pass has to do with the features `name`, of which one reservoir is known."""
        copied = name not in [one.name for one in experiment.reservoirs]
        engine = engine_name(experiment, [reservoir], dataset, context)
        parts = (({name: reservoir}, dataset.n_train if copied else 0),)
        return cls(experiment, Made({}, {}), dataset, context, engine, parts)

    @cached_property
    def stages(self) -> dict[str, Stage]:
        """Where the store has the features."""
        return {
            name: features_stage(one, self.engine, self.experiment, self.dataset, self.context, first)
            for reservoirs, first in self.parts
            for name, one in reservoirs.items()
        }

    @cached_property
    def stores(self) -> dict[str, FeatureStore]:
        """The features."""
        return {
            name: open_features(self.stages[name], one, self.experiment, self.dataset, first)
            for reservoirs, first in self.parts
            for name, one in reservoirs.items()
        }

    @cached_property
    def readouts(self) -> Stage:
        """Where the store has the readouts and the predictions."""
        return readouts_stage(self.stages, self.made, self.experiment, self.dataset, self.context)

    def simulate(self, names: Collection[str] | None = None, only: Sequence[int] | None = None) -> None:
        """Simulates what is missing of the features, of all reservoirs or of some, all chunks or some."""
        for reservoirs, first in self.parts:
            chosen = {name: one for name, one in reservoirs.items() if names is None or name in names}
            stages = {name: self.stages[name] for name in chosen}
            complete(stages, self.stores, chosen, self.engine, self.experiment, self.dataset, self.context, first, only)

    def fits(self, *, whole: bool) -> Fits:
        """What is to be fitted; `whole` where all of it is done here."""
        fitted = {name: self.stores[name] for name in self.made.reservoirs}
        return Fits(self.readouts, fitted, self.made.reservoirs, self.dataset, self.experiment, self.context, whole)

    def fit_one(self, name: str) -> None:
        """Does one of the fits, after what is missing of the features that it reads."""
        if is_kept(self.readouts):
            return
        fits = self.fits(whole=False)
        reads = fits.reads(name)
        try:
            with used([self.stages[one] for one in reads], self.context):
                self.simulate(reads, range(-(-self.dataset.n_train // self.experiment.features.chunk)))
                fits.do(name)
        except OSError:
            if not is_kept(self.readouts):  # else this process was stopped for so long that others did without it
                raise

    def fit(self, begun: Callable[[], None] = lambda: None) -> None:
        """Fits the readouts and predicts, after what is missing of the features.

        `begun` is called before the readouts are fitted, where they are not in the store.
        """
        keeps, options = self.experiment.features.keep, self.experiment.finite_time
        fits = self.fits(whole=True)
        if keeps or not is_kept(self.readouts):
            if self.experiment.features.share:
                share(self.stages.values())
            with used(self.stages.values(), self.context):
                with self.context.timed("features"):
                    self.simulate()
                with self.context.timed("readouts"):
                    trained = {name: self.stores[trained_name(name, options)] for name in self.made.trained}
                    inputs = (fits, trained, self.made, self.experiment, self.dataset, self.context)

                    def build(folder: Path) -> None:
                        begun()
                        fit_and_predict(*inputs, folder)

                    keep(self.readouts, build, self.context.note)
        fits.remove()

    def remove_features(self, spared: Collection[str] = ()) -> None:
        """Removes features that are not to be kept, unless somebody reads them or they are shared.

        Those of the names `spared` stay.
        """
        if not self.experiment.features.keep:
            remove_unused([stage for name, stage in self.stages.items() if name not in spared], self.context)


def one_pass(
    experiment: Experiment,
    made: Made,
    dataset: Dataset,
    context: Context,
    spared: Collection[str] = (),
    begun: Callable[[], None] = lambda: None,
) -> tuple[Results, Files]:
    """The results of an experiment whose reservoirs are made, and the files that belong to them.

    Features of the names `spared` stay in the store even where they are not to be kept; `begun` is that of `Pass.fit`.
    """
    work = Pass.of(experiment, made, dataset, context)
    work.fit(begun)
    work.remove_features(spared)
    readouts = work.readouts
    with context.timed("analysis"):
        summary = json.loads((readouts.folder / SUMMARY).read_text("utf-8"))
        n_nodes = {name: reservoir.n_nodes for name, reservoir in made.reservoirs.items()}
        analysis = analyse(*load_predictions(readouts.folder), n_nodes)
        summary["trained"] = tuple(summary.get("trained", ()))
        summary["cost"] = typed(Cost, summary["cost"], "cost") if "cost" in summary else None
        described = describe(experiment, dataset, work.engine)
        results = Results(**vars(described), **summary, **vars(analysis), baseline=baselines(readouts.folder))

    files = {**made.files, PREDICTIONS: readouts.folder / PREDICTIONS}
    files |= {f"readouts/{path.name}": path for path in readouts.folder.glob("*.safetensors") if path.name != MISREAD}
    if (readouts.folder / MISREAD).exists():
        files[MISREAD] = readouts.folder / MISREAD
    if experiment.features.keep:
        for name, store in work.stores.items():
            files |= {f"{FEATURES}/{name}/{path.relative_to(store.folder)}": path for path in store.files()}
    return results, files


def report_files(results: Results | StudyResults, files: Files, context: Context, drawing: Drawing) -> Files:
    """Figures and report.html, and of a run the node that they show. `files` are those of the run."""
    text = results.to_json()
    facts = {"results": json.loads(text), "pictures": digests(files), "thermoment": __version__}
    stage = context.stage("report", **facts)

    def build(folder: Path) -> None:
        context.listener("figures and report", 0, 1)
        write_whole(folder / RESULTS, text.encode())
        shown = files
        if isinstance(results, Results):
            drawing.begin(results.settings)
            drawing.node(results.settings).save(folder / NODE)
            shown = {**files, NODE: folder / NODE}
        (folder / "figures").mkdir()
        drawing.figures(folder, shown)
        report.write(folder)
        context.listener("figures and report", 1, 1)

    with context.timed("report"):
        keep(stage, build, context.note)
    paths = [path for path in stage.folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(stage.folder)): path for path in paths if path.name not in (SUMS, FACTS, RESULTS)}


def describe(experiment: Experiment, dataset: Dataset, engine: str) -> Described:
    """What results.json says of the experiment itself."""
    settings = as_table(experiment)
    names = ("name", "n_train", "n_test", "n_inputs", "n_classes", "sha256", "columns")
    image_shape = dataset.image_shape if len(dataset.image_shape) == 2 else ()
    parts = ("dynamics", "protocol", "training", "finite_time", "reservoirs", "readout", "baselines")
    return Described(
        experiment.name,
        experiment.description,
        DatasetFacts(**{name: getattr(dataset, name) for name in names}, image_shape=image_shape),
        engine,
        {name: settings[name] for name in parts if name in settings},
    )
