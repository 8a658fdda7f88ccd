/**
 * The model `instant` with a port in its own process, for `instant-main.ts`: prints `ENGINE <url>`, and ends
 * with its standard input.
 */
import { openInstantPool } from './instant-pool.ts';
import { openPort } from './behind-port.ts';

const log = (line: string) => console.error(line);
const inference = await openInstantPool(log);
const { port, url } = await openPort(inference, { log });
console.log(`ENGINE ${url}`);

process.stdin.resume().once('end', () => void close());

async function close(): Promise<void> {
  await port.close();
  await inference.close();
  process.exit(0);
}
