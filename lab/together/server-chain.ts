import { DatabaseSync } from 'node:sqlite';

/** One operation of a model in SkyRL's database. */
interface Operation {
  readonly request_type: string;
  readonly request_data: string;
}

/** Origin of a state on a SkyRL server. */
export interface StateChain {
  /** Optimizer steps with an effect, from the fresh adapter to this state. */
  readonly numSteps: number;
  /** Models on its path, the last one first. */
  readonly modelIds: readonly string[];
}

/**
 * Follows a state back to its initial fresh adapter, by the server's own records: a model that started from a
 * loaded state continues with the model that saved it. Uses no data of this service.
 * @param address `tinker://<model>/weights/<name>`
 * @throws {Error} if the server's records have a gap
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

/** A step without a learning rate only reports a norm. */
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
