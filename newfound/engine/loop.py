"""The one training loop, and the one way to read features."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from newfound.data.collection import Collection
from newfound.data.store import ImageStore
from newfound.engine.capture import Captured
from newfound.engine.checkpoint import Checkpoints
from newfound.engine.device import fastest_kernels, precision
from newfound.engine.features import read_features
from newfound.engine.metrics import Metrics
from newfound.engine.optimiser import build_optimiser, pack_optimiser, unpack_optimiser
from newfound.engine.room import require_room
from newfound.engine.schedule import learning_rates, value_at
from newfound.engine.signals import StopSignals
from newfound.engine.snapshots import Snapshots
from newfound.engine.stage import Batch, Stage
from newfound.errors import Diverged, Interrupted
from newfound.progress import Progress, Reporter, format_seconds

SHARE = 0.02
"""The largest part of the time that checkpoints may take: on a GPU an epoch may be done as fast as it is written."""

LONG, SOON = 1800.0, 5.0
"""Seconds of a stage from which on advice is due, and seconds after which the first steps tell how long it takes."""

MANY_STEPS = 500
"""From so many on, trying which algorithms of convolutions are fastest pays: it takes seconds, a step milliseconds."""


@dataclass
class Engine:
    """What a method trains with. Without ``checkpoints`` nothing is written and signals are left alone."""

    collection: Collection
    device: torch.device
    seed: int = 0
    reporter: Reporter = field(default_factory=lambda: Reporter(quiet=True))
    checkpoints: Checkpoints | None = None
    metrics: Metrics | None = None
    snapshots: Snapshots | None = None
    log_every: int = 10
    checkpoint_every: int = 1
    capture: bool = True
    """Whether steps on a GPU are captured as graphs."""
    cache: Path | None = None
    """Where the features of frozen networks are kept; without it they are computed each time."""
    advice: str = ""
    """What to do instead where a stage turns out to take long; "" says nothing."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Time spent in each stage, earlier stretches of a resumed run included."""
    earlier: float = 0.0
    """Seconds of training in those earlier stretches."""
    metrics_end: int = 0
    """Length of the metrics that belong to the newest checkpoint reached so far."""

    def __post_init__(self) -> None:
        if self.device.type == "cuda" and self.device.index is not None:
            torch.cuda.set_device(self.device)  # streams and kernels are of the current device unless told otherwise
        self.train_images = self.collection.train.to(self.device)
        self.labels = torch.from_numpy(self.collection.labels).to(self.device)

    def generator(self, *purpose: str | int, device: torch.device | str = "cpu") -> torch.Generator:
        """Random numbers of their own for each purpose, the same in every run with this seed."""
        name = "/".join(map(str, (self.seed, *purpose)))
        return torch.Generator(device).manual_seed(zlib.crc32(name.encode()) | (self.seed & 0x7FFFFFFF) << 32)

    def rewind_metrics(self, length: int) -> None:
        if self.metrics:
            self.metrics.rewind(length)

    def train(self, stage: Stage) -> None:
        """Train ``stage`` to its end, from its newest checkpoint if it has one."""
        stage.to(self.device)
        training = Training(self, stage)
        with fastest_kernels(worth=training.total >= MANY_STEPS):
            training.run()
        stage.eval()

    def features(
        self, network: nn.Module, images: ImageStore, *, title: str, of: Callable[[Tensor], Tensor] | None = None
    ) -> Tensor:
        """What ``network`` (or its function ``of``) gives for all images: float32 [n, D] on the engine's device.

        Without a ``title`` no progress is shown: for what comes again before each epoch.
        """
        reporter = self.reporter if title else Reporter(quiet=True)
        return read_features(network, images, self.device, reporter, title=title, of=of)


