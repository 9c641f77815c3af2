// Runs scenarios of @microsoft/durabletask-js: run.mjs <what the server said> [names].
//
// Without names all of them run, one after another.

import { scenarios as own } from "./scenarios.mjs";
import { Server } from "./server.mjs";
import { scenarios as entities } from "./upstream_entities.mjs";
import { scenarios as orchestrations } from "./upstream_orchestrations.mjs";

const server = new Server(JSON.parse(process.argv[2]));
const names = process.argv.slice(3);
const scenarios = [...own, ...orchestrations, ...entities];
const chosen = scenarios.filter(({ name }) => names.length === 0 || names.includes(name));
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
