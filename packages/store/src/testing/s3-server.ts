import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { AwsClient } from 'aws4fetch';
import { freePort } from './free-port.ts';
import type { S3Credentials } from '../blobs/s3/s3-bucket.ts';

export const CREDENTIALS: S3Credentials = {
  accessKeyId: 'trainyard-tests',
  secretAccessKey: 'a secret of these tests',
};
export const REGION = 'us-east-1';

/** An S3 server over a folder: versitygw. */
export class S3Server {
  readonly origin: string;
  readonly #child: ChildProcess;
  readonly #folder: string;
  #numBuckets = 0;

  /** @param program the path of versitygw */
  static async start(program: string): Promise<S3Server> {
    const folder = await mkdtemp(join(tmpdir(), 'trainyard-s3-'));
    const port = await freePort();
    const { accessKeyId, secretAccessKey } = CREDENTIALS;
    const key = ['--access', accessKeyId, '--secret', secretAccessKey, '--region', REGION];
    const args = ['--port', `127.0.0.1:${port}`, ...key, '--quiet', '--keep-alive', 'posix', folder];
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (bytes: Buffer) => (output += String(bytes)));
    const server = new S3Server(`http://127.0.0.1:${port}`, child, folder);
    while (!(await answers(server.origin))) {
      if (child.exitCode !== null) throw new Error(`versitygw ended:\n${output}`);
      await delay(50);
    }
    return server;
  }

  private constructor(origin: string, child: ChildProcess, folder: string) {
    this.origin = origin;
    this.#child = child;
    this.#folder = folder;
  }

  /** @returns the address of a new bucket */
  async createBucket(): Promise<string> {
    const url = `${this.origin}/bucket-${this.#numBuckets++}`;
    const client = new AwsClient({ ...CREDENTIALS, region: REGION, service: 's3' });
    const response = await client.fetch(url, { method: 'PUT' });
    if (!response.ok) throw new Error(await response.text());
    return url;
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode === null) {
      this.#child.kill('SIGTERM');
      await once(this.#child, 'exit');
    }
    await rm(this.#folder, { recursive: true, force: true });
  }
}

async function answers(origin: string): Promise<boolean> {
  try {
    await (await fetch(origin)).text();
    return true;
  } catch {
    return false;
  }
}
