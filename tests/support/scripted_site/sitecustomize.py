"""On the path of a command and its workers: the processes that read pages read with the scripted model."""

import sys

if "flows.execution.steps" in sys.orig_argv:
    from support import scripted_steps

    scripted_steps.install()
