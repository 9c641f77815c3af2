// The same in a browser, from a page of another origin.

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const here = dirname(fileURLToPath(import.meta.url));

// Packages do not say where their files for browsers are.
const scripts = [
  "@microsoft/signalr/dist/browser/signalr.js",
  "@microsoft/signalr-protocol-msgpack/dist/browser/signalr-protocol-msgpack.js",
];

const PAGE = `<!doctype html><script src="/0.js"></script><script src="/1.js"></script>
<script type="module">
import { everything } from "/talk.mjs";
const { WebSockets, ServerSentEvents, LongPolling } = signalR.HttpTransportType;
window.run = async (server) => {
  const done = [];
  for (const [transport, packed] of [
    [WebSockets, false], [WebSockets, true], [ServerSentEvents, false],
    [LongPolling, false], [LongPolling, true],
  ]) {
    await everything(signalR, signalR.protocols.msgpack, server, { transport, packed });
    done.push(transport + (packed ? " packed" : ""));
  }
  return done;
};
</script>`;

async function pages() {
  const files = new Map([["/", ["text/html", PAGE]]]);
  for (const [number, script] of scripts.entries()) {
    const path = join(here, "node_modules", script);
    files.set(`/${number}.js`, ["text/javascript", await readFile(path)]);
  }
  files.set("/talk.mjs", ["text/javascript", await readFile(join(here, "talk.mjs"))]);
  const server = createServer((request, response) => {
    const [kind, body] = files.get(request.url) ?? ["text/plain", ""];
    response.setHeader("Content-Type", kind);
    response.end(body);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

export async function browser(server) {
  const site = await pages();
  const program = await chromium.launch({
    executablePath: server.browser,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic"],
  });
  try {
    const page = await program.newPage();
    page.on("console", (line) => console.error("browser:", line.text()));
    page.on("pageerror", (error) => console.error("browser:", error));
    await page.goto(`http://127.0.0.1:${site.address().port}/`);
    await page.waitForFunction(() => window.run !== undefined);
    const done = await page.evaluate((said) => window.run(said), server);
    if (done.length !== 5) {
      throw new Error(`only ${done}`);
    }
  } finally {
    await program.close();
    site.close();
  }
}
