import { createHash } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

import type { SchemaConnection } from '@trainyard/store/testing';
import { seededRandom } from '@trainyard/trainer/testing';

import { Checker, type Query } from './checker.ts';
import { ScheduleClient, Violation } from './client.ts';
import { type DisasterParts, OLDER, playDisasters, removeOrphans } from './disasters.ts';
import { Faults } from './faults.ts';
import type { Oracle } from './oracle.ts';
import { type ProcessSettings, ServiceProcess, type World } from './service-process.ts';
import { SimulatedProcess } from './simulated-process.ts';
import { StubBucket } from './stub-bucket.ts';
import { VirtualTime } from './virtual-time.ts';
import { WriterTurns } from './writer-turns.ts';
import { importAdapter, Submitted, trainModel } from './workload.ts';

/** A schedule that takes this long by the real clock counts as hanging. */
const HANGS_AFTER_MS = 600_000;
const MINUTE_MS = 60_000;
const CALLS_AT_A_TIME = 3;
const LAST_TRANSACTIONS_MS = 20_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
/** Skips locked jobs: their writer may be stopped for long, and time would not advance. */
const TAKE_LEASES_AWAY = `
  update jobs set lease_expires_at = 0
  where id in (select id from jobs where status = 'running' for update skip locked)`;

export interface ScheduleOptions {
  readonly seed: number;
  /** an empty folder; short, because it is part of socket paths */
  readonly directory: string;
  /** address of an up-to-date, empty schema */
  readonly database: string;
  /** connection to that schema */
  readonly connection: SchemaConnection;
  readonly oracle: Oracle;
  /** Default true. */
  readonly hasFaults?: boolean;
  /** Receives the logs of processes. Default: none. */
  readonly log?: (line: string) => void;
}

export interface ScheduleResult {
  readonly violations: readonly string[];
  readonly faults: ReadonlyMap<string, number>;
  readonly numJobs: number;
  readonly numGivenUp: number;
  readonly virtualMs: number;
}

/** Consecutive processes of a kind: after a kill another follows, on the same data folder or a new one. */
interface Slot {
  readonly name: string;
  readonly role: ProcessSettings['role'];
  readonly random: () => number;
  process: SimulatedProcess | null;
  service: ServiceProcess | null;
  numLives: number;
  dataDirectory: string;
}

export async function playSchedule(options: ScheduleOptions): Promise<ScheduleResult> {
  const schedule = new Schedule(options);
  return await schedule.play();
}

class Schedule {
  readonly #options: ScheduleOptions;
  readonly #time = new VirtualTime();
  readonly #faults: Faults;
  readonly #bucket: StubBucket;
  readonly #world: World;
  readonly #slots: Slot[] = [];
  readonly #submitted = new Submitted();
  readonly #usage = new Map<string, { numCalls: number; isWhole: boolean }>();
  /** Rejects with a violation at once, before the end. */
  readonly #broken = Promise.withResolvers<never>();
  readonly #random: () => number;
  #isOver = false;
  #numStarts = 0;

