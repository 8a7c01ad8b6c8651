// `node --expose-gc hold.mjs auto|legacy URL N PARALLEL`: opens N clients, lists the tools on each, and prints how long
// that took and how much memory a connection holds.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [mode, url, ...numbers] = process.argv.slice(2);
const [count, parallel] = numbers.map(Number);
globalThis.gc?.();
const before = process.memoryUsage().rss;
const held = [];
let begun = 0;

async function opener() {
  while (begun < count) {
    begun += 1;
    const client = new Client({ name: 'yardstick', version: '1.0.0' }, { versionNegotiation: { mode } });
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    held.push({ client, tools: await client.listTools() });
  }
}

const start = performance.now();
await Promise.all(Array.from({ length: parallel }, opener));
const seconds = (performance.now() - start) / 1000;
globalThis.gc?.();
const kilobytes = (process.memoryUsage().rss - before) / 1024 / count;
console.log(JSON.stringify({ kind: `ts-${mode}`, n: held.length, ready_s: seconds, kb_per_connection: kilobytes }));
process.exit(0);
