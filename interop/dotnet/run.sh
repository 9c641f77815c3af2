#!/usr/bin/env bash
# Two app servers against a running `steadfast dev`; the first one leaves after a while.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
mode="${1:-MigrateClients}"
command -v dotnet > /dev/null || { echo "install the .NET SDK 8 or newer first" >&2; exit 2; }
dotnet build --nologo -v quiet
dotnet run --no-build -- "$mode" --urls http://127.0.0.1:5001 &
first=$!
dotnet run --no-build -- "$mode" --urls http://127.0.0.1:5002 &
second=$!
trap 'kill "$first" "$second" 2> /dev/null || true' EXIT
echo "connect clients to http://127.0.0.1:5001/chat; the first server leaves in 60 s"
sleep 60
kill -INT "$first"
wait "$first" || true
echo "the first server has left; Ctrl+C ends the second"
wait "$second"
