// Separate process for the crash and concurrency tests: works through the jobs of one database and prints
// the acknowledged steps. Starts at a line on standard input, so that several can start together. Usage:
// job-churn.fixture.ts <database> <worker id> <drain | forever>
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { openSqliteStore } from '../../open-sqlite-store.ts';

const [path = '', workerId = '', mode = ''] = process.argv.slice(2);
const store = await openSqliteStore(path);
const models = await store.models.list({ limit: 1000 });
report('ready');
await once(process.stdin, 'data');
process.stdin.destroy();

for (let round = 0; ; round++) {
  if (mode === 'forever') {
    const modelId = models.items[round % models.items.length]?.id ?? '';
    await store.jobs.enqueue({ modelId, kind: 'rl', config: { round }, dataKey: `groups/${randomUUID()}` });
  }
  const job = await store.jobs.claim(workerId, 60_000);
  if (job === null) break;
  report(`claimed ${job.id}`);
  const token = job.fencingToken;
  await store.jobs.appendEvent(job.id, token, { type: 'training_started', data: {}, dedupeKey: 'training_started' });
  for (let index = 0; index < 3; index++) {
    if (mode === 'drain') await sleep(2); // SQLite's lock is not fair: without a pause one process would do all the work
    await store.jobs.appendEvent(job.id, token, {
      type: 'gradient_step',
      data: {},
      dedupeKey: `gradient_step:${index}`,
    });
  }
  if (round % 5 === 4) await store.jobs.fail(job.id, token, 'every fifth fails');
  else await store.jobs.succeed(job.id, token, { directoryKey: `a/${job.id}`, digest: 'd', metrics: { round } });
  report(`finished ${job.id}`);
}
await store.close();

/** Writes with one system call, so that each line the parent reads was true before the process died. */
function report(line: string): void {
  writeSync(1, `${line}\n`);
}
