"""``python -m interp_compose``: the command line."""

from interp_compose.cli import main

if __name__ == "__main__":
    main()
