import { formatMegabytes } from '@trainyard/protocol/fields';
import type { backUpData } from '@trainyard/server';
import type { Command } from 'commander';

import { interruption } from '../terminal/interrupted.ts';
import { newCommand, withExamples } from '../terminal/new-command.ts';
import { printJson } from '../terminal/print-json.ts';
import type { JsonOption } from '../terminal/service-connection.ts';
import { addSettingOptions, type SettingOptions, settingsOf } from './settings.ts';

type BackupOptions = SettingOptions & JsonOption;
type Manifest = Awaited<ReturnType<typeof backUpData>>;

const JSON_HELP = 'one JSON object: {"folder", "madeAt", "digest", "rows", "files", "bytes"}';

/** `trainyard backup`: the data of a service as a folder. */
export function backupCommand(): Command {
  const backup = newCommand('backup', 'back up the service to a new folder, also while it runs')
    .description(
      'Writes a consistent copy of the database, and the checkpoints, exports, uploads and trajectories that it refers to, into a new folder. ' +
        'Base models, snapshots of running jobs and the key file are not included.',
    )
    .argument('<FOLDER>', 'folder that does not exist yet')
    .option('--json', JSON_HELP);
  withExamples(backup, ['trainyard backup /backups/monday', 'trainyard backup ./copy --database postgres://']);
  return addSettingOptions(backup).action(async (folder: string, { json, ...settings }: BackupOptions) => {
    // Written files are private to their owner.
    process.umask(0o077);
    const { backUpData } = await import('@trainyard/server');
    const manifest = await backUpData(settingsOf(settings), folder, { signal: interruption() });
    report(folder, manifest, json === true, 'written to');
  });
}

/** `trainyard restore`: the reverse of a backup. */
export function restoreCommand(): Command {
  const restore = newCommand('restore', 'restore a backup into an empty data folder or database')
    .description('Checks the whole backup first, and verifies everything it wrote.')
    .argument('<FOLDER>', 'folder written by "trainyard backup"')
    .option('--json', JSON_HELP);
  withExamples(restore, [
    'trainyard restore /backups/monday --data-dir ./restored',
    'trainyard restore /backups/monday --database postgres:// --bucket https://s3.example/bucket',
  ]);
  return addSettingOptions(restore).action(async (folder: string, { json, ...settings }: BackupOptions) => {
    process.umask(0o077);
    const { restoreData } = await import('@trainyard/server');
    const manifest = await restoreData(settingsOf(settings), folder, { signal: interruption() });
    report(folder, manifest, json === true, 'restored from');
  });
}

function report(folder: string, { madeAt, digest, tables, files }: Manifest, isJson: boolean, done: string): void {
  const rows = tables.reduce((sum, { numRows }) => sum + numRows, 0);
  const bytes = files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  if (isJson) return printJson({ folder, madeAt, digest, rows, files: files.length, bytes });
  process.stdout.write(
    `${rows} rows (digest ${digest}) and ${files.length} files of blobs (${formatMegabytes(bytes)}) ${done} ${folder}, made at ${madeAt}\n`,
  );
}
