"""Draw docs/demo.svg, the README's picture: what `newfound demo` prints on this machine.

python benchmarks/digits/picture.py
"""

import tempfile
from pathlib import Path

from rich.console import Console

from newfound.progress import Reporter
from newfound.runs.demo import run_demo

ROOT = Path(__file__).parents[2]

with tempfile.TemporaryDirectory() as folder:
    table = run_demo(Path(folder) / "newfound-demo", method="apl", device="cpu", seed=0, reporter=Reporter())
    console = Console(record=True, width=96)
    console.print("$ newfound demo", highlight=False)
    table.print(console, folder=Path("newfound-demo"))
svg = console.export_svg(title="newfound")
style = svg.index("@font-face")
svg = svg[:style] + svg[svg.index(".terminal-", style) :]  # fonts from the network: a picture should not fetch any
(ROOT / "docs" / "demo.svg").write_text(svg)
