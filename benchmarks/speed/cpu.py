"""Where the time of the digits demo goes on a CPU: writes benchmarks/speed/cpu.json.

    python benchmarks/speed/cpu.py [--threads 2] [--steps 60]

Steps of APL's stage I on the digits under torch's profiler; shares are of the operations' own time.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

sys.path.append(str(Path(__file__).parents[1]))
from record import begin, write

from newfound.data.digits import read_digits
from newfound.engine.loop import Engine, Training
from newfound.methods.parts.representation import Representation
from newfound.model import Encoder
from newfound.plan.recipe import resolve_settings

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    collection = read_digits(0).collection
    settings = resolve_settings("apl", "apl-digits", {})
    torch.manual_seed(0)
    engine = Engine(collection, torch.device("cpu"))
    encoder = Encoder(settings.network, 1, 8, *collection.train.channel_statistics())
    stage = Representation(encoder, collection, settings)
    training = Training(engine, stage)
    stage.before_epoch(0, engine)
    stage.train()
    rounds = -(-options.steps // stage.sampler.steps)
    order = torch.cat([stage.sampler.epoch(torch.Generator().manual_seed(i)) for i in range(rounds)])[: options.steps]
    batches = list(engine.train_images.batches(order))
    for batch in batches[:5]:
        training.step(*batch)
    began = time.perf_counter()
    with profile(activities=[ProfilerActivity.CPU]) as found:
        for batch in batches:
            training.step(*batch)
    seconds = time.perf_counter() - began
    table = sorted(found.key_averages(), key=lambda entry: -entry.self_cpu_time_total)
    total = sum(entry.self_cpu_time_total for entry in table)
    record = {
        "what": "steps of APL's stage I on the digits under torch's profiler",
        **begin(settings=settings, seed=0),
        "steps": options.steps,
        "ms_per_step_profiled": round(1e3 * seconds / options.steps, 2),
        "operations": [
            {
                "name": entry.key,
                "share": round(entry.self_cpu_time_total / total, 4),
                "calls_per_step": round(entry.count / options.steps, 1),
            }
            for entry in table[:10]
        ],
    }
    write(HERE / "cpu.json", record)
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