  constructor(options: ScheduleOptions) {
    this.#options = options;
    const { seed, directory, database, log = () => undefined } = options;
    this.#random = randomOf(`${seed} schedule`);
    this.#faults = new Faults({ seed: String(seed), time: this.#time, kill: (process) => this.#kill(process) });
    this.#bucket = new StubBucket(this.#faults, this.#time);
    const bucket = this.#random() < 0.75 ? this.#bucket.url : null;
    const logged = (line: string) =>
      log(`${(this.#time.now / 1000).toFixed(2)} ${SimulatedProcess.current?.name ?? ''}: ${line}`);
    this.#world = {
      time: this.#time,
      faults: this.#faults,
      turns: new WriterTurns(),
      networks: new Set(),
      directory,
      database,
      bucket,
      log: logged,
    };
    this.#broken.promise.catch(() => undefined);
  }

  async play(): Promise<ScheduleResult> {
    const hang = setTimeout(() => this.#broken.reject(new Violation('it does not end')), HANGS_AFTER_MS);
    this.#time.begin();
    this.#bucket.begin();
    const checker = new Checker({
      query: this.#query,
      submitted: this.#submitted,
      oracle: this.#options.oracle,
      now: () => this.#time.date,
      mayLoseClaim: (process, from, to) => this.#faults.mayLoseClaim(process, from, to),
    });
    try {
      await Promise.race([this.#work(checker), this.#broken.promise]);
    } catch (error) {
      checker.violations.push(
        error instanceof Violation ? `${error.message}; ${this.#state()}` : String((error as Error).stack),
      );
    } finally {
      this.#isOver = true;
      this.#time.end();
      this.#bucket.end();
      clearTimeout(hang);
      await Promise.all([...this.#world.networks].map(async (network) => await network.close()));
    }
    return {
      violations: checker.violations,
      faults: this.#faults.counts,
      numJobs: this.#submitted.models.reduce((sum, { jobs, exportIds }) => sum + jobs.length + exportIds.length, 0),
      numGivenUp: checker.numGivenUp,
      virtualMs: this.#time.now,
    };
  }

  async #work(checker: Checker): Promise<void> {
    this.#faults.isOn = false;
    const secret = await this.#makeKey();
    this.#makeSlots();
    this.#faults.isOn = this.#options.hasFaults ?? true;
    // Not awaited: a process killed during its start never settles.
    for (const slot of this.#slots) void this.#live(slot).catch(this.#broken.reject);
    const chaos = [this.#takeLeasesAway(), this.#countUsage()];
    const copied = this.#keepOlderRows();
    await this.#runClients(secret);
    await copied;
    this.#faults.isOn = false;
    for (const { process } of this.#slots) process?.thaw();
    await this.#untilDrained();
    // By then the server has ended the transactions of silent or dead processes.
    await this.#time.sleep(LAST_TRANSACTIONS_MS);
    this.#isOver = true;
    await Promise.all(chaos);
    await this.#closeAll();
    await checker.checkRows();
    await checker.checkUsage(this.#usage);
    await this.#sweep(checker);
  }

  readonly #query: Query = async (statement) => {
    const over = this.#time.underWay();
    try {
      return await this.#options.connection.query(statement);
    } finally {
      over();
    }
  };

  async #makeKey(): Promise<string> {
    const first = await this.#startUndisturbed('first');
    const { id: entityId } = await first.store.keys.ensureEntity('local');
    const { secret } = await first.store.keys.create({ entityId, name: 'proof', scopes: ['training', 'inference'] });
    await first.close();
    return secret;
  }

  async #startUndisturbed(name: string): Promise<ServiceProcess> {
    const settings = { name, role: 'api', dataDirectory: this.#newFolder(name) } as const;
    return await ServiceProcess.start(this.#world, settings, new SimulatedProcess(name, 0));
  }

  #makeSlots(): void {
    const roles: ProcessSettings['role'][] =
      this.#random() < 0.3 ? ['all', 'all', 'trainer'] : ['api', 'api', 'trainer', 'trainer'];
    roles.forEach((role, index) => {
      const name = `${role}${index}`;
      this.#slots.push({
        name,
        role,
        random: randomOf(`${this.#options.seed} ${name}`),
        process: null,
        service: null,
        numLives: 0,
        dataDirectory: this.#newFolder(name),
      });
    });
  }

  #newFolder(name: string): string {
    const folder = join(this.#options.directory, `data-${name}`);
    mkdirSync(folder, { recursive: true });
    return folder;
  }

  /** Starts the next process of a slot, with retries. */
  async #live(slot: Slot): Promise<void> {
    while (!this.#isOver) {
      slot.numLives += 1;
      const name = `${slot.name}.${slot.numLives}`;
      // Clocks differ by up to a minute.
      const process = new SimulatedProcess(name, (slot.random() - 0.5) * MINUTE_MS);
      slot.process = process;
      try {
        const settings = { name, role: slot.role, dataDirectory: slot.dataDirectory };
        slot.service = await ServiceProcess.start(this.#world, settings, process);
        return;
      } catch (error) {
        this.#world.log(`${name} did not start: ${String(error)}`);
        await this.#time.sleep(2_000);
      }
    }
  }

  #kill(process: SimulatedProcess): void {
    process.kill();
    const slot = this.#slots.find((other) => other.process === process);
    if (slot === undefined) return;
    const { service } = slot;
    slot.process = null;
    slot.service = null;
    const usage = this.#usage.get(process.name);
    if (usage !== undefined) usage.isWhole = false;
    service?.kill(slot.random() < 0.7);
    // Another folder simulates another machine: no process continues the dead one's work.
    if (slot.random() < 0.5) slot.dataDirectory = this.#newFolder(`${slot.name}-${slot.numLives}`);
    const pauseMs = slot.random() < 0.5 ? 1_000 : 45_000 * slot.random();
    SimulatedProcess.outside(
      () =>
        void this.#time
          .sleep(pauseMs)
          .then(() => this.#live(slot))
          .catch(this.#broken.reject),
    );
  }

  async #runClients(secret: string): Promise<void> {
    const { seed } = this.#options;
    const client = (name: string) => {
      const random = randomOf(`${seed} ${name}`);
      return new ScheduleClient({
        name,
        apiKey: secret,
        random,
        time: this.#time,
        anyProcess: () => {
          const open = this.#slots.flatMap(({ service }) => (service?.servesHttp === true ? [service] : []));
          return open[Math.floor(open.length * random())] ?? null;
        },
      });
    };
    const [time, submitted] = [this.#time, this.#submitted];
    const numModels = 2 + Math.floor(2 * this.#random());
    const models = Array.from({ length: numModels }, (_, index) => {
      const name = `model-${index}`;
      return trainModel({ client: client(name), time, submitted }, name);
    });
    const adapters =
      this.#random() < 0.7 ? [importAdapter({ client: client('adapter'), time, submitted }, 'adapter')] : [];
    await Promise.all([...models, ...adapters]);
  }

  /** Simulates an operator who believes that a worker is dead. */
  async #takeLeasesAway(): Promise<void> {
    while (!this.#isOver) {
      await this.#time.sleep(1_000);
      if (this.#faults.isOn && this.#faults.takesLeaseAway()) await this.#query(TAKE_LEASES_AWAY);
    }
  }

  /** Every process with HTTP counts served calls, a few at a time. */
  async #countUsage(): Promise<void> {
    while (!this.#isOver) {
      await this.#time.sleep(CALLS_AT_A_TIME * 700);
      for (const { service } of this.#slots) {
        if (service?.servesHttp !== true || service.process.isFrozen) continue;
        const { name } = service.settings;
        const calls = this.#usage.get(name) ?? { numCalls: 0, isWhole: true };
        this.#usage.set(name, calls);
        const usage = { keyId: 'key', entityId: 'local', project: name, model: 'm', kind: 'chat' } as const;
        calls.numCalls += CALLS_AT_A_TIME;
        service.process.run(() => {
          for (let call = 0; call < CALLS_AT_A_TIME; call++)
            void service.store.usage.record({ ...usage, promptTokens: 1, completionTokens: 1 });
        });
      }
    }
  }

  /** Simulates a backup taken in the middle of the work. */
  async #keepOlderRows(): Promise<void> {
    await this.#time.sleep(60_000 * this.#random());
    const over = this.#time.underWay();
    await this.#options.connection.keepRows(OLDER).finally(over);
  }

  async #untilDrained(): Promise<void> {
    const since = this.#time.now;
    for (;;) {
      const live = await this.#query<{ id: string; kind: string; status: string; paused_at: number | null }>(
        `select id, kind, status, paused_at from jobs where status in ('queued', 'running')`,
      );
      if (live.length === 0 && this.#slots.every(({ service }) => service !== null)) return;
      if (this.#time.now > since + 60 * MINUTE_MS)
        throw new Violation(
          `jobs never end: ${live.map(({ id, kind, status, paused_at: at }) => `${kind} ${id} ${status} ${at}`).join(', ')}`,
        );
      await this.#time.sleep(2_000);
    }
  }

  async #closeAll(): Promise<void> {
    for (const slot of this.#slots) {
      const { service } = slot;
      slot.service = null;
      await service?.close();
    }
  }

  /** Disasters must lose nothing; weeks later orphans are gone, and all remaining blobs belong to rows. */
  async #sweep(checker: Checker): Promise<void> {
    const parts: DisasterParts = {
      time: this.#time,
      connection: this.#options.connection,
      start: async (name) => await this.#startUndisturbed(`${name}${(this.#numStarts += 1)}`),
      log: this.#world.log,
      found: (violation) => void checker.violations.push(violation),
      count: (fault) => void this.#faults.counts.set(fault, (this.#faults.counts.get(fault) ?? 0) + 1),
    };
    if (this.#options.hasFaults ?? true) await playDisasters(parts);
    this.#time.skip(DAY_MS + MINUTE_MS);
    const purging = await this.#startUndisturbed('purging');
    await purging.process.run(async () => await purging.store.purgeExpired());
    await removeOrphans(purging, parts);
    await purging.process.run(async () => await checker.checkBlobs(purging.blobs));
    await purging.close();
  }

  #state(): string {
    const states = this.#slots.map(({ name, numLives, process, service }) => {
      const state =
        process === null ? 'is dead' : process.isFrozen ? 'stands still' : service === null ? 'starts' : 'runs';
      return `${name}.${numLives} ${state}`;
    });
    const met = [...this.#faults.counts].map(([name, count]) => `${name} ${count}`);
    return `at ${(this.#time.now / 1000).toFixed(1)} s ${states.join(', ')}; it met ${met.join(', ')}`;
  }
}

/** Generator for that part of a seed. */
function randomOf(text: string): () => number {
  return seededRandom(createHash('sha256').update(text).digest().readUInt32LE(0));
}
