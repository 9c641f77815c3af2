#!/bin/sh
# Runs the program against a server with the keys of `steadfast dev`.
set -eu
cd "$(dirname "$0")"
command -v dotnet > /dev/null || { echo "install the .NET SDK 8 or newer first" >&2; exit 2; }
KEY="Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
export EVENTS="${EVENTS:-Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;}"
export BLOBS="${BLOBS:-DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=$KEY;BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1;}"
dotnet build --nologo -v quiet --configuration Release
# The program itself, so that it gets signals.
exec dotnet bin/Release/net8.0/event-hubs.dll