class Training:
    """One stage in training: everything that a checkpoint has to hold."""

    def __init__(self, engine: Engine, stage: Stage) -> None:
        self.engine, self.stage, self.plan = engine, stage, stage.plan
        self.steps = stage.sampler.steps
        self.total = self.steps * self.plan.epochs
        self.planned = learning_rates(self.plan, self.steps)
        self.rates = torch.from_numpy(self.planned).to(engine.device)
        self.optimiser = build_optimiser(self.plan, stage.parameter_groups(), engine.device)
        self.suspicions = 0
        self.generator = torch.Generator(engine.device)
        self.step: Callable[[Tensor, Tensor], None] = self._step
        if engine.capture and engine.device.type == "cuda":
            self.step = Captured(self._step, self.generator, engine.reporter)
        self.t = torch.zeros((), dtype=torch.int64, device=engine.device)
        self.done = self.first = 0
        self.timed = not engine.advice
        self.sums = self._zeros([])
        self.summed = 0
        self.earlier = 0.0
        self.began = self.saved = time.monotonic()
        self.cost = 0.0
        """Seconds that the last checkpoint took, and when that was (``saved``)."""

    def run(self) -> None:
        self._warn_of_a_long_warmup()
        self._warn_of_late_milestones()
        self._restore()
        self.began, self.first = time.monotonic(), self.done
        images = self.total * self.stage.sampler.batch
        stop = StopSignals(active=self.engine.checkpoints is not None)
        with (
            stop,
            self.engine.reporter.task(self.stage.name, images, done=self.done * self.stage.sampler.batch) as task,
        ):
            while self.done < self.total:
                self._epoch(task, stop)
        self.step = self._step  # whatever was captured gives its memory back
        self.engine.seconds[self.stage.name] = self._seconds()
        if self.engine.metrics and self.engine.checkpoints is None:  # with checkpoints, they say where the metrics end
            self.engine.metrics_end = self.engine.metrics.commit()

    def _epoch(self, task: Progress, stop: StopSignals) -> None:
        epoch, first = divmod(self.done, self.steps)
        task.note = f"epoch {epoch + 1}/{self.plan.epochs}"
        engine, stage = self.engine, self.stage
        if first == 0:
            self.generator.manual_seed(engine.generator(stage.name, epoch, "views").initial_seed())
            stage.before_epoch(epoch, engine)
        stage.train()
        order = stage.sampler.epoch(engine.generator(stage.name, epoch, "batches"))
        inputs = engine.train_images if stage.inputs is None else stage.inputs
        for index, images in inputs.batches(order[first:]):
            with require_room(engine.device, stage.settings_key) if self.done == self.first else nullcontext():
                self.step(index, images)
            self.done += 1
            self.summed += 1
            figures = self._log(epoch) if self.done % engine.log_every == 0 or self.done % self.steps == 0 else {}
            task.advance(len(index), **figures)
            if not self.timed and (figures or engine.device.type == "cpu"):  # a GPU has been waited for by then
                self._warn_of_a_long_stage()
            if engine.snapshots and self.done % self.steps == 0:  # before a checkpoint, so that none is left out
                engine.snapshots.take(stage, epoch + 1, engine)
            if stop.asked:
                self._save()
                raise Interrupted(f"stopped after step {self.done} of {self.total} of {stage.name}")
        if self.done == self.total or ((epoch + 1) % engine.checkpoint_every == 0 and self._worth_saving()):
            self._save()

    def _step(self, index: Tensor, images: Tensor) -> None:
        engine, stage = self.engine, self.stage
        parameters = stage.views.draw(self.generator, len(index), self.t)
        rate = value_at(self.rates, self.t)
        for group in self.optimiser.param_groups:
            awake = self.t >= group["frozen_epochs"] * self.steps
            torch.mul(rate * awake, group["lr_scale"], out=group["lr"])
        with precision(engine.device):
            views = stage.views.apply(images, parameters)
            batch = Batch(views, engine.labels[index], index, stage.sampler.n_known)
            losses = stage.step(batch, self.t)
        self.optimiser.zero_grad(set_to_none=True)
        losses["loss"].backward()
        if self.plan.clip:
            groups = self.optimiser.param_groups
            nn.utils.clip_grad_norm_([p for group in groups for p in group["params"]], self.plan.clip)
        self.optimiser.step()
        with torch.no_grad():
            stage.after_step(self.t)
            names = sorted(losses)
            if not self.sums:
                self.sums = self._zeros(names)
            self.totals += torch.stack([losses[name] for name in names])
            self.t += 1

    def _zeros(self, names: list[str]) -> dict[str, Tensor]:
        """A sum for each name, all of them parts of ``totals``, so that one kernel adds to them all."""
        self.totals = torch.zeros(len(names), dtype=torch.float64, device=self.engine.device)
        return dict(zip(names, self.totals, strict=True))

    def _log(self, epoch: int) -> dict[str, float]:
        """Means since the last line, written and returned: the only place that waits for the device."""
        figures = {name: total / self.summed for name, total in zip(self.sums, self.totals.tolist(), strict=True)}
        if not all(map(math.isfinite, figures.values())):
            where = f"step {self.done} of {self.stage.name}"
            raise Diverged(
                f"the loss is no longer a number ({where}): {figures}; try a smaller {self.stage.settings_key}.lr"
            )
        if self.engine.metrics:
            rate = float(self.planned[self.done - 1])
            line = {"stage": self.stage.name, "epoch": epoch + 1, "step": self.done, "lr": rate, **figures}
            self.engine.metrics.write(line)
        self.totals.zero_()
        self.summed = 0
        self._watch(figures)
        return figures

    def _warn_of_a_long_warmup(self) -> None:
        epochs, warmup = self.plan.epochs, self.plan.warmup_epochs
        if warmup >= epochs:
            setting = f"{self.stage.settings_key}.warmup_epochs"
            self.engine.reporter.warn(
                f"{self.stage.name}: {setting} is {warmup:g} of {epochs} epochs, so the learning rate rises to the end "
                f"and never falls; try {setting}={epochs / 10:g}"
            )

    def _warn_of_late_milestones(self) -> None:
        epochs, milestones = self.plan.epochs, self.plan.milestones
        if self.plan.schedule == "steps" and milestones and min(milestones) >= epochs:
            setting = f"{self.stage.settings_key}.milestones"
            self.engine.reporter.warn(
                f"{self.stage.name}: {setting} begin at {min(milestones):g} of {epochs} epochs, so the learning rate "
                f"never falls; try {setting}=[{0.6 * epochs:g},{0.8 * epochs:g}]"
            )

    def _warn_of_a_long_stage(self) -> None:
        """Warn, once a stage, by the time that the first steps took."""
        seconds, steps = time.monotonic() - self.began, self.done - self.first
        if seconds < SOON or steps < 2:
            return
        self.timed, takes = True, seconds / steps * self.total
        if takes >= LONG:
            advice = self.engine.advice
            self.engine.reporter.warn(f"{self.stage.name} takes about {format_seconds(takes)} here: {advice}")

    def _watch(self, figures: dict[str, float]) -> None:
        """Warn, once, when two lines in a row look bad: the first steps of a run may do so once."""
        if self.suspicions < 2:
            warning = self.stage.warning(figures)
            self.suspicions = self.suspicions + 1 if warning else 0
            if self.suspicions == 2:
                self.engine.reporter.warn(f"{self.stage.name}, step {self.done}: {warning}")

    def _seconds(self) -> float:
        return self.earlier + time.monotonic() - self.began

    def _worth_saving(self) -> bool:
        """Whether enough was done since the last checkpoint for what a checkpoint costs."""
        return time.monotonic() - self.saved >= self.cost / SHARE

    def _save(self) -> None:
        if self.engine.checkpoints is None:
            return
        began = time.monotonic()
        tensors = {f"stage.{name}": value for name, value in self.stage.state_dict().items()}
        tensors |= pack_optimiser(self.optimiser)
        tensors |= {f"sum.{name}": value for name, value in self.sums.items()}
        tensors["random.views"] = self.generator.get_state()
        tensors["random.torch"] = torch.get_rng_state()
        self.engine.metrics_end = self.engine.metrics.commit() if self.engine.metrics else 0
        state = {
            "metrics_bytes": self.engine.metrics_end,
            "summed": self.summed,
            "seconds": self._seconds(),
        }
        self.engine.checkpoints.save(self.stage.name, self.done, tensors, state, last=self.done == self.total)
        self.saved = time.monotonic()
        self.cost = self.saved - began

    def _restore(self) -> None:
        found = self.engine.checkpoints.latest(self.stage.name) if self.engine.checkpoints else None
        if found is None:
            self.engine.rewind_metrics(self.engine.metrics_end)
            if self.engine.checkpoints:
                self.engine.checkpoints.forget_others(self.engine.seconds)
            return
        tensors = found.tensors
        prefix = "stage."
        self.stage.load_state_dict({k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)})
        unpack_optimiser(self.optimiser, tensors)
        summed = {k[4:]: v for k, v in tensors.items() if k.startswith("sum.")}
        self.sums = self._zeros(sorted(summed))
        for name, total in self.sums.items():
            total.copy_(summed[name])
        self.summed = found.state["summed"]
        if tensors["random.views"].shape == self.generator.get_state().shape:
            self.generator.set_state(tensors["random.views"])
        else:  # the run has moved to another kind of device
            self.generator.manual_seed(self.engine.generator(self.stage.name, self.done, "moved").initial_seed())
        torch.set_rng_state(tensors["random.torch"])
        self.done = found.step
        self.t.fill_(found.step)
        self.earlier = found.state["seconds"]
        self.engine.earlier += self.earlier
        self.engine.metrics_end = found.state["metrics_bytes"]
        if self.done < self.total:  # after a finished stage come the lines of the next ones
            self.engine.rewind_metrics(self.engine.metrics_end)
