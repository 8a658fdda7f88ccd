// A PostgreSQL server for the tests, with its folder and socket in a temporary folder; it ends with them.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { appendFileSync, chmodSync, chownSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { typeParser } from '../drivers/postgres/postgres-sql.ts';

/** Variable with the address of the server that `postgres-setup.ts` started for all tests of a project. */
export const SERVER_VARIABLE = 'TRAINYARD_TEST_DATABASE';

const USER = 'trainyard';

const SERVER_SETTINGS = { shared_buffers: '32MB', max_connections: '60', fsync: 'off', full_page_writes: 'off' };

/** Settings for a server that other machines can reach. */
export interface ServedNetwork {
  /** Command prefix that runs a program there as an account; null: as the current one. */
  readonly command: (account: { uid: number; gid: number } | null) => readonly [string, ...string[]];
  /** addresses that it listens on */
  readonly listen: string;
  /** lines of `pg_hba.conf` */
  readonly access: readonly string[];
  /** further settings */
  readonly settings: Readonly<Record<string, string>>;
}

export class PostgresCluster {
  readonly #directory: string;
  readonly #start: () => ChildProcess;
  #server: ChildProcess;

  /**
   * @param programs folder of `initdb` and `postgres`
   * @param place parent of its folder, default that of temporary files
   * @param network default null: reachable only through its socket
   */
  static async start(
    programs: string,
    place: string = tmpdir(),
    network: ServedNetwork | null = null,
  ): Promise<PostgresCluster> {
    const directory = await mkdtemp(join(place, 'trainyard-postgres-'));
    const account = accountOfServer();
    if (account !== null) chownSync(directory, account.uid, account.gid);
    chmodSync(directory, 0o700);
    const data = join(directory, 'data');
    const settings = ['--auth=trust', '--encoding=UTF8', '--locale=C.UTF-8', '--no-sync'];
    const own = { cwd: directory, ...account };
    execFileSync(join(programs, 'initdb'), ['-D', data, '-U', USER, ...settings], { ...own, stdio: 'pipe' });
    const allSettings = {
      listen_addresses: network?.listen ?? '',
      unix_socket_directories: directory,
      ...SERVER_SETTINGS,
      ...network?.settings,
    };
    if (network !== null) appendFileSync(join(data, 'pg_hba.conf'), `${network.access.join('\n')}\n`);
    const words = [join(programs, 'postgres'), '-D', data, ...settingsOf(allSettings)];
    const start = () => {
      const [program = '', ...args] = network === null ? words : [...network.command(account), ...words];
      const user = network === null ? own : { cwd: directory };
      return spawn(program, args, { ...user, stdio: ['ignore', 'ignore', 'pipe'] });
    };
    const cluster = new PostgresCluster(directory, start);
    await cluster.#isReady();
    return cluster;
  }

  private constructor(directory: string, start: () => ChildProcess) {
    this.#directory = directory;
    this.#start = start;
    this.#server = start();
  }

  /**
   * Creates a fresh empty schema. With its address it serves as a separate database, which would be a copy of
   * 300 files.
   * @returns its address
   */
  async createSchema(): Promise<string> {
    return await createSchema(this.url);
  }

  /** Creates a fresh empty database, for users that cannot name a schema in their address. */
  async createDatabase(name: string): Promise<void> {
    await administrate(this.url, async (client) => void (await client.query(`create database ${name}`)));
  }

  /** Ends every connection, as a restart of the server does. */
  async disconnectAll(): Promise<void> {
    await administrate(
      this.url,
      async (client) =>
        void (await client.query(
          'select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()',
        )),
    );
  }

  /** Stops the server and keeps its data. */
  async goAway(): Promise<void> {
    await this.#end('SIGINT'); // fast: does not wait for its clients
  }

  /** Stops the server as in a crash: commits that did not wait for the disk may be lost. */
  async crash(): Promise<void> {
    await this.#end('SIGQUIT');
  }

  async #end(signal: 'SIGINT' | 'SIGQUIT'): Promise<void> {
    const ended = new Promise((resolve) => this.#server.once('exit', resolve));
    this.#server.kill(signal);
    await ended;
  }

  /** Restarts the server on the same data and at the same address. */
  async comeBack(): Promise<void> {
    this.#server = this.#start();
    await this.#isReady();
  }

  /** Suspends all of its processes: connections are accepted but not answered. */
  suspend(): void {
    this.#signal('SIGSTOP');
  }

  /** Ends {@link suspend}; otherwise has no effect. */
  resume(): void {
    this.#signal('SIGCONT');
  }

  async stop(): Promise<void> {
    await this.goAway();
    await rm(this.#directory, { recursive: true, force: true });
  }

  /** Address of the database that holds the schemas, for use in another process. */
  get url(): string {
    return `postgresql://${USER}@localhost/postgres?host=${encodeURIComponent(this.#directory)}`;
  }

  /** Each of its processes has a session of its own, so no group has all of them. */
  #signal(signal: NodeJS.Signals): void {
    const { pid, exitCode } = this.#server;
    if (pid === undefined || exitCode !== null) return;
    // The parent first: it starts no other then.
    process.kill(pid, signal);
    const { stdout } = spawnSync('ps', ['-o', 'pid=', '--ppid', String(pid)], { encoding: 'utf8' });
    for (const child of stdout.trim().split(/\s+/).filter(Boolean)) {
      try {
        process.kill(Number(child), signal);
      } catch (error) {
        // A process of the server ends when its client does.
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
      }
    }
  }

  async #isReady(): Promise<void> {
    let words = '';
    this.#server.stderr?.on('data', (chunk: Buffer) => (words = (words + chunk.toString()).slice(-2000)));
    for (;;) {
      assert(this.#server.exitCode === null, `the server ended: ${words}`);
      try {
        await administrate(this.url, async () => {});
        return;
      } catch {
        await sleep(50);
      }
    }
  }
}

/**
 * Creates a fresh empty schema in the database at that address.
 * @param url of a `PostgresCluster`
 * @returns its address
 */
export async function createSchema(url: string): Promise<string> {
  const name = `test_${randomUUID().replaceAll('-', '')}`;
  await administrate(url, async (client) => void (await client.query(`create schema ${name}`)));
  return `${url}&options=${encodeURIComponent(`-c search_path=${name}`)}`;
}

/** Runs work on a separate connection. @param url of a `PostgresCluster` or a schema */
async function administrate(url: string, work: (client: pg.Client) => Promise<void>): Promise<void> {
  const client = new pg.Client({ connectionString: url, types: { getTypeParser: typeParser } });
  // `disconnectAll` of another test file's cluster cannot reach it; its own end is awaited.
  client.on('error', () => {});
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}

function settingsOf(settings: Record<string, string>): string[] {
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
}

/** Account of the server: it refuses to run as root, so then the one created by Debian's package. */
function accountOfServer(): { uid: number; gid: number } | null {
  if (process.getuid?.() !== 0) return null;
  const id = (kind: '-u' | '-g') => Number(execFileSync('id', [kind, 'postgres'], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
}
