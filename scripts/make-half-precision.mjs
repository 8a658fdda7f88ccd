/**
 * Writes the half-precision copy of a GGUF file, as the service does for a model in training.
 *
 *   node --conditions=@trainyard/source scripts/make-half-precision.mjs <from> <to>
 */
import { availableParallelism } from 'node:os';

import { quantizeModel } from '@trainyard/native';

const [from, to] = process.argv.slice(2);
if (from === undefined || to === undefined) throw new Error('Expected two paths: <from> <to>');
quantizeModel(from, to, 'f16', availableParallelism());
