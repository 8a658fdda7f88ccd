import { formatMegabytes } from '@trainyard/protocol/fields';
import type { StoredBase } from '@trainyard/server';
import { resolveConfig, type ServiceConfig } from '@trainyard/server/settings';
import type { Command } from 'commander';

import { CommandError, UsageError } from '../terminal/command-error.ts';
import { confirm } from '../terminal/confirm.ts';
import { newCommand, withExamples } from '../terminal/new-command.ts';
import { counted, oneLine } from '../terminal/printable.ts';
import { printJson } from '../terminal/print-json.ts';
import type { JsonOption } from '../terminal/service-connection.ts';
import { tableOf, widthOf } from '../terminal/table.ts';

type BasesOptions = JsonOption & { readonly dataDir?: string };

const DATA_DIR_HELP = 'data folder with converted copies (default: TRAINYARD_DATA_DIR or .trainyard)';

/** `trainyard models bases`: files of base models on this machine. */
export function basesCommand(): Command {
  return newCommand('bases', 'list and remove files of base models on this machine')
    .addCommand(listCommand())
    .addCommand(removeCommand());
}

function listCommand(): Command {
  const command = newCommand('list', 'list models in the cache of the hub, and copies that starts have made')
    .option('--data-dir <FOLDER>', DATA_DIR_HELP)
    .option('--json', 'an array of objects with kind, name, path, size_bytes, partial_bytes, source, is_orphan');
  withExamples(command, [
    'trainyard models bases list',
    "trainyard models bases list --json | jq 'map(.size_bytes) | add'",
  ]);
  return command.action(async (options: BasesOptions) => {
    const { listStoredBases } = await import('@trainyard/server');
    const bases = listStoredBases(configOf(options));
    if (options.json === true) printJson(bases.map(toJson));
    else if (bases.length === 0) process.stdout.write('no base model is stored here; "trainyard pull" downloads one\n');
    else process.stdout.write(tableOfBases(bases));
  });
}

function removeCommand(): Command {
  const command = newCommand('remove', 'remove a model from the cache of the hub, or a copy')
    .argument('[NAME]', 'name in the list')
    .option('--orphans', 'remove all copies of folders and files that are gone')
    .option('--data-dir <FOLDER>', DATA_DIR_HELP)
    .option('-y, --yes', 'do not ask for confirmation; required without a terminal')
    .option('--json', '{"removed": …}, an array of names');
  withExamples(command, [
    'trainyard models bases remove Qwen/Qwen3-0.6B',
    'trainyard models bases remove --orphans --yes',
  ]);
  return command.action(
    async (name: string | undefined, { orphans, yes, ...options }: BasesOptions & { orphans?: true; yes?: true }) => {
      if ((name === undefined) === (orphans === undefined)) throw new UsageError('pass a NAME, or --orphans');
      const { listStoredBases, removeStoredBase } = await import('@trainyard/server');
      const config = configOf(options);
      const all = listStoredBases(config);
      const chosen = all.filter((base) => (name === undefined ? base.isOrphan : base.name === name));
      if (name !== undefined && chosen.length === 0)
        throw new CommandError(
          `no base model ${oneLine(name)} is stored here; "trainyard models bases list" lists them`,
        );
      const bytes = formatMegabytes(chosen.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0));
      if (yes === undefined && chosen.length > 0)
        await confirm(`remove ${name === undefined ? counted(chosen.length, 'file') : oneLine(name)} (${bytes})?`);
      for (const base of chosen) removeStoredBase(base, config);
      if (options.json === true) printJson({ removed: chosen.map((base) => base.name) });
      else if (chosen.length === 0) process.stdout.write('nothing to remove\n');
      else process.stdout.write(`removed ${chosen.map((base) => oneLine(base.name)).join(', ')} (${bytes})\n`);
    },
  );
}

function configOf({ dataDir }: BasesOptions): ServiceConfig {
  const flags = dataDir === undefined ? {} : { dataDir };
  return resolveConfig({ flags, environment: process.env, configPath: null });
}

function tableOfBases(bases: readonly StoredBase[]): string {
  const columns = [{ title: 'base model' }, { title: 'size', isNumber: true }, { title: 'kind' }, { title: '' }];
  const rows = bases.map((base) => [base.name, formatMegabytes(base.sizeBytes), base.kind, noteOf(base)]);
  const total = formatMegabytes(bases.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0));
  return tableOf(columns, [...rows, ['sum', total, '', '']], widthOf(process.stdout));
}

function noteOf({ kind, partialBytes, source, isOrphan }: StoredBase): string {
  if (kind === 'hub') return partialBytes === 0 ? '' : `${formatMegabytes(partialBytes)} of an interrupted download`;
  if (source === null) return 'of an unknown folder, until the next start with it';
  return isOrphan ? `its source ${source} is gone` : `of ${source}`;
}

function toJson({ kind, name, path, sizeBytes, partialBytes, source, isOrphan }: StoredBase): object {
  return { kind, name, path, size_bytes: sizeBytes, partial_bytes: partialBytes, source, is_orphan: isOrphan };
}
