import type { AdoptedCheckpoint, Blobs, Store } from '@trainyard/store';
import { loraOfCheckpoint } from '@trainyard/trainer';

import { MANIFEST_FILE, readManifest } from '../seams/data/checkpoint-manifest.ts';
import { trainMetrics } from './job-events.ts';

const RECOVERED_PROJECT = 'recovered';

export interface AdoptionParts {
  readonly store: Pick<Store, 'clock' | 'files' | 'models'>;
  readonly blobs: Blobs;
  /**
   * Owner and base model of checkpoints from older releases; without a base model such checkpoints stay as
   * they are.
   */
  readonly entity: string;
  readonly baseModel: string | null;
  readonly log: (line: string) => void;
}

/**
 * Creates rows for checkpoints in the blobs that the database lacks: models, steps and metrics, as described
 * in their folders. Does not change the blobs. Checkpoints of releases without manifests become models of
 * their own in the project `recovered`.
 */
export async function adoptBlobs(parts: AdoptionParts): Promise<void> {
  const { store, blobs, log } = parts;
  const named = new Set((await store.files.listReferenced()).directoryKeys);
  const keys = (await blobs.listDirectories('checkpoints/')).filter((key) => !named.has(key));
  const found: AdoptedCheckpoint[] = [];
  for (const key of keys) {
    const checkpoint = await describe(key, parts);
    if (checkpoint === null) log(`The checkpoint ${key} cannot be adopted: its folder has no description. It is kept.`);
    else found.push(checkpoint);
  }
  // If an attempt that lost its lease left a second one for a step, the later counts.
  found.sort((one, two) => one.step - two.step || two.createdAt - one.createdAt);
  let numAdopted = 0;
  const models = new Set<string>();
  for (const checkpoint of found) {
    const { kind, model } = await store.models.adopt(checkpoint);
    const name = model === null ? null : `${model.entity}/${model.project}/${model.name}`;
    if (kind === 'adopted') {
      numAdopted += 1;
      if (model !== null) models.add(model.id);
      log(`Adopted step ${checkpoint.step} of ${name} (${checkpoint.directoryKey}).`);
    } else if (name === null)
      log(`The model of the checkpoint ${checkpoint.directoryKey} was deleted; the files are kept.`);
    else log(`Step ${checkpoint.step} of ${name} already exists: ${checkpoint.directoryKey} is kept without a row.`);
  }
  log(`Adopted ${numAdopted} of ${keys.length} unknown checkpoints, of ${models.size} models.`);
}

/** Null if the folder does not describe it fully. */
async function describe(key: string, parts: AdoptionParts): Promise<AdoptedCheckpoint | null> {
  const { blobs } = parts;
  const digest = await textOf(blobs, key, 'digest');
  if (digest === null) return null;
  const bytes = await blobs.readDirectoryFile(key, MANIFEST_FILE);
  const manifest = bytes === null ? null : readManifest(bytes);
  const common = { directoryKey: key, digest, ...(await metricsOf(blobs, key)) };
  if (manifest === null) return await describeOld(key, common, parts);
  const { entity, project, name, model_id: modelId, base_model: baseModel, lora, step } = manifest;
  const { warm_start: start, created_at: createdAt } = manifest;
  const directoryKey = start?.directory_key ?? null;
  const warmStart =
    start === null || directoryKey === null
      ? null
      : { source: start.source, directoryKey, digest: await textOf(blobs, directoryKey, 'digest') };
  return { ...common, entity, project, name, modelId, baseModel, lora, warmStart, step, createdAt };
}

/** Only from its adapter: its model and step are unknown. */
async function describeOld(
  key: string,
  common: Pick<AdoptedCheckpoint, 'directoryKey' | 'digest' | 'metrics' | 'rolloutMetrics'>,
  { blobs, store, entity, baseModel }: AdoptionParts,
): Promise<AdoptedCheckpoint | null> {
  const config = await textOf(blobs, key, 'adapter_config.json');
  if (config === null || baseModel === null) return null;
  const shape = loraOfCheckpoint(config);
  if (shape === null) return null;
  const lora = { ...shape, initSeed: 0 };
  const modelId = key.slice(key.lastIndexOf('/') + 1);
  const name = `checkpoint-${modelId.slice(0, 8)}`;
  const model = { entity, project: RECOVERED_PROJECT, name, modelId, baseModel, lora, warmStart: null };
  return { ...common, ...model, step: 1, createdAt: store.clock.now() };
}

async function metricsOf(blobs: Blobs, key: string): Promise<ReturnType<typeof trainMetrics>> {
  const text = await textOf(blobs, key, 'metrics.json');
  try {
    const values = JSON.parse(text ?? '{}') as Record<string, unknown>;
    const numbers = Object.entries(values).filter((entry): entry is [string, number] => Number.isFinite(entry[1]));
    return trainMetrics(Object.fromEntries(numbers));
  } catch {
    return trainMetrics({});
  }
}

async function textOf(blobs: Blobs, key: string, path: string): Promise<string | null> {
  const bytes = await blobs.readDirectoryFile(key, path);
  const text = bytes === null ? '' : Buffer.from(bytes).toString('utf8').trim();
  return text === '' ? null : text;
}
