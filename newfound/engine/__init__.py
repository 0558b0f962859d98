"""Training, once, for all methods: the loop, schedules, checkpoints, precision and progress."""
