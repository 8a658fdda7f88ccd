/**
 * Main module of a copy host: makes the GGUF file of one base model and ends. It reads and writes gigabytes, which
 * would delay the requests of a service that runs.
 */
import { copySource, modelCopy } from '@trainyard/trainer';

import { answerAsHost, hostOptions } from '../process/host-main.ts';
import type { CopiedModel, CopyOptions } from './copy-in-child.ts';

const { path, chatTemplate, directory } = hostOptions<CopyOptions>();

await answerAsHost(async (): Promise<CopiedModel> => {
  const source = copySource(path, chatTemplate);
  return { path: source === null ? path : await modelCopy(source, { directory }) };
});
