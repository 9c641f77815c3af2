#!/usr/bin/env bash
# Two app servers against a running `steadfast dev`; the first one leaves after a while.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
mode="${1:-MigrateClients}"
command -v dotnet > /dev/null || { echo "install the .NET SDK 8 or newer first" >&2; exit 2; }
dotnet build --nologo -v quiet --configuration Release ChatSample.csproj
# The program itself, so that it gets the signal: `dotnet run` does not pass one on.
program=bin/Release/net8.0/ChatSample.dll
dotnet "$program" "$mode" --urls http://127.0.0.1:5001 &
first=$!
dotnet "$program" "$mode" --urls http://127.0.0.1:5002 &
second=$!
trap 'kill -TERM "$first" "$second" 2> /dev/null || true' EXIT
echo "connect clients to http://127.0.0.1:5001/chat; the first server leaves in 60 s"
sleep 60
kill -TERM "$first"
wait "$first" || true
echo "the first server has left; Ctrl+C ends the second"
wait "$second"
