import { fileURLToPath } from 'node:url';

import { askHost } from '../process/ask-host.ts';

export interface CopyOptions {
  /** GGUF file, or folder in the Hugging Face format. */
  readonly path: string;
  /** File of a chat template that replaces the model's; null: the model's stays. */
  readonly chatTemplate: string | null;
  /** Folder of the copy. One process at a time makes copies in it. */
  readonly directory: string;
}

export interface CopiedModel {
  /** The copy, or the given file if it needs none. */
  readonly path: string;
}

/**
 * Makes the GGUF file of a base model in a child process, unless it is there.
 * @throws {ServerError} `server.host_failed_to_start`, with the reason; the reason of an aborted signal
 */
export function copyInChild(
  options: CopyOptions,
  { log, signal }: { readonly log: (line: string) => void; readonly signal: AbortSignal },
): Promise<CopiedModel> {
  const modulePath = fileURLToPath(new URL('./copy-host.ts', import.meta.url));
  return askHost({ name: 'copy', modulePath, options, log, signal });
}
