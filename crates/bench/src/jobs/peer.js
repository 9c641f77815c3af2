// The load of the peer: so many jobs of BullMQ, each one call to an address, all due
// within one second. Arguments: port of Redis, address, number of jobs, milliseconds
// until the first is due. Prints jobs per second since then.

const http = require("node:http");
const { Queue, Worker } = require("bullmq");

const [port, address, count, lead] = process.argv.slice(-4);
const connection = { host: "127.0.0.1", port: Number(port), maxRetriesPerRequest: null };
const agent = new http.Agent({ keepAlive: true, maxSockets: 64 });
const call = () =>
  new Promise((resolve, reject) => {
    const request = http.get(address, { agent }, (answer) => {
      answer.resume();
      answer.on("end", resolve);
    });
    request.on("error", reject);
  });

async function main() {
  const queue = new Queue("bench", { connection });
  const start = Date.now() + Number(lead);
  for (let made = 0; made < Number(count); made += 1000) {
    const length = Math.min(1000, Number(count) - made);
    const job = (_, index) => {
      const due = start + Math.floor(((made + index) * 1000) / Number(count));
      return { name: "call", data: {}, opts: { delay: due - Date.now() } };
    };
    await queue.addBulk(Array.from({ length }, job));
  }
  if (Date.now() >= start) throw new Error("the jobs were due before all of them were made");
  let done = 0;
  const worker = new Worker("bench", call, { connection, concurrency: 64 });
  await new Promise((resolve, reject) => {
    worker.on("completed", () => {
      done += 1;
      if (done === Number(count)) resolve();
    });
    worker.on("failed", (_, error) => reject(error));
    worker.on("error", reject);
  });
  console.log((done * 1000) / (Date.now() - start));
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
