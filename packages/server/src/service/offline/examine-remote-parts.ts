import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import type { BlobLocation, Finding } from '@trainyard/store';

import { BodyThread } from '../../gateway/trajectory-bodies/body-thread-client.ts';
import { does } from '../../seams/contract/role.ts';
import { askHost } from '../../hosts/process/ask-host.ts';
import { blobSecrets } from '../../hosts/process/child-environment.ts';
import { VLLM_KEY_VARIABLE } from '../../hosts/inference/vllm-driver.ts';
import { EXAMINED_TRAINER_KEY, type RemotePart } from '../../hosts/remote/remote-part.ts';
import type { ServiceConfig } from '../settings/config.ts';
import { openTracker } from '../../jobs/tracking/tracker-drivers.ts';

/** Time limit for the tracker's answer. */
const TRACKER_TIMEOUT_MS = 10_000;

/**
 * Checks every remote part of the service, each from the kind of process that uses it: hosts and threads have
 * their own environment. The database, and the bucket from this process, belong to `examineDatabase` and
 * `examineCluster`.
 */
export async function* examineRemoteParts(config: ServiceConfig): AsyncGenerator<Finding> {
  const { role, bucket, models, vllm, trainer, tracker } = config;
  if (bucket !== null && does(role, 'api')) yield await fromBodyThread(bucket);
  if (bucket !== null && does(role, 'trainer'))
    yield* await fromHost({ kind: 'bucket', location: bucket }, blobSecrets(bucket));
  if (does(role, 'engine'))
    for (const url of models.flatMap(({ vllmUrls }) => vllmUrls))
      yield* await fromHost({ kind: 'vllm', url, model: vllm.model ?? null }, secretOf(VLLM_KEY_VARIABLE, vllm.apiKey));
  if (trainer !== null && does(role, 'trainer')) {
    const { url, profile, baseModel, apiKey } = trainer;
    yield* await fromHost(
      { kind: 'trainer', remote: { url, profile, baseModel } },
      secretOf(EXAMINED_TRAINER_KEY, apiKey),
    );
  }
  if (tracker !== null && does(role, 'api')) yield await trackerFinding(tracker);
}

async function fromHost(options: RemotePart, secrets: Readonly<Record<string, string>>): Promise<readonly Finding[]> {
  const modulePath = fileURLToPath(new URL('../../hosts/remote/examination-host.ts', import.meta.url));
  const question = { name: 'examination', modulePath, options, secrets, log: () => undefined };
  try {
    return (await askHost<{ findings: readonly Finding[] }>(question)).findings;
  } catch (error) {
    return [{ name: options.kind, subject: 'a look from a child process', problem: (error as Error).message }];
  }
}

/** With a temporary empty cache, so that the check writes nothing to the data folder. */
async function fromBodyThread(bucket: Extract<BlobLocation, { kind: 's3' }>): Promise<Finding> {
  const cacheDirectory = await mkdtemp(join(tmpdir(), 'trainyard-look-'));
  const thread = new BodyThread({ blobs: { ...bucket, cacheDirectory } }, () => undefined);
  const { host, pathname } = new URL(bucket.url);
  const subject = `bucket ${host}${pathname}, from the thread that reads large bodies`;
  try {
    await thread.check();
    return { name: 'blobs', subject, problem: null };
  } catch (error) {
    return { name: 'blobs', subject, problem: (error as Error).message };
  } finally {
    await thread.close();
    await rm(cacheDirectory, { recursive: true, force: true });
  }
}

async function trackerFinding(setting: string): Promise<Finding> {
  // The address may contain a password.
  const { host } = new URL(setting.replace(/^[a-z]+:/, ''));
  const subject = `tracker at ${host}`;
  try {
    await openTracker(setting).check(AbortSignal.timeout(TRACKER_TIMEOUT_MS));
    return { name: 'tracker', subject, problem: null };
  } catch (error) {
    return { name: 'tracker', subject, problem: (error as Error).message };
  }
}

function secretOf(variable: string, secret: string | null): Record<string, string> {
  return secret === null ? {} : { [variable]: secret };
}
