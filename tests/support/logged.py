"""A worker started with `--preload logged.py` tells in the file $TEST_LOG what it begins and what it has made."""

import os
from pathlib import Path

if "TEST_LOG" in os.environ:
    from support.many import log_work

    log_work(Path(os.environ["TEST_LOG"]))
