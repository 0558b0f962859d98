"""Features with categories in them: some directions tell categories apart, louder ones mean nothing."""

from pathlib import Path

import numpy as np

KNOWN, NOVEL, EACH, WIDTH = 12, 4, 30, 24


def vectors(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Features [N, WIDTH], float32, known categories first, and their categories [N]."""
    rng = np.random.default_rng(seed)
    centres = 2 * rng.normal(size=(KNOWN + NOVEL, WIDTH)) * np.repeat([1.0, 0.0], [8, WIDTH - 8])
    categories = np.repeat(np.arange(KNOWN + NOVEL), EACH)
    noise = rng.normal(size=(len(categories), WIDTH)) * np.repeat([0.2, 3.0], [8, WIDTH - 8])
    return (5 + centres[categories] + noise).astype(np.float32), categories


def write(folder: Path, names: bool = True) -> dict[str, Path]:
    """features, labels and, if wanted, ids as files; and truth.csv beside them."""
    features, categories = vectors()
    folder.mkdir(parents=True, exist_ok=True)
    order = np.random.default_rng(1).permutation(len(features))
    features, categories = features[order], categories[order]
    called = [f"img/{i:03d}.jpg" if names else str(i) for i in range(len(features))]
    known = [f"{n},c{c}\n" for n, c in zip(called, categories, strict=True) if c < KNOWN]
    hidden = [f"{n},c{c}\n" for n, c in zip(called, categories, strict=True) if c >= KNOWN]
    np.save(folder / "features.npy", features)
    (folder / "labels.csv").write_text("image,label\n" + "".join(known))
    (folder / "truth.csv").write_text("image,label\n" + "".join(hidden))
    files = {"features": folder / "features.npy", "labels": folder / "labels.csv"}
    if names:
        (folder / "ids.txt").write_text("".join(f"{name}\n" for name in called))
        files["ids"] = folder / "ids.txt"
    return files
