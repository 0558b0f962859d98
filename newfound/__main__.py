"""The command `newfound`. Ctrl-C while it is still being imported is one line, as it is later."""

import sys

from newfound.process import Ending


def main() -> None:
    """Run the command line."""
    ending = Ending()
    try:
        ending.watch()
        from newfound.cli.main import main as run
    except KeyboardInterrupt:
        if sys.stderr:
            print("newfound: interrupted", file=sys.stderr)
        sys.exit(130)
    run(ending)


if __name__ == "__main__":
    main()
