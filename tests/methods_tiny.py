"""Settings that make APL small enough for a test."""

TINY = {
    "stage1.epochs": 2,
    "stage1.batch": 32,
    "stage1.warmup_epochs": 1,
    "stage2.batch": 32,
    "dino.hidden": 32,
    "dino.bottleneck": 16,
    "dino.out": 64,
    "views.extra": 2,
}
