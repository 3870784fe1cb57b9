#!/usr/bin/env bash
# Installs what is needed, builds everything and runs all tests. Tests that need a GPU say so when they
# are skipped.
#
# usage: deploy/test.sh [ctest options...]      for instance: deploy/test.sh -R store
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
