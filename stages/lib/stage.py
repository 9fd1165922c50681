"""Command line of a stage: every parameter of its `main` is a path (or a name) given by dvc.yaml as `--name value`."""
import argparse
import inspect
import sys


class Refused(Exception):
    """Input that a person has to mend; its message is one line naming the file or key, the value and what is allowed."""


def run(main):
    """Call `main` with the command line's values; a refusal or a failing file ends in one line and exit code 1."""
    parser = argparse.ArgumentParser(description=inspect.getdoc(sys.modules[main.__module__]), allow_abbrev=False)
    for name in inspect.signature(main).parameters:
        parser.add_argument("--" + name.replace("_", "-"), required=True)
    try:
        main(**vars(parser.parse_args()))
    except Refused as refusal:
        sys.exit(f"error: {refusal}")
    except OSError as failure:
        if failure.filename is None and failure.strerror is None:
            raise
        sys.exit(f"error: {failure.filename or 'a file'}: {failure.strerror}. Earlier results are untouched; mend it and run again")
    except KeyboardInterrupt:
        sys.exit("interrupted: nothing half-written is kept; `dvc repro` continues from the last finished stage")
