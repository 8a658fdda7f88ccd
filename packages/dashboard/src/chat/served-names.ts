/** A name that answers, with its steps. */
export interface ServedName {
  readonly name: string;
  /** Newest first; empty for base models and imported adapters. */
  readonly steps: readonly number[];
}

const STEP = /:step(\d+)$/;
/** Steps offered for a model; any other can be typed. */
const MAX_OFFERED = 30;

/** Groups the served names by model: trained models first, the newest at the top. @param names oldest first */
export function servedNames(names: readonly string[]): ServedName[] {
  const models = new Map<string, number[]>();
  for (const name of names) {
    const step = STEP.exec(name)?.[1];
    const bare = name.replace(STEP, '');
    const steps = models.get(bare) ?? [];
    if (step !== undefined) steps.push(Number(step));
    models.set(bare, steps);
  }
  const all = Array.from(models, ([name, steps]) => ({ name, steps: steps.toSorted((a, b) => b - a) }));
  return [
    ...all.filter(({ steps }) => steps.length > 0).toReversed(),
    ...all.filter(({ steps }) => steps.length === 0),
  ];
}

/** A model and a step of it; null: the latest. */
export function splitName(model: string): { name: string; step: number | null } {
  const step = STEP.exec(model)?.[1];
  return { name: model.replace(STEP, ''), step: step === undefined ? null : Number(step) };
}

/** Steps to offer: the newest, the first, which is the model before training, and the chosen one. */
export function offeredSteps(steps: readonly number[], chosen: number | null): number[] {
  const offered = new Set([...steps.slice(0, MAX_OFFERED), ...steps.slice(-1), ...(chosen === null ? [] : [chosen])]);
  return [...offered].toSorted((a, b) => b - a);
}
