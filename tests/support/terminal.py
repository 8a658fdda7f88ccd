"""Runs a command in a terminal of its own: standard input is the keyboard, standard output the screen. Ends with the command's exit code."""

import os
import pty
import sys

sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))
