// The server that the scenarios talk to.

export function serverOf(text) {
  const said = JSON.parse(text);
  return {
    said,
    connectionString(key = said.key, port = said.amqp) {
      return (
        `Endpoint=sb://localhost:${port};SharedAccessKeyName=${said.key_name};` +
        `SharedAccessKey=${key};UseDevelopmentEmulator=true`
      );
    },
    // For the Blob service.
    blobs(key = said.account_key) {
      return (
        `DefaultEndpointsProtocol=http;AccountName=${said.account};AccountKey=${key};` +
        `BlobEndpoint=http://127.0.0.1:${said.blob}/${said.account};`
      );
    },
  };
}
