import { parseArgs, type ParseArgsConfig } from 'node:util';

import { UsageError } from './command.ts';

/** `parseArgs` of Node whose refusals are usage errors. @throws {UsageError} */
export function parseOptions<Config extends ParseArgsConfig>(config: Config): ReturnType<typeof parseArgs<Config>> {
  try {
    return parseArgs(config);
  } catch (error) {
    throw new UsageError((error as Error).message.replaceAll('\n', ' '), { cause: error });
  }
}
