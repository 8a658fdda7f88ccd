/** A process that pulls a model, for tests that kill it. */
import { readHubSettings } from './hub-settings.ts';
import { readModelReference } from './model-reference.ts';
import { pullModel } from './pull-model.ts';

const reference = readModelReference(process.argv[2] ?? '');
if (reference === null) throw new Error('usage: pull.fixture.ts REFERENCE');
await pullModel(reference, { settings: readHubSettings(process.env), refreshes: true });
