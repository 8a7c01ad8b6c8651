#!/bin/sh
# Installs the real MCP servers that the tests talk to into target/peers. Does nothing when they are up to date.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
there=$(dirname "$here")/target/peers
python=${PYTHON:-python3}
mkdir -p "$there"

for program in node npm "$python"; do
    if ! command -v "$program" >/dev/null; then
        echo "The tests need $program; install Node 20 or newer and Python 3.10 or newer." >&2
        exit 1
    fi
done

# What was installed, and with what.
state() {
    cat "$here/package-lock.json" "$here/requirements.txt" "$here/install.sh"
    node --version
    "$python" --version
}
wanted=$(state | cksum)

if [ -f "$there/installed" ] && [ "$(cat "$there/installed")" = "$wanted" ]; then
    exit 0
fi
rm -f "$there/installed"

cp "$here/package.json" "$here/package-lock.json" "$there/"
(cd "$there" && npm ci --no-audit --no-fund --loglevel=error)

rm -rf "$there/python"
"$python" -m venv "$there/python"
"$there/python/bin/python" -m pip install --quiet --disable-pip-version-check -r "$here/requirements.txt"

printf '%s\n' "$wanted" >"$there/installed"
