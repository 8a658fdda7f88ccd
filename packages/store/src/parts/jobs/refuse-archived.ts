import { StoreError } from '../../contract/errors.ts';

interface NamedModel {
  readonly entity: string;
  readonly project: string;
  readonly name: string;
  readonly archivedAt: number | null;
}

/** @throws {StoreError} `store.model_archived` for an archived model, which takes no training jobs */
export function refuseArchived({ entity, project, name, archivedAt }: NamedModel): void {
  if (archivedAt === null) return;
  throw new StoreError(
    'store.model_archived',
    `The model ${entity}/${project}/${name} is archived, and takes no training jobs. Restore it first: PATCH with \`is_archived: false\``,
  );
}
