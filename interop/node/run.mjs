// Runs scenarios of @azure/event-hubs: run.mjs <what the server said> [names].
//
// Without names all of them run, one after another.

import { blobScenarios } from "./blobs.mjs";
import { scenarios } from "./scenarios.mjs";
import { serverOf } from "./server.mjs";

const server = serverOf(process.argv[2]);
const names = process.argv.slice(3);
const all = [...scenarios, ...blobScenarios];
const chosen = all.filter(({ name }) => names.length === 0 || names.includes(name));
let failed = chosen.length < names.length ? 1 : 0;
for (const scenario of chosen) {
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
process.exit(failed ? 1 : 0);
