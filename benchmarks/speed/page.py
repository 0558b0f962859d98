"""docs/speed.md from the records h200.json, cpu.json and, once they are there, uno-h200.json and imagenet-h200.json:

python benchmarks/speed/page.py
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROWS = {
    "bare": "the bare step: student forward and backward, teacher forward, heads, AdamW, moving average",
    "full": "our step, everything on",
    "full, kernel by kernel": "our step, without a graph",
    "bare, kernel by kernel": "the bare step, without a graph",
    "bare, torch's batch norm": "the bare step as a graph, with torch's batch norm, sum and ReLU",
    "bare, compiled by torch": "the bare step compiled by torch, as a graph",
}


CPU = {
    "aten::convolution_backward": "gradients of the student's convolutions, three layers of two passes",
    "aten::mkldnn_convolution": "the same convolutions forward, the teacher's too; they run channels last",
    "aten::mm": "gradients of the heads' linear layers, and the similarities of the bank to the prototypes",
    "aten::native_batch_norm_backward": "batch norm's gradients, of encoder and head; memory is the limit",
    "aten::threshold_backward": "the ReLUs' gates: a pass over every map that fusing with batch norm would save",
}
"""The largest entries, and what they are."""


def page(
    record: dict[str, Any], cpu: dict[str, Any], uno: dict[str, Any] | None = None,
    imagenet: dict[str, Any] | None = None,
) -> str:  # fmt: skip
    """What the records say, of a GPU, of a CPU, of UNO and of ImageNet."""
    parts = [
        "# Speed",
        _paragraph(f"""
            Made from benchmarks/speed/h200.json by benchmarks/speed/page.py. Stage I of APL on CIFAR-10: ResNet-18
            with a 3 x 3 stem, batch {record["batch"]}, 2 views of 32 pixels and 6 of 16, head to 4,096 outputs, labels
            over a bank of 25,000 features, bfloat16. {_hardware(record)}, PyTorch {record["versions"]["torch"]},
            {record["date"][:10]}, commit {record["commit"][:12]}; all of it in one
            run, but where a note says otherwise."""),
        _table(["", "ms", "images/s", "TFLOP/s"], _steps(record)),
        _paragraph(f"""
            Our step runs at {record["full_over_bare"]:.1%} of the bare step's rate. A large matrix product of random
            numbers reached {record["matrix_tflops"]:.0f} TFLOP/s on this machine, so the bare step uses
            {record["tflops"]["bare"] / record["matrix_tflops"]:.0%} of it. Peak memory:
            {record["peak_memory_gb"]:.1f} GB. Until the first graph was captured, kernels compiled and algorithms of
            convolutions tried, it took {record["seconds_to_first_graph"]:.0f} s; nothing is compiled by torch.compile.
            """),
        _paragraph("""
            How it comes about: the whole step is captured as a CUDA graph, after three steps that run kernel by kernel
            and count as training; one Triton kernel makes all views of a size; batch norm, shortcut and ReLU take two
            passes over memory forward and two backward; the teacher, the pseudo labels and the extra views' passes go
            along streams of their own."""),
        *_rivals(record),
        "## Parts of a step, each by itself",
        _table(["", "ms"], [[name, f"{value:.3f}"] for name, value in record["parts_ms"].items()]),
    ]
    if "after_training_s" in record:
        seconds = record["after_training_s"]
        parts += [
            "## After training",
            _table(["50,000 images", "s"], [[name, f"{value:.2f}"] for name, value in seconds.items()]),
            _paragraph(f"""Together {sum(seconds.values()):.1f} s, each done for the first time: features of all images,
                ten starts of k-means on them, the neighbours' vote for a fifth of them, and the metrics."""),
        ]
    if "growth" in record:
        grown = [
            [name, f"{int(value):,}", f"{found['ms']:.1f}", f"{found['images_per_s']:,}"]
            for name, values in record["growth"].items()
            for value, found in values.items()
        ]
        parts += ["## How the cost grows", _table(["", "", "ms", "images/s"], grown)]
    parts += map(_paragraph, record.get("notes", []))
    parts += _uno(uno) if uno else []
    parts += ["## ImageNet, on images of noise", _paragraph(_imagenet(imagenet))]
    largest = [_entry(e) for e in cpu["operations"][:5]]
    parts += [
        "## On a CPU: the digits demo",
        _paragraph(f"""
            Made from benchmarks/speed/cpu.json (benchmarks/speed/cpu.py): {cpu["steps"]} steps of stage I under torch's
            profiler, {cpu["hardware"]}, PyTorch {cpu["versions"]["torch"]};
            {cpu["ms_per_step_profiled"]:.0f} ms a step, the profiler's own time included. The five largest entries, by
            their own time:"""),
        _table(["", "share", "calls a step", ""], largest),
    ]
    return "\n\n".join(parts) + "\n"


def _hardware(record: dict[str, Any]) -> str:
    return str(record.get("hardware") or record["device"])  # what older records call it


def _entry(operation: dict[str, Any]) -> list[str]:
    name = operation["name"]
    return [name, f"{operation['share']:.1%}", f"{operation['calls_per_step']:.0f}", CPU[name]]


def _steps(record: dict[str, Any]) -> list[list[str]]:
    rate = {name: f"{1e3 * record['batch'] / value:,.0f}" for name, value in record["ms"].items()}
    return [
        [what, f"{record['ms'][name]:.1f}", rate[name], str(record["tflops"].get(name, ""))]
        for name, what in ROWS.items()
        if name in record["ms"]
    ]


