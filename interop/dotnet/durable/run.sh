#!/bin/sh
# Runs the program against a running `steadfast dev`.
set -eu
cd "$(dirname "$0")"
command -v dotnet > /dev/null || { echo "install the .NET SDK 8 or newer first" >&2; exit 2; }
dotnet build --nologo -v quiet --configuration Release
# The program itself, so that it gets signals.
exec dotnet bin/Release/net8.0/durable.dll
