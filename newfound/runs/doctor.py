"""What newfound finds on this machine, for bug reports: versions, device, cache, and what it would choose."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from newfound._version import __version__
from newfound.engine.device import pick_device
from newfound.methods import default_method
from newfound.nets.norm import has_triton
from newfound.plan.auto import PRETRAINED, is_installed, reason

LIBRARIES = ("torch", "numpy", "scipy", "scikit-learn", "Pillow", "safetensors", "triton", "timm", "pandas")
EXAMPLE = 500
"""Images of the folders that the choice of a method is told for."""


def examine(cache: Path) -> dict[str, Any]:
    """Versions, device, threads, cache and choices, as plain values."""
    device = pick_device("auto")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    files = [path for path in cache.rglob("*") if path.is_file()] if cache.is_dir() else []
    return {
        "newfound": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "libraries": {library: _version(library) for library in LIBRARIES},
        "device": {"kind": device.type, "name": name, "kernels": device.type == "cuda" and has_triton()},
        "threads": {"cores": os.cpu_count(), "torch": torch.get_num_threads()},
        "cache": {"folder": str(cache), "files": len(files), "bytes": sum(path.stat().st_size for path in files)},
        "choices": {domain: _choice(domain, device.type) for domain in ("natural", "symbolic")},
    }


def _version(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def _choice(domain: str, device: str) -> dict[str, str]:
    """The method for folders of a few hundred images of that domain, and why."""
    method = default_method(domain=domain, device=device, images=EXAMPLE, pretrained=is_installed(PRETRAINED))
    return {"method": method, "why": reason(method, domain, device, EXAMPLE)[0]}


def describe(found: dict[str, Any]) -> str:
    """What ``examine`` found, as lines."""
    libraries = ", ".join(f"{name} {version}" for name, version in found["libraries"].items() if version)
    missing = ", ".join(name for name, version in found["libraries"].items() if not version)
    device, threads, cache = found["device"], found["threads"], found["cache"]
    kernels = "; views and batch norm by kernels of our own" if device["kernels"] else ""
    lines = [
        f"newfound {found['newfound']}, Python {found['python']}, {found['system']}",
        f"libraries: {libraries}",
        *([f"not installed: {missing} (none is needed)"] if missing else []),
        f"device: {device['kind']}, {device['name']}{kernels}",
        f"threads: {threads['torch']} on {threads['cores']} cores",
        f"cache: {cache['folder']}, {cache['files']:,} files, {cache['bytes'] / 1e6:,.1f} MB: `newfound cache`",
    ]
    for domain, choice in found["choices"].items():
        lines.append(f"for {EXAMPLE} {domain} images: {choice['method']}, because: {choice['why']}")
    return "".join(f"{line}\n" for line in lines)
