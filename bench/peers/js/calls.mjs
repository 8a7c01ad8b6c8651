// `node calls.mjs ts-modern|ts-legacy URL CALLS CONCURRENCY`: calls the echo tool through the TypeScript client and
// prints one JSON line of figures.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [kind, url, ...numbers] = process.argv.slice(2);
const [calls, concurrency] = numbers.map(Number);
const mode = kind === 'ts-modern' ? 'auto' : 'legacy';
const client = new Client({ name: 'yardstick', version: '1.0.0' }, { versionNegotiation: { mode } });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));

const micros = [];
let begun = 0;

async function caller() {
  while (begun < calls) {
    begun += 1;
    const start = process.hrtime.bigint();
    const result = await client.callTool({ name: 'echo', arguments: { text: 'hello' } });
    if (result.content[0].text !== 'hello') throw new Error('not our answer');
    micros.push(Number(process.hrtime.bigint() - start) / 1000);
  }
}

const start = performance.now();
await Promise.all(Array.from({ length: concurrency }, caller));
const seconds = (performance.now() - start) / 1000;
micros.sort((a, b) => a - b);
const at = (share) => Math.round(micros[Math.floor((micros.length - 1) * share)]);
console.log(JSON.stringify({
  kind,
  concurrency,
  calls: micros.length,
  per_s: Math.round(micros.length / seconds),
  p50_us: at(0.5),
  p99_us: at(0.99),
  protocol: client.getNegotiatedProtocolVersion?.(),
}));
process.exit(0);
