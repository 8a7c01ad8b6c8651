#!/usr/bin/env bash
# Builds and runs the bench: floor, peers and ours side by side, and a table with ratios and targets.
#
#   bench/run.sh          three rounds of everything, about eleven minutes after building
#   bench/run.sh quick    three short rounds of floor, ours and the pooled Rust peer
#
# The report goes to stdout, progress to stderr. Nothing else should run on the machine meanwhile.
# Exit status: 0 when every target was met, 1 when one was missed or not measured, 2 when something did not build.
set -euo pipefail

cd "$(dirname "$0")/.."
mode=${1:-}
case $mode in '' | quick) ;; *) sed -n '2,/^set -euo/p' "$0" | sed '$d' | sed 's/^# \{0,1\}//' >&2; exit 2 ;; esac

built=$PWD/target/bench
export CARGO_TARGET_DIR=$built
say() { echo "bench: $*" >&2; }
fail() { say "$*"; exit 2; }

say "building server, floor and the Rust peer"
cargo build --release --manifest-path bench/Cargo.toml --workspace --bins >&2 || fail "the yardstick does not build"

say "building ours"
cargo build --release --package switchboard-cli --bin switchboard >&2 || fail "the program does not build"
for example in calls hold catalogue recover; do
  if [ -f "crates/switchboard/examples/$example.rs" ]; then
    cargo build --release --package switchboard --example "$example" >&2 || fail "the example $example does not build"
  else
    say "the example $example is not there: its targets will not be measured"
  fi
done
target/bench/release/catalogue-floor --write target/bench/tools-10000.jsonl

# The JavaScript and Python peers are for comparison only; without them the rest still runs.
if [ "$mode" != quick ]; then
  if command -v npm > /dev/null; then
    mkdir -p target/bench/js
    cp bench/peers/js/* target/bench/js/
    npm install --prefix target/bench/js --silent --no-audit --no-fund --ignore-scripts >&2 \
      || { say "npm could not install the TypeScript client: left out"; rm -rf target/bench/js; }
  else
    say "no npm: the TypeScript client is left out"
  fi
  if python3 -m venv target/bench/py > /dev/null 2>&1; then
    target/bench/py/bin/pip install --quiet --disable-pip-version-check -r bench/peers/py/requirements.txt >&2 \
      || { say "pip could not install the Python clients: left out"; rm -rf target/bench/py; }
  else
    say "no python3 with venv: the Python clients are left out"
    rm -rf target/bench/py
  fi
fi

# A thousand servers may mean a thousand sockets.
ulimit -n "$(ulimit -Hn)" 2> /dev/null || true
say "running"
if [ -n "$mode" ]; then exec target/bench/release/yard-run "$mode"; fi
exec target/bench/release/yard-run