def _rivals(record: dict[str, Any]) -> list[str]:
    if "rivals" not in record:
        return []
    lightly, kornia = record["rivals"]["lightly"], record["rivals"]["kornia"]
    full, version, workers = record["images_per_s"]["full"], lightly["versions"]["lightly"], lightly["workers"]
    granted = f"with {workers} workers, bfloat16, channels last"
    theirs = {
        "images_per_s": f"lightly {version}, the loop of its DINO example, {granted}",
        "step_images_per_s": "its step on a batch that is already there",
        "tuned_images_per_s": "lightly, its loop tuned by us: the views of one size in one pass, fused AdamW",
        "tuned_step_images_per_s": "its step on a batch that is already there",
    }
    rows = [["newfound, full step", f"{full:,}", ""]] + [
        [what, f"{lightly[name]:,.0f}", f"newfound is {full / lightly[name]:.1f} times as fast"]
        for name, what in theirs.items()
    ]
    ways = kornia["ways"].values()
    return [
        "## Beside others, on the same machine in the same run",
        _table(["", "images/s", ""], rows),
        _paragraph(f"""
            The eight views of {record["batch"]} images take {record["parts_ms"]["views"]:.3f} ms by our kernel;
            kornia {kornia["versions"]["kornia"]} takes {min(ways):.0f} to {max(ways):.0f} ms, by how it is called."""),
    ]


def _uno(record: dict[str, Any]) -> list[str]:
    """The step of UNO's discovery, and the same in an ordinary loop."""
    full, rival, versions = record["images_per_s"]["full"], record.get("rival", {}), record["versions"]
    rows = [
        ["the bare step: encoder forward and backward, heads, labels, losses, SGD", record["images_per_s"]["bare"], ""],
        ["our step, everything on", full, f"{record['full_over_bare']:.1%} of the bare step's rate"],
        ["our step, without a graph", 1e3 * record["batch"] / record["ms"]["full, kernel by kernel"], ""],
    ]
    theirs = {
        "images_per_s": "an ordinary loop, written by us",
        "step_images_per_s": "its step on a batch that is already there",
        "loader_images_per_s": "its DataLoader alone",
    }
    rows += [
        [what, rival[name], f"newfound is {full / rival[name]:.1f} times as fast"]
        for name, what in theirs.items()
        if rival.get(name)
    ]
    heads = record["settings"]["heads"]["count"]
    parts = [
        "## UNO's discovery",
        _paragraph(f"""
            Made from benchmarks/speed/uno-h200.json (benchmarks/speed/uno.py): CIFAR-100's sizes, 80 categories known
            and 20 novel, ResNet-18, batch {record["batch"]}, 2 views of 32 pixels and 2 of 16, {heads} heads and as
            many over-clustering heads. {record["hardware"]}, PyTorch {versions["torch"]}, {record["date"][:10]},
            commit {record["commit"][:12]}; all of it in one run."""),
        _table(["", "images/s", ""], [[what, f"{rate:,.0f}", beside] for what, rate, beside in rows]),
    ]
    if "versions" in rival:
        parts.append(
            _paragraph(f"""
                The ordinary loop is of the kind that UNO's authors published, but none of their code: torchvision
                {rival["versions"]["torchvision"]}'s transforms on PIL images in a DataLoader with {rival["workers"]}
                workers on {rival["cores"]} cores, its ResNet-18, a pass for each view, heads and Sinkhorn one by one,
                float16 with a scaler; channels last and cuDNN's fastest algorithms are granted.""")
        )
    if "reason" in rival:
        parts.append(_paragraph(f"Of the ordinary loop: {rival['reason']}."))
    return parts


def _imagenet(record: dict[str, Any] | None) -> str:
    """How long the task would take, or that nobody has measured it."""
    if record is None:
        return """Missing: not measured yet. `python benchmarks/speed/imagenet.py --out
            benchmarks/speed/imagenet-h200.json` measures, on a GPU, how many images a second APL's stage I takes by the
            recipe of ImageNet, and says how long the task of 882 known and 30 novel classes would take."""
    images = record["images"]
    return f"""Made from benchmarks/speed/imagenet-h200.json (benchmarks/speed/imagenet.py). Stage I of APL by the
        recipe of ImageNet, 2 views of 224 pixels and 6 of 96, takes {record["images_per_s"]:,} images/s in batches of
        {record["batch"]}, from images that lie on the device. With about {images["labelled"] / 1e6:.2f} million
        labelled and {images["unlabelled"]:,} unlabelled images, {record["steps_per_epoch"]:,} steps an epoch and
        {record["epochs"]} epochs, that makes {record["hours"]:.1f} hours for one of the three subsets, without stage
        II. The real images, about 180 GB, are read from a disk, which was not measured. {record["hardware"]}, PyTorch
        {record["versions"]["torch"]}, {record["date"][:10]}, commit {record["commit"][:12]}."""


def _paragraph(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 120)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def made_page() -> str:
    """The page of the records in this folder."""
    paths = [HERE / f"{name}.json" for name in ("h200", "cpu", "uno-h200", "imagenet-h200")]
    h200, cpu, uno, imagenet = (json.loads(path.read_text()) if path.exists() else None for path in paths)
    return page(h200, cpu, uno, imagenet)


def main() -> None:
    (HERE.parents[1] / "docs" / "speed.md").write_text(made_page())


if __name__ == "__main__":
    main()
