#!/usr/bin/env bash
# Installs what is needed, builds everything and runs all tests. Tests that need a GPU say so when they
# are skipped.
#
# usage: deploy/test.sh [ctest options...]      for instance: deploy/test.sh -R store
#   HONE_TEST_PYTHON=1   the Python package too, whatever ctest's options name
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case "${1:-}" in
  -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
esac
BUILD="$ROOT/build/release"

"$ROOT/deploy/setup.sh"
configure_release "$BUILD"
say "building in $BUILD"
ninja -C "$BUILD" -j "$JOBS"
ctest --test-dir "$BUILD" --output-on-failure -j "$JOBS" "$@"

# The Python package, as it is installed. With options for ctest, only what they name is run.
if [ $# -gt 0 ] && [ -z "${HONE_TEST_PYTHON:-}" ]; then exit 0; fi
if ! command -v apt-get >/dev/null; then
  say "the Python package is not tested: deploy/wheel.sh builds it from Debian's sources"
  exit 0
fi
"$ROOT/deploy/wheel.sh"
export HONE_BIN="$BUILD/bin" HONE_KERNELS="$ROOT/kernels" PYTHONPATH="$ROOT/build/wheel/unpacked"
/usr/bin/python3 "$ROOT/tests/client/hone_client_test.py"
/usr/bin/python3 "$ROOT/tests/client/kernels_by_python_test.py"
