import { ArtifactTable } from './artifact-table.ts';
import { AdapterTable } from './adapter-table.ts';
import { ChoiceRecordTable } from './choice-record-table.ts';
import { CheckpointTable } from './checkpoint-table.ts';
import type { Database } from './database.ts';
import { EventTable } from './event-table.ts';
import { ExportTable } from './export-table.ts';
import { IdempotencyTable } from './idempotency-table.ts';
import { JobTable } from './job-table.ts';
import { KeyTable } from './key-table.ts';
import { LogTable } from './log-table.ts';
import { ModelTable } from './model-table.ts';

/** All tables of one database. Their methods are steps of a transaction that the store opens. */
export interface Tables {
  readonly artifacts: ArtifactTable;
  readonly keys: KeyTable;
  readonly models: ModelTable;
  readonly checkpoints: CheckpointTable;
  readonly jobs: JobTable;
  readonly events: EventTable;
  readonly logs: LogTable;
  readonly exports: ExportTable;
  readonly adapters: AdapterTable;
  readonly choiceRecords: ChoiceRecordTable;
  readonly idempotency: IdempotencyTable;
}

export function openTables(database: Database): Tables {
  return {
    artifacts: new ArtifactTable(database),
    keys: new KeyTable(database),
    models: new ModelTable(database),
    checkpoints: new CheckpointTable(database),
    jobs: new JobTable(database),
    events: new EventTable(database),
    logs: new LogTable(database),
    exports: new ExportTable(database),
    adapters: new AdapterTable(database),
    choiceRecords: new ChoiceRecordTable(database),
    idempotency: new IdempotencyTable(database),
  };
}
