import type { Access } from '../access.ts';
import type { Exports } from './exports.ts';
import { createExport, deleteExport, finishExport } from './transfer-lifecycle.ts';

export function sqlExports({ tables, now, write, writeAnswered }: Access): Exports {
  return {
    create: (input) =>
      writeAnswered(
        (own) => createExport(own, input, now()),
        () => input.completes,
      ),
    get: async (exportId) => await tables.exports.get(exportId),
    list: async (query) => await tables.exports.list(query),
    finish: (exportId, fencingToken, outcome) =>
      write((own) => finishExport(own, { jobId: exportId, fencingToken }, outcome, now())),
    delete: (exportId, completes) =>
      writeAnswered(
        (own) => deleteExport(own, exportId, now()),
        () => completes,
      ),
  };
}
