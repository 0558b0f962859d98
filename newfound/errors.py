"""Errors that are sentences for the person at the keyboard."""


class UserError(ValueError):
    """The input or the call is wrong: one sentence saying what was found, where, and what to do. Exit status 2."""


class Interrupted(KeyboardInterrupt):
    """The person (Ctrl-C) or the system (SIGTERM) asked a run to stop, and it can be resumed. Exit status 130."""


class Diverged(RuntimeError):
    """A loss is no longer a number. Exit status 1."""
