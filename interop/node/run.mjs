// Scenarios of @azure/event-hubs against the server named on the command line.

import { scenarios } from "./scenarios.mjs";
import { start } from "./server.mjs";

const hubs = ["houses:4", "positions:1", "keys:16", "typed:1", "epochs:1", "large:1", "idempotent:2"];
const server = await start(process.argv[2], hubs);
let failed = 0;
for (const scenario of scenarios) {
  const started = Date.now();
  let said = "ok";
  try {
    await scenario(server);
  } catch (error) {
    console.error(error);
    failed += 1;
    said = "FAILED";
  }
  console.log(`${said} ${scenario.name} ${((Date.now() - started) / 1000).toFixed(1)} s`);
}
await server.stop();
process.exit(failed ? 1 : 0);
