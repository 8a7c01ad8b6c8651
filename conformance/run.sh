#!/usr/bin/env bash
# The ratchet: what the official MCP conformance suite once saw pass may not fail again.
#
#   conformance/run.sh            run every scenario and compare with known-failures.txt
#   conformance/run.sh --update   run every scenario and write known-failures.txt anew
#
# Fails when a run that is not on the list fails, and when one that is on the list passes: then its
# line is to be deleted, so that it cannot be lost again.
# Last line:    conformance: N passed, N known failures, N new failures, N fixed
# Exit status:  0 as expected, 1 not as expected, 2 the suite did not run
#
# Environment (all optional):
#   CONFORMANCE_CLIENT   command to test   [the library's example conformance_client, built here]
#   TARGET_DIR           where things are built and installed                  [target, as cargo has it]
#   ONLY, SKIP, JOBS …   as in client.sh; with ONLY or SKIP, lines that were not run are not judged
set -euo pipefail
export LC_ALL=C # one order of lines for sort and comm

here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.."
list=$here/known-failures.txt
target=${TARGET_DIR:-${CARGO_TARGET_DIR:-$PWD/target}}
export SUITE_DIR=${SUITE_DIR:-$target/conformance/suite}
export OUT=${OUT:-$target/conformance/out}
export JOBS=${JOBS:-2}

update=
case ${1:-} in
  '') ;;
  --update) update=1 ;;
  *) sed -n '2,/^set -euo/p' "$0" | sed '$d' | sed 's/^# \{0,1\}//' >&2; exit 2 ;;
esac

client=${CONFORMANCE_CLIENT:-}
if [ -z "$client" ]; then
  cargo build --quiet --package switchboard --example conformance_client --target-dir "$target" \
    || { echo "conformance: the example conformance_client does not build" >&2; exit 2; }
  client=$target/debug/examples/conformance_client
fi

rm -rf "$OUT"
mkdir -p "$OUT"
lines=$OUT/lines.txt
status=0
"$here/client.sh" "$client" | tee "$lines" || status=$?
if [ "$status" -gt 1 ]; then
  echo "conformance: the suite did not run" >&2
  exit 2
fi

# "WIRE SCENARIO" of every run with this verdict, sorted.
runs() { sed -n "s/^$1 \([^ ]*\) \([^ ]*\) .*/\1 \2/p" "$lines" | sort; }
runs PASS > "$OUT/passed"
runs FAIL > "$OUT/failed"
sort -u "$OUT/passed" "$OUT/failed" > "$OUT/run"
sed 's/#.*//; s/[[:space:]]*$//; /^$/d' "$list" | sort > "$OUT/known"
# What is on the list and was not run: left out by ONLY or SKIP, or not in the suite.
comm -13 "$OUT/run" "$OUT/known" > "$OUT/not-run"
[ -n "${ONLY:-}${SKIP:-}" ] && everything= || everything=1

if [ -n "$update" ]; then
  [ -n "$everything" ] && : > "$OUT/not-run"
  { sed -n '/^#/p' "$list"; sort "$OUT/failed" "$OUT/not-run"; } > "$OUT/updated"
  cp "$OUT/updated" "$list"
  echo "conformance: ${list#"$PWD/"} has $(grep -vc '^#' "$list" || true) known failures now"
  exit 0
fi

count() { wc -l < "$1" | tr -d ' '; }
comm -23 "$OUT/failed" "$OUT/known" > "$OUT/new"
comm -12 "$OUT/failed" "$OUT/known" > "$OUT/as-known"
comm -12 "$OUT/passed" "$OUT/known" > "$OUT/fixed"
while read -r run; do echo "conformance: $run fails and is not on the list: mend it"; done < "$OUT/new"
while read -r run; do echo "conformance: $run passes now: delete its line from ${list#"$PWD/"}"; done < "$OUT/fixed"

# A known failure that the suite does not have is a slip of the pen, or gone with an older version of the suite.
[ -n "$everything" ] || : > "$OUT/not-run"
while read -r run; do echo "conformance: $run is not in the suite: delete its line from ${list#"$PWD/"}"; done < "$OUT/not-run"

echo "conformance: $(count "$OUT/passed") passed, $(count "$OUT/as-known") known failures," \
  "$(count "$OUT/new") new failures, $(count "$OUT/fixed") fixed"
! [ -s "$OUT/new" ] && ! [ -s "$OUT/fixed" ] && ! [ -s "$OUT/not-run" ]
