/**
 * Records the requests and answers of a real SkyRL: the reference for the fake server of packages/tinker.
 *
 *   npm run lab -- record-tinker    installs SkyRL 0.4.0 first (6.3 GB in .cache), then a minute or two
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { converse } from '@trainyard/tinker/testing';

import { ensureHuggingFaceModel } from '../hugging-face/model.ts';
import { ensureSkyrl, startSkyrl } from './skyrl-server.mjs';
import { prepareTestModel } from '../../scripts/lib/test-model.mjs';

const ROOT = resolve(import.meta.dirname, '../..');
const RECORDING = join(ROOT, 'packages/tinker/src/testing/recordings/skyrl-0.4.0.json');

const log = (line: string): void => console.log(`record:tinker: ${line}`);
await ensureSkyrl(ROOT, log);
const { TRAINYARD_TEST_MODEL_SMALL: modelPath } = prepareTestModel(ROOT, process.env, log);
const folder = mkdtempSync(join(tmpdir(), 'trainyard-record-'));
const modelFolder = join(folder, 'model');
await ensureHuggingFaceModel(modelPath, 'small', modelFolder, log);
const skyrl = await startSkyrl(ROOT, { modelFolder, workFolder: folder, maxRank: 4 });
try {
  const exchanges = await converse(skyrl.url);
  writeFileSync(RECORDING, `${JSON.stringify(exchanges, null, 2)}\n`);
  log(`${exchanges.length} answers are in ${RECORDING}`);
} finally {
  await skyrl.stop();
  rmSync(folder, { recursive: true });
}
