"""The command `newfound`. Ctrl-C while it is still being imported is one line, as it is later."""

import sys


def main() -> None:
    """Run the command line."""
    try:
        from newfound.cli.main import main as run
    except KeyboardInterrupt:
        print("newfound: interrupted", file=sys.stderr)
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
