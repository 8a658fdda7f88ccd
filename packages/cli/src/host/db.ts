import { formatMegabytes } from '@trainyard/protocol/fields';
import type { TableDigest } from '@trainyard/server';
import type { Command } from 'commander';

import { UsageError } from '../terminal/command-error.ts';
import { interruption } from '../terminal/interrupted.ts';
import { newCommand, withExamples } from '../terminal/new-command.ts';
import { printJson } from '../terminal/print-json.ts';
import { tableFor } from '../terminal/table.ts';

interface MoveOptions {
  readonly from: string;
  readonly to: string;
  readonly blobsFrom?: string;
  readonly blobsTo?: string;
  readonly bucketRegion: string;
  readonly json?: true;
}

/** `trainyard db`: operations on the database. */
export function dbCommand(): Command {
  return newCommand('db', 'copy the database between a data folder and PostgreSQL').addCommand(moveCommand());
}

function moveCommand(): Command {
  const move = newCommand('move', 'copy a database into an empty one, and compare every row')
    .description(
      'Copies a database into an empty one, reads the copy back, and prints the row count and digest of each table. The source is not changed. ' +
        'No service may run on either. If the copy fails, the target stays empty.',
    )
    .requiredOption('--from <PLACE>', 'source: a data folder, or postgres://USER@HOST:PORT/DATABASE')
    .requiredOption('--to <PLACE>', 'target, empty: a data folder, or postgres://USER@HOST:PORT/DATABASE')
    .option('--blobs-from <PLACE>', 'also copy blobs from this data folder or https://HOST/BUCKET[/PREFIX]')
    .option('--blobs-to <PLACE>', 'target of the blobs')
    .option('--bucket-region <REGION>', 'region of the bucket', 'us-east-1')
    .option('--json', 'one JSON object: {"digest", "tables": [{"table", "numRows", "digest"}], "files"}');
  withExamples(move, [
    'trainyard db move --from .trainyard --to postgres://trainyard@db.example/trainyard',
    'trainyard db move --from .trainyard --to postgres:// --blobs-from .trainyard --blobs-to https://s3.example/bucket',
  ]);
  return move.action(async ({ from, to, blobsFrom, blobsTo, bucketRegion, json }: MoveOptions) => {
    if ((blobsFrom === undefined) !== (blobsTo === undefined))
      throw new UsageError('--blobs-from and --blobs-to must be used together');
    const blobs =
      blobsFrom === undefined || blobsTo === undefined ? null : { from: blobsFrom, to: blobsTo, region: bucketRegion };
    const { digestOf, moveData } = await import('@trainyard/server');
    const { tables, files } = await moveData({ from, to, blobs }, { signal: interruption() });
    const sizeBytes = files.reduce((sum, file) => sum + file.sizeBytes, 0);
    const digest = digestOf(tables);
    if (json === true) printJson({ digest, tables, files: { number: files.length, sizeBytes } });
    else printReport({ tables, digest, numFiles: files.length, sizeBytes });
  });
}

interface MoveReport {
  readonly tables: readonly TableDigest[];
  /** of all tables */
  readonly digest: string;
  readonly numFiles: number;
  readonly sizeBytes: number;
}

function printReport({ tables, digest, numFiles, sizeBytes }: MoveReport): void {
  const columns = [{ title: 'table' }, { title: 'rows', isNumber: true }, { title: 'digest' }];
  const lines = tables.map((table) => [table.table, String(table.numRows), table.digest.slice(0, 16)]);
  process.stdout.write(tableFor(process.stdout, columns, lines));
  const rows = tables.reduce((sum, { numRows }) => sum + numRows, 0);
  process.stdout.write(`\n${rows} rows, digest ${digest}, the same in both\n`);
  if (numFiles > 0)
    process.stdout.write(`${numFiles} files of blobs, ${formatMegabytes(sizeBytes)}, each checked by its SHA-256\n`);
}
