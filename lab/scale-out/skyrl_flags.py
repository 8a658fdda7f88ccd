"""Parses the arguments of `python -m skyrl.tinker.api` as the installed SkyRL does, without starting anything. An unknown flag or a wrong value is exit code 2.

usage: skyrl_flags.py ARGUMENTS
"""

import argparse
import inspect

from skyrl.tinker.config import EngineConfig, add_model
from skyrl.tinker.engine import get_backend_classes

parser = argparse.ArgumentParser()
add_model(parser, EngineConfig)
# What its main program adds itself.
parser.add_argument("--host", type=str)
parser.add_argument("--port", type=int)
args = parser.parse_args()
EngineConfig.model_validate({name: value for name, value in vars(args).items() if name in EngineConfig.model_fields})
# Its packages for GPUs are not there, so that its name is looked for where backends are chosen.
if f'backend_name == "{args.backend}"' not in inspect.getsource(get_backend_classes):
    parser.error(f"unknown backend {args.backend}")
