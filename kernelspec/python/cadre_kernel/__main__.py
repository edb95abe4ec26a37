"""python -m cadre_kernel install|remove [--user | --prefix DIR]

Makes the installed Cadre known to Jupyter, or takes it away: in this Python environment when no
place is named. The work is done by `cadre kernelspec`.
"""
import os
import shutil
import sys


def main(arguments):
    if not arguments or arguments[0] not in ("install", "remove"):
        print(__doc__.strip())
        return 0 if arguments in (["--help"], ["-h"]) else 2
    cadre = shutil.which("cadre")
    if not cadre:
        print("cadre_kernel: there is no `cadre` on PATH; install Cadre first (make install)",
              file=sys.stderr)
        return 1
    verb, place = arguments[0], arguments[1:] or ["--prefix", sys.prefix]
    os.execv(cadre, [cadre, "kernelspec", verb, *place])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
