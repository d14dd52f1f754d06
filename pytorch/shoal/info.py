"""`python -m shoal.info`: prints what was loaded, what is configured, and where each setting comes from."""

import os
import sys

import torch
import torch.distributed as dist

import shoal
from shoal import _C, config, membership


def main() -> int:
    print(f"shoal {shoal.__version__}, compiled for torch {_C.built_for_torch}; torch here {torch.__version__}")
    print(f"library: {membership.library_path()}")
    status = 0
    try:
        membership.load_library()
        print(f"         version {_C.library_version()}, ABI {_C.abi_version}")
    except dist.DistBackendError as error:
        print(f"         {error}")
        status = 1
    has_nccl = torch.cuda.is_available() and dist.is_nccl_available()
    print(f"inner backends: cpu gloo, cuda {'nccl' if has_nccl else 'none (no GPU or no NCCL here)'}")
    try:
        config.warn_about_unknown_variables(os.environ)
        settings, sources = config.read_config(os.environ, membership.current_query())
    except ValueError as error:
        print(f"configuration: {error}")
        return 1
    print("configuration:")
    for setting in config.SETTINGS:
        value = getattr(settings, setting.name)
        shown = "(unset)" if value in (None, "") else value
        print(f"  {setting.variable:18} {shown!s:24} {sources[setting.name]:18} {setting.meaning}")
    ucx = {name: value for name, value in sorted(os.environ.items()) if name.startswith("UCX_")}
    print("UCX variables:", " ".join(f"{name}={value}" for name, value in ucx.items()) or "(none set)")
    return status


if __name__ == "__main__":
    sys.exit(main())
