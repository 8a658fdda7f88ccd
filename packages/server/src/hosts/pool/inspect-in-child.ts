import { fileURLToPath } from 'node:url';

import { askHost } from '../process/ask-host.ts';
import type { OpenEngineOptions } from '../inference/open-engine.ts';
import type { InspectedModel } from './inspect-model.ts';

/**
 * Inspects a model file in a child process.
 * @throws {ServerError} `server.host_failed_to_start`, with the reason: a missing or corrupt file, a full
 * disk
 */
export function inspectInChild(options: OpenEngineOptions, log: (line: string) => void): Promise<InspectedModel> {
  const modulePath = fileURLToPath(new URL('./inspection-host.ts', import.meta.url));
  return askHost({ name: 'inspection', modulePath, options, file: options.modelPath, log });
}
