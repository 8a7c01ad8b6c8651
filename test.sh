#!/usr/bin/env bash
# Installs what the tests need and runs them all.
#
#   ./test.sh              everything, cheapest first
#   ./test.sh NAME…        only these sections:
#                          tools peers format tidy clippy docs doctests features tests storm conformance readme
#
# A section that fails does not stop the others: all mistakes show in one run.
# Last line:    N passed, N failed   (tests, doc tests and conformance runs; any other section that fails counts as one)
# Exit status:  0 when nothing failed
set -euo pipefail

cd "$(dirname "$0")"
target=${CARGO_TARGET_DIR:-$PWD/target}
logs=$target/test-logs
mkdir -p "$logs"
# A build server builds once: what incremental builds keep would be for nobody.
if [ "${CI:-}" = true ]; then export CARGO_INCREMENTAL=0; fi

wanted=("$@")
summary=()
passed=0
failed=0

# ---- tools -----------------------------------------------------------------------------

# Debian's packages, where they can be installed. Elsewhere the message says what is missing.
install() {
  command -v apt-get > /dev/null || { echo "please install: $*"; return 1; }
  local as=()
  if [ "$(id -u)" -ne 0 ]; then as=(sudo -n); fi
  "${as[@]}" apt-get update -qq
  "${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

tools() {
  command -v cargo > /dev/null || { echo "please install Rust first"; return 1; }
  local packages=()
  command -v node > /dev/null && command -v npm > /dev/null || packages+=(nodejs npm)
  command -v python3 > /dev/null && python3 -c 'import venv, ensurepip' 2> /dev/null || packages+=(python3 python3-venv)
  if [ ${#packages[@]} -gt 0 ]; then install "${packages[@]}"; fi
  { cargo fmt --version && cargo clippy --version; } > /dev/null 2>&1 || rustup component add rustfmt clippy
  rustc --version
  echo "node $(node --version), npm $(npm --version), $(python3 --version)"
  if cargo nextest --version > /dev/null 2>&1; then cargo nextest --version | head -n 1; else echo "no cargo-nextest: cargo test will do"; fi
}

# ---- sections --------------------------------------------------------------------------

# MCP servers that nobody here wrote, from npm and PyPI.
peers() { peers/install.sh; }

format() {
  cargo fmt --all --check
  cargo fmt --manifest-path bench/Cargo.toml --all --check
}

tidy() { cargo xtask tidy; }

clippy() { cargo clippy --quiet --workspace --all-targets -- -D warnings; }

# Libraries only: the program and the library have one name, and their pages would lie over each other.
docs() { RUSTDOCFLAGS="-D warnings" cargo doc --quiet --no-deps --workspace --lib; }

doctests() { cargo test --quiet --workspace --doc; }

features() { cargo check --quiet --package switchboard --no-default-features; }

tests() {
  if cargo nextest --version > /dev/null 2>&1; then
    cargo nextest run --workspace --no-fail-fast --status-level slow --final-status-level fail
  else
    cargo test --workspace --all-targets --no-fail-fast
  fi
}

# A minute of faults over two hundred servers, and ten thousand connections, each alone in its process, as they ask what a
# process holds. They print their figures. STORM_SEED=N makes another storm.
storm() {
  ulimit -n "$(ulimit -Hn)" 2> /dev/null || true
  if cargo nextest --version > /dev/null 2>&1; then
    cargo nextest run --package switchboard --test it --run-ignored only --test-threads 1 --success-output immediate \
      --no-fail-fast --status-level pass -E 'test(/^storm::/)'
  else
    cargo test --package switchboard --test it -- storm:: --ignored --test-threads 1 --nocapture
  fi
}

conformance() { TARGET_DIR=$target conformance/run.sh; }

# The commands of the README, word for word, for somebody who has nothing but Rust. The compiler is told to hurry.
readme() {
  local commands home status=0
  commands=$(cargo xtask readme)
  [ -n "$commands" ] || { echo "README.md has no block of commands after a line <!-- tested -->"; return 1; }
  home=$(mktemp -d)
  echo "$commands"
  env -u XDG_DATA_HOME -u XDG_CONFIG_HOME -u XDG_CACHE_HOME -u XDG_STATE_HOME HOME="$home" \
    CARGO_HOME="${CARGO_HOME:-$HOME/.cargo}" RUSTUP_HOME="${RUSTUP_HOME:-$HOME/.rustup}" \
    CARGO_TARGET_DIR="$target/readme" CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off \
    CARGO_PROFILE_RELEASE_CODEGEN_UNITS=256 \
    timeout --kill-after 10 900 bash -euo pipefail -c "$commands" < /dev/null || status=$?
  rm -rf "$home"
  return "$status"
}

# ---- how sections are run and counted --------------------------------------------------

# "PASSED FAILED" in what a section printed: nextest's summary, cargo's results, the ratchet's last line.
counted() {
  awk '
    /^ *Summary \[/ && / tests? run: / {
      for (i = 1; i <= NF; i++) { if ($i ~ /^run:/) run = $(i - 2); if ($i ~ /^passed/) good = $(i - 1) }
      sub(/\/.*/, "", run); passed += good; failed += run - good; good = 0
    }
    /^test result: / { for (i = 1; i <= NF; i++) { if ($i == "passed;") passed += $(i - 1); if ($i == "failed;") failed += $(i - 1) } }
    /^conformance: [0-9]+ passed/ { passed += $2; failed += $(NF - 4) + $(NF - 1) }
    END { print passed + 0, failed + 0 }' "$1"
}

section() {
  local name=$1 begun=$SECONDS status good bad verdict=ok count=
  if [ ${#wanted[@]} -gt 0 ] && [[ " ${wanted[*]} " != *" $name "* ]]; then return; fi
  printf '\n==== %s\n' "$name"
  set +e
  ( set -e; "$name" ) 2>&1 | tee "$logs/$name.txt"
  status=${PIPESTATUS[0]}
  set -e
  read -r good bad < <(counted "$logs/$name.txt")
  if [ $((good + bad)) -ne 0 ]; then count=" ($good passed, $bad failed)"; fi
  if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then bad=1; fi
  passed=$((passed + good))
  failed=$((failed + bad))
  if [ "$bad" -ne 0 ]; then verdict=FAILED; fi
  summary+=("$(printf '%-6s %5d s  %s%s' "$verdict" $((SECONDS - begun)) "$name" "$count")")
}

known="tools peers format tidy clippy docs doctests features tests storm conformance readme"
for name in "${wanted[@]}"; do
  [[ " $known " == *" $name "* ]] || { echo "no section is called $name; there are: $known" >&2; exit 2; }
done
for name in $known; do section "$name"; done

printf '\n==== summary\n'
printf '%s\n' "${summary[@]}"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
