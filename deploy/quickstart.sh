#!/usr/bin/env bash
# From a fresh machine to a tuned kernel: installs what is needed, builds, starts honed, tunes copy_1d
# while showing every candidate, asks again, launches the served kernel and checks its output.
#
# usage: deploy/quickstart.sh [--keep] [--device auto|cpu|cuda]
#   --keep     leave honed running, and its cache in build/quickstart
#   --device   what to tune on (auto: the GPU if there is one, else the CPU reference device)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

KEEP=0
DEVICE=auto
while [ $# -gt 0 ]; do
  case "$1" in
    --keep) KEEP=1 ;;
    --device) shift; DEVICE="${1:?--device needs auto, cpu or cuda}" ;;
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) fail "unknown argument '$1'; try --help" ;;
  esac
  shift
done

BUILD="$ROOT/build/release"
STATE="$ROOT/build/quickstart"
# Sockets have short names: 107 bytes at most, wherever the checkout lies.
SOCKET_DIR="$(mktemp -d /tmp/hone-quickstart-XXXXXX)"
export HONE_ENDPOINT="unix:$SOCKET_DIR/honed.sock"
DAEMON=

stop() {
  local code=$?
  if [ -n "$DAEMON" ]; then
    kill -TERM "$DAEMON" 2>/dev/null || true
    wait "$DAEMON" 2>/dev/null || true
  fi
  [ "$code" = 0 ] || { [ -f "$STATE/honed.log" ] && tail -n 20 "$STATE/honed.log" >&2; }
  rm -rf "$SOCKET_DIR"
  return "$code"
}
trap stop EXIT

step() { printf '\n== %s\n' "$*"; }
# Shows a command, then runs it.
show() {
  printf '$ %s\n' "$*"
  "$@"
}

step "set up and build"
"$ROOT/deploy/setup.sh"
configure_release "$BUILD"
ninja -C "$BUILD" -j "$JOBS" honed hone hone-worker
export PATH="$BUILD/bin:$PATH"

step "start the daemon"
rm -rf "$STATE"
mkdir -p "$STATE"
honed --listen "$HONE_ENDPOINT" --cache-dir "$STATE/cache" --kernels "$ROOT/kernels" \
  --device "$DEVICE" 2>"$STATE/honed.log" &
DAEMON=$!
# It serves at once and looks for devices and compilers meanwhile.
waited=0
while hone --wait 10 -o json status | grep -q '"state": *"probing"'; do
  [ "$((waited += 1))" -le 150 ] || fail "no device was found within 30 s"
  sleep 0.2
done
show hone status

# 256 MiB on a GPU; 4 MiB on the CPU reference device, which is there to be right, not fast.
N='2^26'
if ! hone -o json status | grep -q '"kind": *"cuda"'; then N='2^20'; fi

step "tune copy_1d: every candidate is compiled, checked against its reference, then timed"
show hone tune copy_1d T=F32 n="$N"

step "ask again: the answer comes from the cache, nothing is compiled or measured"
show hone get copy_1d T=F32 n="$N"

step "launch the served kernel on one element more, and check what it wrote"
show hone run copy_1d T=F32 n="$N+1" --verify | tee "$STATE/run.txt"
grep -q verified "$STATE/run.txt" || fail "the served kernel was not verified"

step "done"
say "honed compiled the candidates of copy_1d, dropped those that fail or are wrong, kept every timing in"
say "$STATE/cache and served the fastest verified one. Next:"
if [ "$KEEP" = 1 ]; then
  trap - EXIT
  disown "$DAEMON"
  say "  export PATH=$BUILD/bin:\$PATH HONE_ENDPOINT=$HONE_ENDPOINT"
  say "  hone templates; hone tune softmax T=F32 rows=1024 cols=1024; hone list"
  say "  kill $DAEMON        ends the daemon; its log is $STATE/honed.log"
else
  say "  deploy/quickstart.sh --keep      the same, leaving the daemon running"
  say "  less README.md                   how to write a template and use the client"
fi
