// Starts the server that the scenarios talk to.

import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

export async function start(program, hubs) {
  const folder = await mkdtemp(join(tmpdir(), "steadfast-interop-"));
  const child = spawn(program, [folder, ...hubs], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout });
  const line = await new Promise((resolve, reject) => {
    lines.once("line", resolve);
    child.once("exit", (code) => reject(new Error(`the server ended with ${code}`)));
  });
  const said = JSON.parse(line);
  return {
    said,
    connectionString(key = said.key) {
      return (
        `Endpoint=sb://localhost:${said.amqp};SharedAccessKeyName=${said.key_name};` +
        `SharedAccessKey=${key};UseDevelopmentEmulator=true`
      );
    },
    async stop() {
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.stdin.end();
      await ended;
      await rm(folder, { recursive: true });
    },
  };
}
