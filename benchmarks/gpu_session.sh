#!/usr/bin/env bash
# What fifteen minutes of a card are for: `make gpu`, then DavidNet at the 24 epochs of its author.
#
#     bash benchmarks/gpu_session.sh [--seconds 560] [--data FOLDER] [--out FOLDER]
#                                    [--python python3] [--only gpu|davidnet|cntk] [--dry]
#
# --data: a folder with CIFAR-10, as cifar-10-batches-py or as images in train/CLASS and test/CLASS,
# also in a .tar.gz or .zip, or that archive; without it DavidNet is left out, and a line says so.
# --out: gpu.json, gpu.md, davidnet.json, davidnet.md and session.log, written again after each
# result, so that whatever was measured is there however this ends. --only davidnet keeps what
# --only gpu left there. --only cntk, which is not part of the fifteen minutes, writes cntk.json:
# three minutes (--seconds 180) are enough. --dry: all of it on the CPU, small.
# To keep the figures, copy gpu.json and davidnet.json to docs/measurements/.
#
# Exit code: 0 where all that was begun is sound, also where time ran out; 1 for failures; 2 for
# wrong arguments or an --out that cannot be written; 3 without a card; 143 after SIGTERM, 130 after
# Ctrl+C.
set -u
began=$(date +%s)

seconds=560 data='' out=build/gpu-session python=python3 only='' dry=''

refuse() {
  echo "gpu_session.sh: $1; usage: gpu_session.sh [--seconds N] [--data FOLDER] [--out FOLDER]" \
    "[--python PYTHON] [--only gpu|davidnet|cntk] [--dry]" >&2
  exit 2
}

while [ $# -gt 0 ]; do
  case $1 in
    --dry) dry=--dry; shift; continue ;;
    --seconds | --data | --out | --python | --only) [ $# -ge 2 ] || refuse "$1 needs a value" ;;
    *) refuse "there is no option $1" ;;
  esac
  case $1 in
    --seconds) seconds=$2 ;;
    --data) data=$2 ;;
    --out) out=$2 ;;
    --python) python=$2 ;;
    --only) only=$2 ;;
  esac
  shift 2
done
[[ $seconds =~ ^[1-9][0-9]*$ ]] || refuse "--seconds is a whole number of seconds"
[[ $only =~ ^(|gpu|davidnet|cntk)$ ]] || refuse "--only is gpu, davidnet or cntk"
command -v "$python" >/dev/null || refuse "there is no $python"

# Paths are the caller's; commands run in the checkout.
[[ -z $data || $data == /* ]] || data=$PWD/$data
[[ $out == /* ]] || out=$PWD/$out
[[ $python != */* || $python == /* ]] || python=$PWD/$python
mkdir -p "$out" || exit 2
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." || exit 2
export OMP_NUM_THREADS=1

child='' signalled='' failed=0
end_with() { signalled=$1; [ -z "$child" ] || kill -TERM "$child" 2>/dev/null; }
trap 'end_with 143' TERM HUP
trap 'end_with 130' INT

# Runs a command with its output here and in the log, which is open as 3; a signal is passed on and its end awaited.
run() {
  [ -z "$signalled" ] || exit "$signalled"
  "$python" -m "$@" >&3 2>&1 3>&- &
  child=$!
  local code
  while true; do
    wait "$child"
    code=$?
    kill -0 "$child" 2>/dev/null || break
  done
  child=''
  [ -z "$signalled" ] || exit "$signalled"
  [ $code -ne 3 ] && [ $code -ne 2 ] || exit $code
  [ $code -lt 128 ] || exit $code # killed: what it has begun may still be on the card
  [ $code -eq 0 ] || failed=1
}

# What an earlier session has left must not stand beside the figures of this one.
case $only in
  cntk) rm -f "$out/cntk.json" ;;
  davidnet) rm -f "$out"/davidnet.{json,md} ;;
  gpu) rm -f "$out"/{gpu.json,gpu.md,session.log} ;;
  *) rm -f "$out"/{davidnet.{json,md},gpu.json,gpu.md,session.log} ;;
esac
exec 3> >(trap '' INT TERM HUP; exec tee -a "$out/session.log") # one for all: they stand in order
log=$!
if [ "$only" = cntk ]; then
  run benchmarks.gpu_cntk --out "$out/cntk.json" --until $((began + seconds - 5)) \
    ${data:+--data "$data"} $dry
fi
if [[ $only =~ ^(|gpu)$ ]]; then
  # A minute is left for the training to begin in; `make gpu` has eight at most.
  limit=$((seconds - 60 < 460 ? seconds - 60 : 460))
  [ -z "$only" ] || limit=$((seconds - 20 < 460 ? seconds - 20 : 460))
  run benchmarks.gpu --out "$out/gpu.json" --page "$out/gpu.md" --until $((began + limit)) $dry
fi
if [[ $only =~ ^(|davidnet)$ ]]; then
  run benchmarks.gpu_davidnet --out "$out/davidnet.json" --rates "$out/gpu.json" \
    --until $((began + seconds - 5)) ${data:+--data "$data"} $dry
fi
exec 3>&-
wait "$log"
exit $failed
