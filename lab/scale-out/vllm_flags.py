"""Parses the arguments of `vllm serve` as the installed vLLM does, without starting anything. An unknown flag or a wrong value is exit code 2.

usage: vllm_flags.py ENVIRONMENT_NAMES -- ARGUMENTS
"""

import sys

from vllm import envs
from vllm.entrypoints.cli.serve import make_arg_parser, validate_parsed_serve_args
from vllm.utils.argparse_utils import FlexibleArgumentParser

divider = sys.argv.index("--")
unknown = [name for name in sys.argv[1:divider] if name not in envs.environment_variables]
if unknown:
    sys.exit(f"vLLM reads no {', '.join(unknown)}")
args = make_arg_parser(FlexibleArgumentParser()).parse_args(sys.argv[divider + 1 :])
validate_parsed_serve_args(args)
