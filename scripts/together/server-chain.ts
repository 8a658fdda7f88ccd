import { DatabaseSync } from 'node:sqlite';

/** One operation of a model, as SkyRL's database has it. */
interface Operation {
  readonly request_type: string;
  readonly request_data: string;
}

/** How a state on a SkyRL server came to be. */
export interface StateChain {
  /** Steps of the optimizer with a length, from the fresh adapter to this state. */
  readonly numSteps: number;
  /** Models that it went through, the last one first. */
  readonly modelIds: readonly string[];
}

/**
 * Follows a state back to the fresh adapter that it began with, by what the server itself wrote down: a model that was begun with a loaded state is gone on with in
 * the model that saved it. Nothing that this service says of itself comes into it.
 *
 * @param address `tinker://<model>/weights/<name>`
 * @throws {Error} where the server's own record has a gap
 */
export function stateChain(databasePath: string, address: string): StateChain {
  const database = new DatabaseSync(databasePath, { readOnly: true });
  try {
    const modelIds: string[] = [];
    let numSteps = 0;
    let at: { modelId: string; name: string } | null = partsOf(address);
    while (at !== null) {
      const { modelId, name }: { modelId: string; name: string } = at;
      modelIds.push(modelId);
      const operations = completedOperations(database, modelId);
      const saved = operations.findIndex((one) => one.request_type === 'save_weights' && dataOf(one)['path'] === name);
      if (saved === -1) throw new Error(`SkyRL has not saved ${name} of ${modelId}`);
      const before = operations.slice(0, saved);
      numSteps += before.filter(movesWeights).length;
      const loads = before.filter((one) => one.request_type === 'load_weights').map(dataOf);
      if (loads.length > 1) throw new Error(`${modelId} has loaded ${loads.length} states`);
      const [load] = loads;
      at =
        load === undefined ? null : { modelId: String(load['source_model_id']), name: String(load['checkpoint_id']) };
    }
    return { numSteps, modelIds };
  } finally {
    database.close();
  }
}

function completedOperations(database: DatabaseSync, modelId: string): Operation[] {
  const rows = database
    .prepare(
      `select request_type, request_data from futures where model_id = ? and lower(status) = 'completed' order by request_id`,
    )
    .all(modelId);
  return rows.map((row) => ({
    request_type: String(row['request_type']).toLowerCase(),
    request_data: String(row['request_data']),
  }));
}

function dataOf({ request_data: data }: Operation): Record<string, unknown> {
  return JSON.parse(data) as Record<string, unknown>;
}

/** A step of no length tells a norm and moves nothing. */
function movesWeights(operation: Operation): boolean {
  if (operation.request_type !== 'optim_step') return false;
  const { adam_params: params } = dataOf(operation) as { adam_params: { learning_rate: number } };
  return params.learning_rate > 0;
}

function partsOf(address: string): { modelId: string; name: string } {
  const parts = /^tinker:\/\/([^/]+)\/weights\/([^/]+)$/.exec(address);
  if (parts === null) throw new Error(`${address} is no address of a state`);
  return { modelId: parts[1]!, name: parts[2]! };
}
