import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { promisify } from 'node:util';

import { hasPythonEnvironment, hasPythonFor, pythonEnvironment } from '../../scripts/lib/python-environment.mjs';
import type { OwnService } from '../../scripts/own-service.ts';

const ROOT = resolve(import.meta.dirname, '../..');
/** Importing the client and its dependencies takes seconds; training takes longer on a busy machine. */
export const ART_TIMEOUT_MS = 600_000;

/** `art`: 0.5.18, for Python 3.11; `art-newest`: 0.5.23, for Python 3.12 and newer. */
export type ArtRelease = 'art' | 'art-newest';

/** True if the ART client is installed. CI must have it, if there is a Python for it. */
async function hasArtClient(release: ArtRelease = 'art'): Promise<boolean> {
  const hasPython = await hasPythonEnvironment(ROOT, release);
  if (!hasPython && process.env['CI'] !== undefined && (await hasPythonFor(release))) {
    throw new Error('CI must run the ART client: "node scripts/bootstrap.mjs --python" shows the reason');
  }
  return hasPython;
}

/** Installed releases, for `describe.each`. */
export async function installedArtReleases(): Promise<ArtRelease[]> {
  const releases: ArtRelease[] = ['art', 'art-newest'];
  const isInstalled = await Promise.all(releases.map((release) => hasArtClient(release)));
  return releases.filter((_, index) => isInstalled[index]);
}

/**
 * Runs a script of tests/clients with the service.
 * @param environment added to the script's
 * @returns its reported object
 */
export async function runArtClient<Report>(
  script: string,
  service: Pick<OwnService, 'url' | 'apiKey'>,
  release: ArtRelease = 'art',
  environment: Readonly<Record<string, string>> = {},
): Promise<Report> {
  const { stdout } = await promisify(execFile)(
    pythonEnvironment(ROOT, release).python,
    [resolve(ROOT, 'tests/clients', script), service.url, service.apiKey, 'HuggingFaceTB/SmolLM2-135M-Instruct'],
    // litellm, a dependency of the client, would fetch a price list at import.
    {
      env: { ...process.env, LITELLM_LOCAL_MODEL_COST_MAP: 'True', WANDB_API_KEY: '', ...environment },
      timeout: ART_TIMEOUT_MS,
      maxBuffer: 64e6,
    },
  );
  return JSON.parse(/^REPORT (.*)$/m.exec(stdout)![1]!) as Report;
}
