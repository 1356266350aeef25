"""What tomeflow asks of libraries, seen from a process that starts as the command does."""

from __future__ import annotations

import subprocess
import sys

from flows.automations import SILENCE_S

READ = """
from flows.settings import set_library_defaults
set_library_defaults()
from prefect.settings import get_current_settings
print(get_current_settings().flows.heartbeat_frequency)
"""


def test_a_run_says_that_it_lives_three_times_in_the_silence_after_which_it_is_buried() -> None:
    told = subprocess.run([sys.executable, "-c", READ], capture_output=True, text=True, check=True)
    assert int(told.stdout) * 3 <= SILENCE_S
