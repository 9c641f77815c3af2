// Runs scenarios of @microsoft/signalr: run.mjs <what the server said> [names].
//
// Without names all of them run, one after another, but for those that are led.

import { led, scenarios } from "./scenarios.mjs";
import { browser } from "./browser.mjs";

const server = JSON.parse(process.argv[2]);
const all = [...scenarios, browser];
const names = process.argv.slice(3);
const chosen = names.length === 0 ? all : [...all, ...led].filter(({ name }) => names.includes(name));
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
